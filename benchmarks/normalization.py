"""How fast, and how right, forms of the gradients of normalisations and Softmax are on ONNX Runtime.

Each line is forward and backward together, in float32: milliseconds (median and lower quartile of interleaved
runs), operators of the backward pass, and the largest error of a gradient against NumPy in float64, relative
to the largest element. The first form of each operator is what `netgrad.grad` writes.

    python benchmarks/normalization.py [--threads 2] [--runs 60]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime

import netgrad

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Operator:
    """One operator and rival forms of its backward pass.

    Attributes:
        name: Operator type.
        forward: The node, in ONNX's text form, from the inputs to ``y``.
        wrt: Inputs that are differentiated.
        shapes: Shapes of x to try.
        inputs: Draws the inputs for a shape of x.
        gradients: The gradients in NumPy, in float64.
        rivals: Backward nodes in text form by name, from ``dy`` to ``d<input>``. ``AXES`` stands for the
            reduced axes, ``COUNT`` for the number of elements along them, ``CHANNEL`` for the axes to
            append to a vector of channels.
        outputs: Outputs of the forward node.
    """

    name: str
    forward: str
    wrt: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    inputs: Callable[[tuple[int, ...]], Arrays]
    gradients: Callable[[Mapping[str, np.ndarray]], Arrays]
    rivals: Mapping[str, str]
    outputs: tuple[str, ...] = ("y",)


# ---- inputs ------------------------------------------------------------------------------------------


def _channel_inputs(shape: tuple[int, ...]) -> Arrays:
    rng, c = np.random.default_rng(0), shape[1]
    return {
        "x": rng.normal(2, 1, shape),
        "dy": rng.normal(size=shape),
        "scale": rng.normal(size=c),
        "bias": rng.normal(size=c),
        "mean": rng.normal(size=c),
        "var": rng.uniform(0.5, 2, c),
    }


def _last_axis_inputs(shape: tuple[int, ...]) -> Arrays:
    rng, d = np.random.default_rng(0), shape[-1]
    return {
        "x": rng.normal(2, 1, shape),
        "dy": rng.normal(size=shape),
        "scale": rng.normal(size=d),
        "bias": rng.normal(size=d),
    }


def _plain_inputs(shape: tuple[int, ...]) -> Arrays:
    rng = np.random.default_rng(0)
    return {"x": rng.normal(size=shape), "dy": rng.normal(size=shape)}


# ---- gradients in NumPy ------------------------------------------------------------------------------


def _column(vector: np.ndarray, rank: int) -> np.ndarray:
    return vector.reshape(-1, *[1] * (rank - 2))


def batch_norm_inference(a: Mapping[str, np.ndarray]) -> Arrays:
    axes, rank = tuple(k for k in range(a["x"].ndim) if k != 1), a["x"].ndim
    deviation = np.sqrt(a["var"] + np.float32(1e-5))
    xhat = (a["x"] - _column(a["mean"], rank)) / _column(deviation, rank)
    return {
        "x": a["dy"] * _column(a["scale"] / deviation, rank),
        "scale": (a["dy"] * xhat).sum(axes),
        "bias": a["dy"].sum(axes),
    }


def _projected(g: np.ndarray, xhat: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return g - g.mean(axes, keepdims=True) - xhat * (g * xhat).mean(axes, keepdims=True)


def _standardized(x: np.ndarray, axes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    deviation = np.sqrt(x.var(axes, keepdims=True) + np.float32(1e-5))
    return (x - x.mean(axes, keepdims=True)) / deviation, deviation


def batch_norm_training(a: Mapping[str, np.ndarray]) -> Arrays:
    axes = tuple(k for k in range(a["x"].ndim) if k != 1)
    xhat, deviation = _standardized(a["x"], axes)
    dx = _column(a["scale"], a["x"].ndim) * _projected(a["dy"], xhat, axes) / deviation
    return {"x": dx, "scale": (a["dy"] * xhat).sum(axes), "bias": a["dy"].sum(axes)}


def layer_norm(a: Mapping[str, np.ndarray]) -> Arrays:
    xhat, deviation = _standardized(a["x"], (-1,))
    lead = tuple(range(a["x"].ndim - 1))
    dx = _projected(a["dy"] * a["scale"], xhat, (-1,)) / deviation
    return {"x": dx, "scale": (a["dy"] * xhat).sum(lead), "bias": a["dy"].sum(lead)}


def softmax(a: Mapping[str, np.ndarray]) -> Arrays:
    y = np.exp(a["x"] - a["x"].max(-1, keepdims=True))
    y /= y.sum(-1, keepdims=True)
    return {"x": y * (a["dy"] - (y * a["dy"]).sum(-1, keepdims=True))}


# ---- rival forms -------------------------------------------------------------------------------------

_STATISTICS = """
    axes = Constant<value_ints: ints = AXES>()
    channel = Constant<value_ints: ints = CHANNEL>()
    epsilon = Constant<value_float: float = 1e-5>()
    count = Constant<value_float: float = COUNT>()
    sum_dy = ReduceSum<keepdims = 0>(dy, axes)
    dbias = Identity(sum_dy)
