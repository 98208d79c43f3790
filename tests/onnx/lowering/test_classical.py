"""Operators of ai.onnx.ml as standard ones: ONNX Runtime's own kernels say what they compute."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import helper

from netgrad.core.errors import InvalidModelError, UnsupportedOperatorError
from netgrad.onnx.constants import FLOATS
from netgrad.onnx.lowering.lower import CLASSICAL, lowered_operators
from netgrad.onnx.prepare import prepare
from netgrad.onnx.rules.declaration import declarations
from netgrad.onnx.weights import weight_names
from netgrad.transforms.check import check
from netgrad.transforms.grad import differentiate, grad
from netgrad.transforms.inspect import inspect

Array = np.ndarray[Any, np.dtype[Any]]

RNG = np.random.default_rng(5)


def _numbers(count: int, scale: float = 1.0) -> list[float]:
    return [float(value) for value in np.round(scale * RNG.standard_normal(count), 2)]


def _drawn(*shape: int) -> Array:
    return np.round(RNG.standard_normal(shape), 2).astype(np.float32)


@dataclass
class Row:
    """One form of an operator.

    Attributes:
        type: Operator type.
        feeds: Its inputs.
        attributes: Its attributes.
        outputs: How many outputs it has.
        parameters: What is differentiated by besides the floating-point inputs, without the node's name.
        zero: Names whose gradient is zero, by definition.
    """

    type: str
    feeds: list[Array]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    parameters: tuple[str, ...] = ()
    zero: tuple[str, ...] = ()


LINEAR = ("coefficients", "intercepts")
X = _drawn(4, 3)


def _svm(kernel: str, classes: Sequence[int], **more: Any) -> dict[str, Any]:
    count, total = len(classes), sum(classes)
    pairs = count * (count - 1) // 2
    return {
        "kernel_type": kernel,
        "kernel_params": [0.4, 0.3, 3.0],
        "vectors_per_class": list(classes),
        "support_vectors": _numbers(total * 3),
        "coefficients": _numbers((count - 1) * total),
        "rho": _numbers(pairs, 0.3),
        "classlabels_ints": [7 + 2 * k for k in range(count)],
        **more,
    }


def _regression(kernel: str, **more: Any) -> dict[str, Any]:
    return {
        "kernel_type": kernel,
        "kernel_params": [0.4, 0.3, 2.0],
        "n_supports": 5,
        "support_vectors": _numbers(15),
        "coefficients": _numbers(5),
        "rho": [0.25],
        **more,
    }


def _classifier(classes: int, labels: int, transform: str = "NONE", **more: Any) -> Row:
    given = {"classlabels_ints": [3 * k for k in range(labels)]} if labels else {}
    attributes = {
        "coefficients": _numbers(3 * classes),
        "intercepts": _numbers(classes),
        "post_transform": transform,
        **given,
        **more,
    }
    return Row("LinearClassifier", [X], attributes, 2, LINEAR)


WITH_NAN = np.array([[1.0, np.nan, 3.0], [np.nan, 0.5, 1.0]], np.float32)
SUPPORTS = ("coefficients", "rho", "support_vectors")
TRANSFORMS = ("LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
HALVES = {"coefficients": [0.1, 0.2, -0.1, 0.05, 0.1, 0.02], "intercepts": [0.5, 0.4]}  # scores within (0, 1)

ROWS = [
    # ---- linear models
    Row("LinearRegressor", [X], {"coefficients": _numbers(3), "intercepts": [0.5]}, 1, LINEAR),
    Row(
        "LinearRegressor",
        [X],
        {"coefficients": _numbers(6), "intercepts": _numbers(2), "targets": 2},
        1,
        LINEAR,
    ),
    Row("LinearRegressor", [X], {"coefficients": _numbers(6), "targets": 2}, 1, LINEAR[:1]),
    Row("LinearRegressor", [X[0]], {"coefficients": _numbers(3), "targets": 1}, 1, LINEAR[:1]),
    *(
        Row(
            "LinearRegressor",
            [X],
            {"coefficients": _numbers(6), "targets": 2, "intercepts": _numbers(2), "post_transform": name},
            1,
            LINEAR,
        )
        for name in TRANSFORMS
    ),
    Row(
        "LinearRegressor",
        [X],
        {**HALVES, "targets": 2, "post_transform": "PROBIT"},
        1,
        LINEAR,
    ),
    Row(
        "LinearRegressor",
        [X],
        {"coefficients": [0.1, 0.2, -0.1], "targets": 1, "intercepts": [0.6], "post_transform": "PROBIT"},
        1,
        LINEAR,
    ),
    Row(
        "LinearRegressor",
        [X],
        {"coefficients": _numbers(3), "targets": 1, "intercepts": [0.6], "post_transform": "LOGISTIC"},
        1,
        LINEAR,
    ),
    *(_classifier(3, 3, name) for name in ("NONE", *TRANSFORMS)),
    _classifier(2, 2, "SOFTMAX", multi_class=1),
    _classifier(2, 2, "PROBIT", **HALVES),
    *(_classifier(1, 2, name) for name in ("NONE", *TRANSFORMS)),
    _classifier(3, 0, classlabels_strings=["red", "green", "blue"]),
    _classifier(1, 0, classlabels_strings=["no", "yes"]),
    # ---- features
    Row("Scaler", [X], {"offset": _numbers(3), "scale": _numbers(3)}, 1, ("offset", "scale")),
    Row("Scaler", [X], {"offset": [0.5], "scale": [3.0]}, 1, ("offset", "scale")),
    Row("Scaler", [X[0]], {"offset": _numbers(3), "scale": _numbers(3)}, 1, ("offset", "scale")),
    Row("Scaler", [_drawn(2, 3, 2)], {"offset": _numbers(3), "scale": _numbers(3)}, 1, ("offset", "scale")),
    Row(
        "Scaler",
        [X.astype(np.float64)],
        {"offset": _numbers(3), "scale": _numbers(3)},
        1,
        ("offset", "scale"),
    ),
    Row("Scaler", [np.array([[1, 2], [5, 3]])], {"offset": [1.0, 0.5], "scale": [2.0, 3.0]}, 1, ("scale",)),
    *(Row("Normalizer", [X], {"norm": norm}) for norm in ("MAX", "L1", "L2")),
    *(Row("Normalizer", [X[1]], {"norm": norm}) for norm in ("MAX", "L1", "L2")),
    Row("Normalizer", [X.astype(np.float64)], {"norm": "L2"}),
    Row(
        "Imputer",
        [WITH_NAN],
        {"imputed_value_floats": [1.5, 2.5, 3.5], "replaced_value_float": float("nan")},
        1,
        ("imputed_values",),
    ),
    Row(
        "Imputer",
        [WITH_NAN],
        {"imputed_value_floats": [1.5], "replaced_value_float": float("nan")},
        1,
        ("imputed_values",),
    ),
    Row(
        "Imputer",
        [np.array([[1.0, 0.0, 3.0]], np.float32)],
        {"imputed_value_floats": [1.5, 2.5, 3.5], "replaced_value_float": 0.0},
        1,
        ("imputed_values",),
    ),
    Row("FeatureVectorizer", [X, _drawn(4, 2)], {"inputdimensions": [3, 2]}),
    Row("FeatureVectorizer", [X, _drawn(4, 2)], {"inputdimensions": [2, 4]}),
    Row("FeatureVectorizer", [X, _drawn(4, 2, 2)], {"inputdimensions": [3, 4]}),
    Row("FeatureVectorizer", [X[0], _drawn(2)], {"inputdimensions": [3, 2]}),
    Row("ArrayFeatureExtractor", [X, np.array([[2, 0]])]),
    Row("ArrayFeatureExtractor", [X[0], np.array([2, 0, 2])]),
    Row("ArrayFeatureExtractor", [_drawn(2, 2, 3), np.array([1])]),
    Row("ArrayFeatureExtractor", [X.astype(np.float64), np.array([1, 1])]),
    # ---- support vector machines
    *(
        Row("SVMRegressor", [X], _regression(kernel), 1, SUPPORTS)
        for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID")
    ),
    Row("SVMRegressor", [X], _regression("RBF"), 1, ("gamma",)),
    Row("SVMRegressor", [X], _regression("POLY"), 1, ("gamma", "coef0")),
    Row("SVMRegressor", [X[0]], _regression("RBF"), 1, SUPPORTS),
    Row(
        "SVMRegressor",
        [X],
        {"coefficients": _numbers(3), "rho": [0.5], "kernel_params": [0.1, 0.2, 3.0]},
        1,
        ("coefficients", "rho"),
    ),
    Row("SVMRegressor", [X], _regression("RBF", one_class=1), zero=("x0",)),
    *(
        Row("SVMClassifier", [X], _svm(kernel, [2, 3]), 2, SUPPORTS)
        for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID")
    ),
    Row("SVMClassifier", [X], _svm("RBF", [2, 1, 3]), 2, SUPPORTS),
    Row("SVMClassifier", [X], _svm("RBF", [2, 1, 1, 2]), 2, SUPPORTS),
    *(
        Row("SVMClassifier", [X], _svm("RBF", [2, 1, 3], post_transform=name), 2, SUPPORTS)
        for name in TRANSFORMS
    ),
    *(
        Row("SVMClassifier", [X], _svm("LINEAR", [2, 2], post_transform=name), 2, SUPPORTS)
        for name in TRANSFORMS
    ),
    Row(
        "SVMClassifier",
        [X],
        _svm("RBF", [2, 2], prob_a=[-1.3], prob_b=[0.1]),
        2,
        (*SUPPORTS, "prob_a", "prob_b"),
    ),
    Row(
        "SVMClassifier",
        [X],
        _svm("RBF", [2, 1, 3], prob_a=[-1.3, -0.7, -2.0], prob_b=[0.1, -0.2, 0.05]),
        2,
        (*SUPPORTS, "prob_a", "prob_b"),
    ),
    Row(
        "SVMClassifier",
        [X],
        _svm(
            "LINEAR", [2, 1, 1], prob_a=[-1.3, -0.7, -2.0], prob_b=[0.1, 0.2, 0.1], post_transform="SOFTMAX"
        ),
        2,
        (*SUPPORTS, "prob_a", "prob_b"),
    ),
    *(
        Row(
            "SVMClassifier",
            [X],
            {
                "coefficients": coefficients,
                "rho": [0.2],
                "kernel_params": [0.1, 0.2, 3.0],
                "classlabels_strings": labels,
            },
            2,
            ("coefficients", "rho"),
        )
        for coefficients, labels in (
            (_numbers(9), ["a", "b", "c"]),
            (_numbers(6), ["a", "b"]),
            ([0.1, 0.2, 0.3, 0.3, 0.2, 0.4], ["a", "b"]),
        )
    ),
]


def _model(row: Row, how: str) -> onnx.ModelProto:
    """The operator, with shapes that are static, symbolic or not even of known rank."""
    inputs = []
    for k, array in enumerate(row.feeds):
        dims: list[Any] | None = list(array.shape)
        if how == "symbolic":
            dims = [f"d{k}_{axis}" for axis in range(array.ndim)]
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        inputs.append(helper.make_tensor_value_info(f"x{k}", kind, None if how == "unranked" else dims))
    names = [f"y{k}" for k in range(row.outputs)]
    node = helper.make_node(
        row.type,
        [f"x{k}" for k in range(len(row.feeds))],
        names,
        "node",
        domain="ai.onnx.ml",
        **row.attributes,
    )
    float_output = helper.make_tensor_value_info(names[-1], onnx.TensorProto.FLOAT, None)
    if row.type in ("ArrayFeatureExtractor", "Imputer"):
        kind = helper.np_dtype_to_tensor_dtype(row.feeds[0].dtype)
        float_output = helper.make_tensor_value_info(names[-1], kind, None)
    texts = "classlabels_strings" in row.attributes
    label = onnx.TensorProto.STRING if texts else onnx.TensorProto.INT64
    outputs = [helper.make_tensor_value_info(name, label, None) for name in names[:-1]]
    graph = helper.make_graph([node], "row", inputs, [*outputs, float_output])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _session(proto: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    content = proto.SerializeToString()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _run(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    return [np.asarray(result) for result in _session(proto).run(None, dict(feeds))]


def _name(row: Row) -> str:
    short = [
        f"{key}={value}"
        for key, value in row.attributes.items()
        if key in ("norm", "post_transform", "kernel_type", "targets")
    ]
    return "-".join([row.type, "x".join(map(str, row.feeds[0].shape)), *short])


@pytest.mark.parametrize("how", ["static", "symbolic", "unranked"])
@pytest.mark.parametrize("row", ROWS, ids=_name)
def test_lowered_operator_computes_what_the_kernel_computes(row: Row, how: str) -> None:
    proto = _model(row, how)
    prepared = prepare(proto).model
    assert all(node.domain == "" for node in prepared.graph)
    lowered = ir.to_proto(prepared)
    if how != "unranked":  # the checker asks for the rank of every input
        onnx.checker.check_model(lowered, full_check=True)
    assert [output.name for output in prepared.graph.outputs] == [f"y{k}" for k in range(row.outputs)]
    rng = np.random.default_rng(1)
    points = [row.feeds]
    for _ in range(3):  # of scores near 0.5 with PROBIT, only near the row's own point
        width = 0.3 if row.attributes.get("post_transform") == "PROBIT" else 2.0
        points.append(
            [
                array + (width * rng.standard_normal(array.shape)).astype(array.dtype)
                if array.dtype.kind == "f"
                else array
                for array in row.feeds
            ]
        )
    for point in points:
        feeds = {f"x{k}": array for k, array in enumerate(point)}
        for want, got in zip(_run(proto, feeds), _run(lowered, feeds), strict=True):
            assert got.dtype == want.dtype
            assert got.shape == want.shape
            if want.dtype.kind == "f":
                # PROBIT is a root, which at a score of 0.5 has lost half of the digits
                atol = 3e-5 if row.attributes.get("post_transform") == "PROBIT" else 2e-6
                np.testing.assert_allclose(got, want, rtol=2e-5, atol=atol)
            else:
                np.testing.assert_array_equal(got, want)


# Support vector machines know the rank of a reshaped input: the linear models cover that form for them.
_FORMS = [(row, "static") for row in ROWS] + [(row, "unranked") for row in ROWS if "SVM" not in row.type]


@pytest.mark.parametrize(("row", "how"), _FORMS, ids=[f"{_name(row)}-{how}" for row, how in _FORMS])
def test_gradient_by_input_and_parameters(row: Row, how: str) -> None:
    feeds = {f"x{k}": array for k, array in enumerate(row.feeds)}
    wrt = [name for name, array in feeds.items() if array.dtype.kind == "f"]
    wrt += [f"node_{parameter}" for parameter in row.parameters]
    of = f"y{row.outputs - 1}"
    proto = _model(row, how)
    report = check(prepare(proto).model, feeds, wrt=wrt, of=of, elements=6)
    assert report.ok, str(report)
    assert [entry.name for entry in report.entries] == wrt
    assert not [str(entry) for entry in report.entries if entry.verdict.value != "agree"]
    assert report.precision == "float64"
    gradient = differentiate(proto, wrt=wrt, of=of, cotangent="input")
    want = _run(proto, feeds)[-1]
    seeds = {gradient.seeds[of]: np.arange(1, want.size + 1).reshape(want.shape).astype(want.dtype)}
    outputs = [value.name for value in gradient.model.graph.outputs]
    results = dict(zip(outputs, _run(ir.to_proto(gradient.model), {**feeds, **seeds}), strict=True))
    for name in wrt:
        assert np.any(results[gradient.outputs[name]]) != (name in row.zero), f"gradient of {name}"


def test_every_lowered_operator_has_rows() -> None:
    assert {row.type for row in ROWS} == set(lowered_operators(CLASSICAL))


def _chain() -> onnx.ModelProto:
    nodes = [
        helper.make_node(
            "Scaler", ["x"], ["s"], "scaler", domain="ai.onnx.ml", offset=[1.0, 2.0], scale=[0.5, 3.0]
        ),
        helper.make_node("Normalizer", ["s"], ["n"], "norm", domain="ai.onnx.ml", norm="L2"),
        helper.make_node(
            "LinearClassifier",
            ["n"],
            ["label", "scores"],
            "model",
            domain="ai.onnx.ml",
            coefficients=[1.0, 2.0, -1.0, 0.5],
            intercepts=[0.1, 0.2],
            classlabels_ints=[0, 1],
            post_transform="SOFTMAX",
        ),
    ]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 2])],
        [
            helper.make_tensor_value_info("label", onnx.TensorProto.INT64, ["n"]),
            helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, ["n", 2]),
        ],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def test_coefficients_are_weights_and_settings_are_not() -> None:
    prepared = prepare(_chain())
    assert weight_names(prepared.model) == ["model_coefficients", "model_intercepts"]
    assert {"scaler_offset", "scaler_scale"} <= set(prepared.model.graph.initializers)
    assert [action for action in prepared.actions if action.startswith("lowered")] == [
        "lowered 1 LinearClassifier into standard operators",
        "lowered 1 Normalizer into standard operators",
        "lowered 1 Scaler into standard operators",
    ]
    outputs = {value.name: value for value in prepared.model.graph.outputs}
    assert outputs["scores"].dtype in FLOATS
    gradient = grad(
        _chain(), of="scores"
    )  # the label is no floating-point output, but the score is one of two
    names = [value.name for value in gradient.graph.outputs]
    assert names == ["label", "scores", "model_coefficients_grad", "model_intercepts_grad"]
    assert check(_chain(), wrt=["x", "scaler_offset", "model_coefficients"], of="scores").ok


@pytest.mark.parametrize(
    ("op_type", "attributes", "why"),
    [
        ("LinearRegressor", {"coefficients": [1.0] * 4, "targets": 1}, "3 features, and its attributes 4"),
        ("LinearRegressor", {"coefficients": [1.0] * 3, "post_transform": "FOO"}, "post_transform 'FOO'"),
        ("LinearClassifier", {"coefficients": [1.0] * 3}, "0 labels for 1 rows"),
        (
            "LinearClassifier",
            {"coefficients": [1.0] * 3, "intercepts": [1.0], "classlabels_ints": [1]},
            "1 labels for 1 rows",
        ),
        (
            "LinearClassifier",
            {
                "coefficients": [1.0] * 3,
                "intercepts": [1.0],
                "classlabels_ints": [0, 1],
                "post_transform": "PROBIT",
            },
            "second score undefined",
        ),
        ("Scaler", {"scale": [1.0, 2.0], "offset": [0.0]}, "1 offsets and 2 scales"),
        ("Scaler", {"scale": [1.0], "offset": [0.0], "foo": 1}, "attribute 'foo'"),
        ("Normalizer", {"norm": "L3"}, "norm 'L3'"),
        ("Imputer", {"imputed_value_int64s": [1]}, "no imputed_value_floats"),
        ("FeatureVectorizer", {"inputdimensions": [1, 2]}, "2 inputdimensions for 1 inputs"),
        ("SVMRegressor", _regression("RBF", post_transform="LOGISTIC"), "ignores the post_transform"),
        ("SVMRegressor", _regression("FOO"), "kernel_type 'FOO'"),
        ("SVMClassifier", _svm("RBF", [2, 3], rho=[0.5, 0.5]), "2 rho, not 1"),
        ("SVMClassifier", _svm("RBF", [2, 3], post_transform="PROBIT"), "second score undefined"),
    ],
)
def test_other_forms_are_refused(op_type: str, attributes: dict[str, Any], why: str) -> None:
    row = Row(op_type, [X], attributes, 2 if "Classifier" in op_type else 1)
    proto = _model(row, "static")
    assert [node.op_type for node in prepare(proto).model.graph] == [op_type]
    inspection = inspect(proto, wrt="x0", of=f"y{row.outputs - 1}")
    assert re.search(why, inspection.problem)
    assert re.search(why, inspection.operators[0].reason)
    with pytest.raises(
        UnsupportedOperatorError, match=rf"{op_type}, node 'node'.*{why}|{op_type} 'node'.*{why}"
    ):
        grad(proto, wrt="x0", of=f"y{row.outputs - 1}")


@pytest.mark.parametrize(
    ("rows", "how"), [(1, "static"), (2, "static"), (3, "static"), (2, "symbolic"), (3, "symbolic")]
)
def test_a_classifier_without_intercepts(rows: int, how: str) -> None:
    """ONNX Runtime has no kernel for it: against its kernel with intercepts of 0."""
    attributes = {
        "coefficients": np.linspace(-1.0, 1.5, 3 * rows).tolist(),
        "classlabels_ints": list(range(max(rows, 2))),
        "post_transform": "LOGISTIC",
    }
    with_zeros = Row("LinearClassifier", [X], {**attributes, "intercepts": [0.0] * rows}, 2)
    want = onnxruntime.InferenceSession(_model(with_zeros, "static").SerializeToString()).run(None, {"x0": X})
    proto = _model(Row("LinearClassifier", [X], attributes, 2), how)
    gradient = grad(proto, wrt="x0", of="y1")
    label, scores, slopes = onnxruntime.InferenceSession(ir.to_proto(gradient).SerializeToString()).run(
        None, {"x0": X}
    )
    np.testing.assert_array_equal(label, want[0])
    np.testing.assert_allclose(scores, want[1], rtol=1e-5)
    matrix = np.reshape(attributes["coefficients"], (rows, 3))
    if rows > 1:
        np.testing.assert_allclose(slopes, (scores * (1 - scores)) @ matrix, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("op_type", "attributes", "why"),
    [
        ("ZipMap", {"classlabels_int64s": [0, 1, 2]}, "maps carry no gradient"),
        (
            "TreeEnsembleRegressor",
            {
                "n_targets": 1,
                "nodes_treeids": [0, 0, 0],
                "nodes_nodeids": [0, 1, 2],
                "nodes_featureids": [0, 0, 0],
                "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
                "nodes_values": [0.5, 0.0, 0.0],
                "nodes_truenodeids": [1, 0, 0],
                "nodes_falsenodeids": [2, 0, 0],
                "target_treeids": [0, 0],
                "target_nodeids": [1, 2],
                "target_ids": [0, 0],
                "target_weights": [1.0, 2.0],
            },
            "step function",
        ),
    ],
)
def test_operators_without_a_gradient_are_refused_by_name(
    op_type: str, attributes: dict[str, Any], why: str
) -> None:
    proto = _model(Row(op_type, [X], attributes), "static")
    if op_type == "ZipMap":
        kind = helper.make_map_type_proto(
            onnx.TensorProto.INT64, helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
        )
        proto.graph.output[0].type.CopyFrom(helper.make_sequence_type_proto(kind))
    with pytest.raises(UnsupportedOperatorError, match=rf"{why}.*\n?.*{op_type}|{op_type}.*\n?.*{why}"):
        grad(proto, wrt="x0", of="y0")


def test_every_operator_of_the_domain_is_accounted_for() -> None:
    known = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == "ai.onnx.ml"}
    declared = {op_type for domain, op_type in declarations() if domain == "ai.onnx.ml"}
    assert declared.isdisjoint(lowered_operators(CLASSICAL))
    assert declared | set(lowered_operators(CLASSICAL)) == known


def test_a_model_whose_output_is_a_map_is_differentiated_up_to_the_map() -> None:
    proto = _chain()
    proto.graph.node.append(
        helper.make_node("ZipMap", ["scores"], ["map"], "zip", domain="ai.onnx.ml", classlabels_int64s=[0, 1])
    )
    kind = helper.make_map_type_proto(
        onnx.TensorProto.INT64, helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
    )
    proto.graph.output[1].CopyFrom(helper.make_value_info("map", helper.make_sequence_type_proto(kind)))
    feeds = {"x": np.array([[1.0, 3.0], [0.5, -1.0]], np.float32)}
    with_map = ir.to_proto(grad(proto, wrt="x", of="scores", cotangent="input"))
    without = ir.to_proto(grad(_chain(), wrt="x", of="scores", cotangent="input"))
    seed = {"scores_grad": np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)}
    want, got = (_session(one).run(["x_grad"], {**feeds, **seed})[0] for one in (without, with_map))
    assert np.any(want)
    np.testing.assert_array_equal(got, want)
    maps = _session(with_map).run(["map"], {**feeds, **seed})[0]
    scores = _session(_chain()).run(["scores"], feeds)[0]
    np.testing.assert_allclose([[row[0], row[1]] for row in maps], scores, rtol=1e-5)
    with pytest.raises(UnsupportedOperatorError, match=r"(?s)maps carry no gradient.*ZipMap"):
        grad(proto, wrt="x")


def test_a_node_in_a_branch_is_lowered_too() -> None:
    branches = {}
    for name, scale in (("then_branch", 2.0), ("else_branch", -3.0)):
        inner = helper.make_node(
            "Scaler", ["x"], [f"{name}_y"], name, domain="ai.onnx.ml", offset=[1.0], scale=[scale]
        )
        output = helper.make_tensor_value_info(f"{name}_y", onnx.TensorProto.FLOAT, [2])
        branches[name] = helper.make_graph([inner], name, [], [output])
    graph = helper.make_graph(
        [helper.make_node("If", ["c"], ["y"], "choice", **branches)],
        "graph",
        [
            helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2]),
        ],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    gradient = ir.to_proto(grad(proto, wrt=["x", "then_branch_scale"]))
    x = np.array([2.0, 5.0], np.float32)
    for choice, by_x, by_scale in ((True, 2.0, 5.0), (False, -3.0, 0.0)):
        names = ["x_grad", "then_branch_scale_grad"]
        results = _session(gradient).run(names, {"c": np.array(choice), "x": x})
        np.testing.assert_array_equal(results[0], [by_x, by_x])
        np.testing.assert_array_equal(results[1], [by_scale])


def test_a_model_that_takes_a_map_is_refused_in_words() -> None:
    kind = helper.make_map_type_proto(
        onnx.TensorProto.STRING, helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
    )
    node = helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b"])
    output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 2])
    graph = helper.make_graph([node], "graph", [helper.make_value_info("x", kind)], [output])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 1)]
    with pytest.raises(InvalidModelError, match="takes a map, its input 'x'"):
        grad(helper.make_model(graph, opset_imports=opsets, ir_version=10), wrt="x")
