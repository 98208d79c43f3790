"""MatMulNBits, QuantizeLinear and DequantizeLinear against ONNX Runtime's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import netgrad
from netgrad.core.errors import UnsupportedOperatorError
from netgrad.transforms.grad import differentiate
from tests.onnx.fused.table import Row, check_row, drawn, fused_model


def _row(
    a: tuple[int, ...],
    features: int,
    bits: int,
    *,
    zeros: str = "",
    groups: bool = False,
    bias: bool = False,
    block: int = 16,
    **attributes: Any,
) -> Row:
    rng = np.random.default_rng(5)
    depth = a[-1]
    blocks = -(-depth // block)
    image, scales, offsets, shift = drawn(a, (features, blocks), (features, blocks), (features,))
    assert offsets is not None
    packed = rng.integers(0, 256, (features, blocks, block * bits // 8), dtype=np.uint8)
    points: np.ndarray | None = None
    if zeros == "packed":
        points = rng.integers(0, 256, (features, -(-blocks * bits // 8)), dtype=np.uint8)
    elif zeros == "exact":
        points = offsets
    index = (np.arange(depth) * 7 % blocks).astype(np.int32) if groups else None
    inputs = [image, packed, scales, points, index, shift if bias else None]
    while inputs[-1] is None:
        inputs.pop()
    given = {"K": depth, "N": features, "bits": bits, "block_size": block, **attributes}
    note = " ".join(filter(None, [zeros, "groups" if groups else "", "bias" if bias else ""]))
    return Row("MatMulNBits", inputs, given, kept=(1, 2, 3, 4), note=note)


ROWS = [
    _row((2, 3, 32), 5, 4),
    _row((3, 40), 5, 4, zeros="packed"),
    _row((3, 32), 5, 4, zeros="exact"),
    _row((3, 40), 5, 4, bias=True, accuracy_level=0),
    _row((2, 3, 32), 5, 4, groups=True),
    _row((3, 48), 5, 4, groups=True, zeros="exact", bias=True),
    _row((3, 64), 4, 4, block=32, zeros="packed", bias=True),
    _row((2, 3, 32), 5, 8),
    _row((3, 40), 4, 8, zeros="packed", bias=True),
    _row((3, 32), 5, 2),
    _row((3, 80), 4, 2, zeros="packed"),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
def test_definition_and_gradient(row: Row, symbolic: bool) -> None:
    check_row(row, symbolic=symbolic)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (_row((3, 32), 5, 4, weight_prepacked=1), "weight_prepacked = 1"),
        (_row((3, 32), 5, 3), "bits = 3"),
        (_row((3, 32), 5, 4, groups=True, zeros="packed"), "g_idx and packed zero points"),
    ],
    ids=["prepacked", "bits", "groups"],
)
def test_other_forms_are_refused(row: Row, why: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=rf"MatMulNBits 'node'.*{why}"):
        differentiate(fused_model(row, np.float64), wrt=["x0"], of=row.of)


def _pair(domain: str, dtype: str, axis: str, scale: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["": 18, "com.microsoft": 1]>
        pair (float[2,3] x, float{scale} s) => (float[2,3] y) <{dtype} z = {{2,2,2}}> {{
            q = {domain}QuantizeLinear {axis} (x, s, z)
            y = {domain}DequantizeLinear {axis} (q, s, z)
        }}""".replace("= {2,2,2}", "= {2}" if not scale else "= {2,0,1}")
    )


@pytest.mark.parametrize(("axis", "scale"), [("", ""), ("<axis = 1>", "[3]")])
def test_a_pair_is_passed_straight_through_like_that_of_the_standard(axis: str, scale: str) -> None:
    x = np.array([[0.1, -0.7, 90.0], [1.3, 2.2, -80.0]], np.float32)
    feeds = {"x": x, "s": np.array([0.5, 0.4, 0.25] if scale else 0.5, np.float32)}
    dtype = "int8[3]" if scale else "int8"
    standard, other = (
        netgrad.run(
            netgrad.grad(_pair(domain, dtype, axis, scale), wrt=["x", "s"], straight_through=True), feeds
        )
        for domain in ("", "com.microsoft.")
    )
    assert standard["x_grad"].tolist() == [[1, 1, 0], [1, 1, 0]]
    kernel = netgrad.run(_pair("com.microsoft.", dtype, axis, scale), feeds)
    np.testing.assert_array_equal(other["y"], kernel["y"])
    for name, array in standard.items():
        np.testing.assert_array_equal(other[name], array)


def test_other_integers_are_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"QuantizeLinear'.*its input 2 is neither"):
        netgrad.grad(_pair("com.microsoft.", "int16", "", ""), wrt="x", straight_through=True)