"""
_CENTRED = """
    m = ReduceMean(x, axes)
    xc = Sub(x, m)
    square = Mul(xc, xc)
    v = ReduceMean(square, axes)
    ve = Add(v, epsilon)
    deviation = Sqrt(ve)
"""
_SQUARES = """
    m = ReduceMean(x, axes)
    xc = Sub(x, m)
    square = Mul(x, x)
    ms = ReduceMean(square, axes)
    mm = Mul(m, m)
    v = Sub(ms, mm)
    ve = Add(v, epsilon)
    deviation = Sqrt(ve)
"""
_TEXTBOOK = """
    xhat = Div(xc, deviation)
    p = Mul(dy, xhat)
    dscale = ReduceSum<keepdims = 0>(p, axes)
    scale_c = Unsqueeze(scale, channel)
    g = Mul(dy, scale_c)
    g_mean = ReduceMean(g, axes)
    gx = Mul(g, xhat)
    gx_mean = ReduceMean(gx, axes)
    q = Mul(xhat, gx_mean)
    g1 = Sub(g, g_mean)
    g2 = Sub(g1, q)
    dx = Div(g2, deviation)
"""
_AFFINE = """
    p = Mul(dy, xc)
    s = ReduceMean(p, axes)
    d = ReduceMean(dy, axes)
    sv = Div(s, ve)
    scale_c = Unsqueeze(scale, channel)
    A = Div(scale_c, deviation)
    B = Mul(sv, A)
    C = Mul(d, A)
    ady = Mul(dy, A)
    bx = Mul(xc, B)
    dx0 = Sub(ady, bx)
    dx = Sub(dx0, C)
    xhat_sum = Div(s, deviation)
    xhat_all = Mul(xhat_sum, count)
    flat = Constant<value_ints: ints = [-1]>()
    dscale = Reshape(xhat_all, flat)
"""
_COMPOSED_INFERENCE = """
    ve = Add(var, epsilon)
    deviation = Sqrt(ve)
    a = Div(scale, deviation)
    a_c = Unsqueeze(a, channel)
    dx = Mul(dy, a_c)
    mean_c = Unsqueeze(mean, channel)
    xc = Sub(x, mean_c)
    p = Mul(dy, xc)
    s = ReduceSum<keepdims = 0>(p, axes)
    dscale = Div(s, deviation)
"""
_LAYER_MEANS = """
    last = Constant<value_ints: ints = [-1]>()
    lead = Constant<value_ints: ints = AXES>()
    xc = Sub(x, saved_mean)
    xhat = Mul(xc, saved_inverse)
    p = Mul(dy, xhat)
    dscale = ReduceSum<keepdims = 0>(p, lead)
    dbias = ReduceSum<keepdims = 0>(dy, lead)
    g = Mul(dy, scale)
    level = ReduceMean(g, last)
    gx = Mul(g, xhat)
    along = ReduceMean(gx, last)
    q = Mul(xhat, along)
    g1 = Sub(g, level)
    g2 = Sub(g1, q)
    dx = Mul(saved_inverse, g2)
