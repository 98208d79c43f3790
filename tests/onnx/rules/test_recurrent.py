"""RNN, GRU and LSTM: their definition against ONNX Runtime's kernels, its gradient against differences."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from netgrad.core.errors import UnsupportedOperatorError
from netgrad.onnx.expand import expand
from netgrad.onnx.prepare import prepare
from netgrad.onnx.recurrent import RECURRENT
from tests.onnx.rules.table import (
    TOLERANCE,
    Arrays,
    central_differences,
    disagreement,
    gradient_model,
    run_gradient,
    runner,
)

_STEPS, _BATCH, _INPUT, _HIDDEN = 4, 3, 3, 2


@dataclass(frozen=True)
class Form:
    """One use of a recurrent operator.

    Attributes:
        type: Operator type.
        attributes: Its attributes.
        optional: Which optional inputs it has: any of B, lens, h0, c0, P.
        outputs: Names of the outputs that it has; "" for one that is left out.
        lengths: Lengths of the sequences, where it has them.
    """

    type: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    optional: Sequence[str] = ("B",)
    outputs: Sequence[str] = ()
    lengths: Sequence[int] = (2, 4, 1)

    @property
    def id(self) -> str:
        values = [f"{k}={v}" for k, v in self.attributes.items()]
        return "-".join([self.type, *self.optional, *values, *self.outputs]).replace(" ", "")

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        gates = RECURRENT[self.type]
        directions = 2 if self.attributes.get("direction") == "bidirectional" else 1
        shapes: dict[str, tuple[int, ...]] = {
            "X": (_STEPS, _BATCH, _INPUT),
            "W": (directions, gates * _HIDDEN, _INPUT),
            "R": (directions, gates * _HIDDEN, _HIDDEN),
            "B": (directions, 2 * gates * _HIDDEN),
            "lens": (_BATCH,),
            "h0": (directions, _BATCH, _HIDDEN),
            "c0": (directions, _BATCH, _HIDDEN),
            "P": (directions, 3 * _HIDDEN),
        }
        if self.attributes.get("layout"):
            shapes["X"] = (_BATCH, _STEPS, _INPUT)
            shapes["h0"] = shapes["c0"] = (_BATCH, directions, _HIDDEN)
        return {name: shapes[name] for name in ("X", "W", "R", *self.optional)}

    def point(self, dtype: str) -> Arrays:
        rng = np.random.default_rng(zlib.crc32(self.id.encode()))
        return {
            name: np.array(self.lengths, np.int32)
            if name == "lens"
            else np.round(rng.normal(size=shape) * 0.6, 3).astype(dtype)
            for name, shape in self.shapes.items()
        }

    def build(self, dtype: str, *, symbolic: bool = False) -> onnx.ModelProto:
        positions = ["X", "W", "R", "B", "lens", "h0", *(["c0", "P"] if self.type == "LSTM" else [])]
        names = [name if name in self.shapes else "" for name in positions]
        while not names[-1]:
            names.pop()
        outputs = self.outputs or ("Y", "Y_h", *(("Y_c",) if self.type == "LSTM" else ()))
        node = helper.make_node(
            self.type, names, outputs, name="layer", hidden_size=_HIDDEN, **self.attributes
        )
        inputs = []
        for name, array in self.point(dtype).items():
            element = helper.np_dtype_to_tensor_dtype(array.dtype)
            free = symbolic and name in ("X", "h0", "c0", "lens")
            dims = [f"{name}_{k}" for k in range(array.ndim)] if free else list(array.shape)
            inputs.append(helper.make_tensor_value_info(name, element, dims))
        graph = helper.make_graph(
            [node], "layer", inputs, [onnx.ValueInfoProto(name=name) for name in outputs if name]
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
        return onnx.shape_inference.infer_shapes(model)


_ALL = ("B", "lens", "h0", "c0", "P")
_SOME = ("B", "lens", "h0")
_DIRECTIONS = ("forward", "reverse", "bidirectional")
FORMS = [
    *(Form(kind) for kind in RECURRENT),
    # No operand of an activation lies within a difference step of these bounds.
    *(Form(kind, {"clip": 0.4}, ()) for kind in RECURRENT),
    *(Form(kind, outputs=("", "Y_h")) for kind in RECURRENT),
    *(Form(kind, outputs=("Y",)) for kind in RECURRENT),
    *(Form("RNN", {"direction": direction}, _SOME) for direction in _DIRECTIONS),
    *(Form("GRU", {"direction": direction}, _SOME) for direction in _DIRECTIONS),
    *(Form("LSTM", {"direction": direction}, _ALL) for direction in _DIRECTIONS),
    Form("RNN", {"direction": "reverse"}, ("lens", "h0"), lengths=(2, 0, 4)),
    Form("LSTM", {}, ("lens", "h0", "c0"), lengths=(2, 0, 4)),
    Form("GRU", {"linear_before_reset": 1}),
    Form("GRU", {"linear_before_reset": 1, "direction": "bidirectional"}, ("h0",)),
    Form("LSTM", {"input_forget": 1}, ("B", "P")),
    Form("LSTM", {"clip": 0.25, "input_forget": 1}, ("c0",)),
    Form("RNN", {"activations": ["Affine"], "activation_alpha": [0.5], "activation_beta": [0.2]}),
    Form("RNN", {"activations": ["ScaledTanh"], "activation_alpha": [0.7], "activation_beta": [1.3]}),
    Form("RNN", {"activations": ["ThresholdedRelu"], "activation_alpha": [0.2]}),
    Form("RNN", {"activations": ["Relu", "Softsign"], "direction": "bidirectional"}),
    Form("RNN", {"activations": ["Softplus", "Elu"], "direction": "bidirectional"}),
    Form(
        "LSTM",
        {
            "activations": ["HardSigmoid", "Tanh", "LeakyRelu"],
            "activation_alpha": [0.3, 0.1],
            "activation_beta": [0.4],
        },
    ),
    Form("GRU", {"activations": ["HardSigmoid", "LeakyRelu"]}),
]
_BY_ID = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.id)


def _expanded(model: onnx.ModelProto) -> onnx.ModelProto:
    prepared = prepare(model).model
    expand(prepared, lambda node: node.op_type in RECURRENT)
    proto = ir.to_proto(prepared)
    onnx.checker.check_model(proto, full_check=True)
    assert not any(node.op_type in RECURRENT for node in proto.graph.node)
    return proto


def _cotangents(outputs: Mapping[str, np.ndarray]) -> Arrays:
    rng = np.random.default_rng(3)
    return {name: np.round(rng.normal(size=array.shape), 2) for name, array in outputs.items()}


def _floats(form: Form) -> list[str]:
    return [name for name in form.shapes if name != "lens"]


def _compare(want: Arrays, got: Arrays, dtype: str) -> None:
    for name, expected in want.items():
        wrong = disagreement(expected, got[name], TOLERANCE[dtype])
        assert not wrong, f"{name}: {wrong}"


@_BY_ID
def test_the_definition_computes_what_the_kernel_of_onnx_runtime_computes(form: Form) -> None:
    model, point = form.build("float32"), form.point("float32")
    want, got = runner(model)(point), runner(_expanded(model))(point)
    assert list(got) == list(want)
    for name, expected in want.items():
        np.testing.assert_allclose(got[name], expected, atol=2e-6)


@_BY_ID
def test_gradient_agrees_with_central_differences(form: Form) -> None:
    model, point = form.build("float64"), form.point("float64")
    run = runner(_expanded(model))
    cotangents = _cotangents(run(point))
    want = central_differences(run, point, cotangents, _floats(form))
    for dtype, symbolic in [("float64", False), ("float64", True), ("float32", False)]:
        built = form.build(dtype, symbolic=symbolic)
        gradient = gradient_model(built, _floats(form), list(cotangents))
        _compare(want, run_gradient(gradient, form.point(dtype), cotangents, dtype), dtype)


@pytest.mark.parametrize(
    "form",
    [
        Form("RNN", {"direction": "reverse"}, ("B", "h0")),
        Form("GRU", {}, ("lens", "h0")),
        Form("LSTM", {}, ("c0", "P")),
    ],
    ids=lambda form: form.id,
)
def test_second_order_agrees_with_central_differences_of_the_gradient(form: Form) -> None:
    model, point = form.build("float64"), form.point("float64")
    cotangents = _cotangents(runner(_expanded(model))(point))
    first = gradient_model(model, ["X", "R"], list(cotangents))
    run = runner(ir.to_proto(first.model))
    point = {**point, **{first.seeds[name]: array for name, array in cotangents.items()}}
    gradients = list(first.outputs.values())
    seeds = _cotangents({name: run(point)[name] for name in gradients})
    again = ["X", "R", first.seeds["Y"]]
    want = central_differences(run, point, seeds, again)
    got = run_gradient(gradient_model(first.model, again, gradients), point, seeds, "float64")
    _compare(want, got, "float64")


@pytest.mark.parametrize("kind", RECURRENT)
def test_batch_first_is_the_same_transposed(kind: str) -> None:
    """ONNX Runtime has no kernel for this layout."""
    optional = ("h0", "c0") if kind == "LSTM" else ("h0",)
    first, second = Form(kind, {"layout": 1}, optional), Form(kind, {}, optional)
    point = first.point("float32")
    moved = {name: a.swapaxes(0, 1) if name in ("X", "h0", "c0") else a for name, a in point.items()}
    got = runner(_expanded(first.build("float32")))(point)
    want = runner(second.build("float32"))(moved)
    for name, array in want.items():
        np.testing.assert_allclose(
            got[name], array.transpose(2, 0, 1, 3) if name == "Y" else array.swapaxes(0, 1), atol=2e-6
        )


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ({"activations": ["ThresholdedRelu"]}, "activation 'ThresholdedRelu' has no alpha"),
        ({"activations": ["Sine"]}, "activation 'Sine' is unknown"),
        ({"activations": ["Tanh", "Tanh"]}, "it has 2 activations"),
    ],
)
def test_what_is_not_understood_is_refused(attributes: dict[str, Any], why: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=rf"RNN 'layer'.*{why}"):
        gradient_model(Form("RNN", attributes).build("float32"), ["X"], ["Y"])