@pytest.mark.parametrize("zeros", ["one", "each", ""])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("dynamic", [True, False])
def test_integer_products(dynamic: bool, with_bias: bool, zeros: str) -> None:
    """Against the kernel, and the gradient of bias and scale against y = s t (A - a) (B - b) + bias."""
    rng = np.random.default_rng(4)
    weights = rng.integers(0, 256, (4, 5)).astype(np.uint8)
    shift = {"one": np.uint8(120), "each": rng.integers(100, 140, 5).astype(np.uint8)}.get(zeros)
    feeds: dict[str, Any] = {"scale": rng.uniform(0.01, 0.02, 5).astype(np.float32)}
    if with_bias:
        feeds["bias"] = rng.normal(size=5).astype(np.float32)
    if dynamic:
        feeds["a"] = rng.normal(size=(2, 3, 4)).astype(np.float32)
        names = ["a", "weights", "scale", "shift" if zeros else "", "bias" if with_bias else ""]
    else:
        feeds |= {"a": rng.integers(0, 256, (2, 3, 4)).astype(np.uint8), "unit": np.float32(0.03)}
        names = [
            "a",
            "weights",
            "unit",
            "scale",
            "zero",
            "shift" if zeros else "",
            "bias" if with_bias else "",
        ]
    while not names[-1]:
        names.pop()
    constants = {"weights": weights, "zero": np.uint8(90), **({} if shift is None else {"shift": shift})}
    kind = "DynamicQuantizeMatMul" if dynamic else "MatMulIntegerToFloat"
    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in feeds.items()
    ]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(kind, names, ["y"], "node", domain="com.microsoft")],
        "g",
        inputs,
        [onnx.helper.make_tensor_value_info("y", 1, [2, 3, 5])],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    want = netgrad.run(model, feeds)["y"]
    wrt = ["scale", *(["bias"] if with_bias else [])]
    cotangent = rng.normal(size=want.shape).astype(np.float32)
    gradient = netgrad.grad(model, wrt=wrt, of="y", cotangent="input")
    got = netgrad.run(gradient, {**feeds, "y_grad": cotangent})
    np.testing.assert_allclose(got["y"], want, rtol=1e-5, atol=1e-6)
    plain = (want - feeds.get("bias", np.float32(0))) / feeds["scale"]
    np.testing.assert_allclose(got["scale_grad"], (plain * cotangent).sum((0, 1)), rtol=1e-4)
    if with_bias:
        np.testing.assert_allclose(got["bias_grad"], cotangent.sum((0, 1)), rtol=1e-5)
    if dynamic:
        passed = netgrad.grad(model, wrt="a", of="y", cotangent="input", straight_through=True)
        exact = (weights - (0.0 if shift is None else shift.astype(float))) * feeds["scale"]
        found = netgrad.run(passed, {**feeds, "y_grad": cotangent})["a_grad"]
        np.testing.assert_allclose(found, cotangent @ exact.T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", ["plain", "mask", "past"])
def test_attention_of_integers(form: str) -> None:
    """Against the kernel; its gradients against those of an Attention of the real numbers they stand for."""
    rng = np.random.default_rng(5)
    x = rng.integers(60, 200, (2, 3, 4)).astype(np.uint8)
    weights = rng.integers(60, 200, (4, 12)).astype(np.uint8)
    point: dict[str, Any] = {"bias": rng.normal(size=12).astype(np.float32), "xs": np.float32(0.03)}
    constants: dict[str, Any] = {"ws": np.float32(0.02), "xz": np.uint8(120), "wz": np.uint8(130)}
    masks = {"mask": np.array([2, 3], np.int32)} if form == "mask" else {}
    if form == "past":
        point["past"] = rng.normal(size=(2, 2, 2, 2, 2)).astype(np.float32)
    mask, past = "mask" if masks else "", "past" if form == "past" else ""
    outputs = ["y", "present"] if past else ["y"]
    attributes = {"num_heads": 2, "unidirectional": int(form == "past")}
    names = ["x", "w", "bias", "xs", "ws", mask, "xz", "wz", past]
    constants |= {"x": x, "w": weights, **masks}
    model = _attention_model("QAttention", names, outputs, point, constants, attributes)
    want = netgrad.run(model, point)
    wrt = ["bias", *(["past"] if past else [])]
    cotangent = {"y_grad": rng.normal(size=want["y"].shape).astype(np.float32)}
    gradient = netgrad.grad(model, wrt=[*wrt, "xs"], of="y", cotangent="input")
    got = netgrad.run(gradient, {**point, **cotangent})

    real = (x.astype(np.float32) - 120) * point["xs"]
    exact = {"w": (weights.astype(np.float32) - 130) * constants["ws"], **masks}
    fed = {**{name: point[name] for name in wrt}, "x": real}
    plain = _attention_model("Attention", ["x", "w", "bias", mask, past], outputs, fed, exact, attributes)
    gradient = netgrad.grad(plain, wrt=[*wrt, "x"], of="y", cotangent="input")
    standing = netgrad.run(gradient, {**fed, **cotangent})
    np.testing.assert_allclose(got["y"], want["y"], rtol=1e-4, atol=1e-5)
    for name in [*outputs, *(f"{name}_grad" for name in wrt)]:
        np.testing.assert_allclose(got[name], standing[name], rtol=1e-4, atol=1e-5)
    by_scale = (standing["x_grad"] * real).sum() / point["xs"]
    np.testing.assert_allclose(got["xs_grad"], by_scale, rtol=1e-3)


def _attention_model(
    op_type: str,
    names: list[str],
    outputs: list[str],
    fed: dict[str, Any],
    constants: dict[str, Any],
    attributes: dict[str, Any],
) -> onnx.ModelProto:
    while not names[-1]:
        names.pop()
    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in fed.items()
    ]
    shapes = {"y": [2, 3, 4], "present": [2, 2, 2, 5, 2]}
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(op_type, names, outputs, "node", domain="com.microsoft", **attributes)],
        "g",
        inputs,
        [onnx.helper.make_tensor_value_info(name, 1, shapes[name]) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("com.microsoft", 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