"""

OPERATORS = [
    Operator(
        "BatchNormalization, inference",
        "y = BatchNormalization(x, scale, bias, mean, var)",
        ("x", "scale", "bias"),
        ((32, 16, 32, 32), (8, 64, 56, 56), (1, 256, 14, 14)),
        _channel_inputs,
        batch_norm_inference,
        {"elementwise": _STATISTICS + _COMPOSED_INFERENCE},
    ),
    Operator(
        "BatchNormalization, training",
        "y, rm, rv = BatchNormalization<training_mode = 1>(x, scale, bias, mean, var)",
        ("x", "scale", "bias"),
        ((32, 16, 32, 32), (8, 64, 56, 56), (32, 64, 8, 8)),
        _channel_inputs,
        batch_norm_training,
        {
            "affine, elementwise": _STATISTICS + _CENTRED + _AFFINE,
            "affine, difference of squares": _STATISTICS + _SQUARES + _AFFINE,
            "textbook": _STATISTICS + _CENTRED + _TEXTBOOK,
        },
    ),
    Operator(
        "LayerNormalization",
        "y, saved_mean, saved_inverse = LayerNormalization(x, scale, bias)",
        ("x", "scale", "bias"),
        ((1024, 128), (4, 128, 768)),
        _last_axis_inputs,
        layer_norm,
        {"ReduceMean": _LAYER_MEANS},
    ),
    Operator(
        "Softmax",
        "y = Softmax(x)",
        ("x",),
        ((64, 64, 64), (128, 1000)),
        _plain_inputs,
        softmax,
        {
            "sum inside": """
                last = Constant<value_ints: ints = [-1]>()
                p = Mul(y, dy)
                s = ReduceSum(p, last)
                q = Mul(y, s)
                dx = Sub(p, q)
            """
        },
    ),
]


# ---- models ------------------------------------------------------------------------------------------


def model_of(operator: Operator, arrays: Arrays, nodes: str, results: list[str]) -> onnx.ModelProto:
    """The forward node, then ``nodes``, from the float32 inputs in ``arrays`` to ``results``."""
    inputs = ", ".join(
        f"float[{', '.join(map(str, array.shape))}] {name}"
        for name, array in arrays.items()
        if name != "dy" or nodes
    )
    shape = arrays["x"].shape
    channels = operator.name.startswith("Batch")
    axes = [k for k in range(len(shape)) if k != 1] if channels else list(range(len(shape) - 1))
    text = nodes.replace("AXES", str(axes)).replace("CHANNEL", str(list(range(1, len(shape) - 1))))
    text = text.replace("COUNT", f"{float(np.prod([shape[k] for k in axes]))}")
    header = '<ir_version: 9, opset_import: ["": 18]>'
    proto = onnx.parser.parse_model(
        f"{header} g ({inputs}) => ({', '.join(results)}) {{ {operator.forward} {text} }}"
    )
    return onnx.shape_inference.infer_shapes(proto)


@dataclass
class Form:
    """One form, ready to run."""

    name: str
    operators: int
    session: onnxruntime.InferenceSession
    results: list[str]
    error: float = 0.0


def form(name: str, proto: onnx.ModelProto, results: list[str], threads: int) -> Form:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # the forms take turns
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    count = sum(node.op_type not in ("Constant", "Identity") for node in proto.graph.node) - 1
    return Form(name, count, session, results)


def forms(operator: Operator, arrays: Arrays, threads: int) -> list[Form]:
    names = [f"d{name}" for name in operator.wrt]
    plain = model_of(operator, {k: v for k, v in arrays.items() if k != "dy"}, "", ["y"])
    written = ir.to_proto(netgrad.grad(plain, wrt=operator.wrt, of="y", cotangent="input"))
    found = [form("netgrad", written, [f"{name}_grad" for name in operator.wrt], threads)]
    for name, nodes in operator.rivals.items():
        found.append(form(name, model_of(operator, arrays, nodes, ["y", *names]), names, threads))
    return found


# ---- measuring ---------------------------------------------------------------------------------------


def fed(one: Form, arrays: Arrays) -> Arrays:
    given = {**arrays, "y_grad": arrays["dy"]}
    return {value.name: given[value.name] for value in one.session.get_inputs()}


def measure(operator: Operator, shape: tuple[int, ...], threads: int, runs: int) -> None:
    arrays = {name: array.astype(np.float32) for name, array in operator.inputs(shape).items()}
    want = operator.gradients({name: array.astype(np.float64) for name, array in arrays.items()})
    contenders = forms(operator, arrays, threads)
    times: dict[str, list[float]] = {one.name: [] for one in contenders}
    for one in contenders:
        got = one.session.run(one.results, fed(one, arrays))
        one.error = max(
            np.abs(g - want[name]).max() / np.abs(want[name]).max()
            for g, name in zip(got, operator.wrt, strict=True)
        )
    for _ in range(max(1, runs // 5)):
        for one in contenders:
            given = fed(one, arrays)
            for turn in range(6):
                start = time.perf_counter()
                one.session.run(["y", *one.results], given)
                if turn:  # the first run of a turn finds the caches filled by another form
                    times[one.name].append(1e3 * (time.perf_counter() - start))
    print(f"{operator.name}, {'x'.join(map(str, shape))}")
    for one in contenders:
        median, lower = np.median(times[one.name]), np.quantile(times[one.name], 0.25)
        print(
            f"  {one.name:32}{median:8.3f} ms  ({lower:.3f})  {one.operators:3} operators"
            f"  error {one.error:.0e}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2, help="threads of ONNX Runtime")
    parser.add_argument("--runs", type=int, default=60, help="timed runs of each form")
    arguments = parser.parse_args()
    print(f"onnxruntime {onnxruntime.__version__}, {arguments.threads} threads, forward + backward, float32")
    for operator in OPERATORS:
        for shape in operator.shapes:
            measure(operator, shape, arguments.threads, arguments.runs)


if __name__ == "__main__":
    main()
