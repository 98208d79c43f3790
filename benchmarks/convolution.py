"""How fast forms of the gradients of convolutions and pools are on ONNX Runtime, shape by shape.

One line per shape: the milliseconds of each form with its ratio to the fastest in brackets, the number of its
operators, and in front what `netgrad.grad` writes for this shape. Forms take turns. The form is marked
"wrong" where it differs from the first by more than rounding.

    python benchmarks/convolution.py [--threads 2] [--runs 40] [--only weight,data,average,max] [--cpu]

With ``--cpu`` the processor time of one thread is measured, which a busy machine disturbs far less.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
import onnxruntime

from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules import conv, conv_weight
from netgrad.onnx.rules.windows import Windows
from netgrad.onnx.view import TensorInfo
from netgrad.transforms.emit import Emitter, live

Form = Callable[[Builder, Mapping[str, Value]], Value]
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Shape:
    """A square convolution or pool: batch x channels -> outputs, a kernel over maps of one size."""

    batch: int
    channels: int
    outputs: int
    size: int
    kernel: int
    stride: int = 1
    pad: int = 0
    group: int = 1

    @property
    def windows(self) -> Windows:
        """As the rules see them."""
        pads = (self.pad,) * 2
        return Windows((self.kernel,) * 2, (self.stride,) * 2, (1, 1), pads, pads)

    @property
    def output(self) -> int:
        """Size of the output's maps."""
        return (self.size + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def shapes(self) -> Shapes:
        """Input, cotangent and weight."""
        return {
            "x": (self.batch, self.channels, self.size, self.size),
            "dy": (self.batch, self.outputs, self.output, self.output),
            "w": (self.outputs, self.channels // self.group, self.kernel, self.kernel),
        }

    def __str__(self) -> str:
        kernel = f"{self.kernel}x{self.kernel}" + (f" by {self.stride}" if self.stride > 1 else "")
        group = f", {self.group} groups" if self.group > 1 else ""
        return f"{kernel:10} {self.batch:3} x {self.channels:4} -> {self.outputs:4}, {self.size:3}{group}"


CONVOLUTIONS = (
    Shape(64, 1, 20, 28, 5),
    Shape(64, 20, 50, 12, 5),
    Shape(32, 3, 16, 32, 3, 1, 1),
    Shape(32, 16, 16, 32, 3, 1, 1),
    Shape(32, 16, 32, 32, 3, 2, 1),
    Shape(32, 32, 32, 16, 3, 1, 1),
    Shape(32, 64, 64, 8, 3, 1, 1),
    Shape(8, 64, 64, 56, 3, 1, 1),
    Shape(8, 128, 128, 28, 3, 1, 1),
    Shape(8, 512, 512, 7, 3, 1, 1),
    Shape(1, 3, 64, 224, 7, 2, 3),
    Shape(1, 64, 64, 56, 3, 1, 1),
    Shape(1, 256, 256, 14, 3, 1, 1),
    Shape(1, 128, 32, 28, 3, 1, 1),
    Shape(1, 256, 64, 56, 1),
    Shape(16, 256, 64, 14, 1),
    Shape(32, 16, 32, 32, 1),
    Shape(8, 512, 512, 7, 1),
    Shape(16, 32, 32, 28, 3, 1, 1, 32),
    Shape(16, 96, 96, 14, 5, 1, 2, 96),
    Shape(8, 128, 128, 28, 3, 1, 1, 32),
    Shape(1, 96, 256, 27, 5, 1, 2, 2),
)
AVERAGES = (
    Shape(64, 20, 20, 24, 2, 2),
    Shape(8, 128, 128, 56, 2, 2),
    Shape(8, 192, 192, 28, 3, 1, 1),
    Shape(1, 192, 192, 28, 3, 1, 1),
    Shape(8, 64, 64, 55, 3, 2),
)
MAXIMA = (
    Shape(64, 20, 20, 24, 2, 2),
    Shape(1, 64, 64, 224, 2, 2),
    Shape(8, 64, 64, 55, 3, 2),
    Shape(1, 192, 192, 28, 3, 1, 1),
)


# ---- the forms ---------------------------------------------------------------------------------------


def weight_forms(shape: Shape) -> dict[str, Form]:
    """The weight gradient; see `netgrad.onnx.rules.conv_weight`."""
    windows, group = shape.windows, shape.group

    def form(write: Callable[..., Value], *more: int) -> Form:
        return lambda b, v: write(b, v["x"], v["dy"], v["w"], windows, *more)

    forms = {"chosen": form(conv_weight.weight_gradient, group), "deep": form(conv_weight.deep, group)}
    if group == 1:
        forms["swapped"] = form(conv_weight.swapped)
    elif shape.channels == group:
        forms["depthwise"] = form(conv_weight.depthwise, group)
    forms["patches"] = form(conv_weight.patches, group)
    if shape.kernel == 1 and group == 1:
        forms["einsum"] = lambda b, v: b.reshape(
            b.op("Einsum", v["dy"], v["x"], equation="nmhw,nchw->mc"), shape.shapes["w"]
        )
    return forms


def data_forms(shape: Shape) -> dict[str, Form]:
    """The gradient of a convolution's input; see `netgrad.onnx.rules.conv`."""
    windows, group = shape.windows, shape.group

    def form(write: Callable[..., Value], *more: int) -> Form:
        return lambda b, v: write(b, v["dy"], v["w"], v["x"], windows, *more)

    forms = {"chosen": form(conv.data_gradient, group), "transposed": form(conv.transposed, group)}
    if group == 1 and shape.stride == 1:
        forms["flipped"] = form(conv.flipped)
    return forms


def average_forms(shape: Shape) -> dict[str, Form]:
    """The gradient of an average pool with windows of the full size."""
    k, s, p, share = shape.kernel, shape.stride, shape.pad, 1 / shape.kernel**2
    more = shape.size + 2 * p - k - (shape.output - 1) * s

    def transposed(b: Builder, dy: Value, channels: int) -> Value:
        weight = b.constant(np.full((channels, 1, k, k), share, np.float32))
        return b.op(
            "ConvTranspose",
            dy,
            weight,
            group=channels,
            strides=[s, s],
            pads=[p] * 4,
            output_padding=[more, more] if more else None,
        )

    def one_by_one(b: Builder, v: Mapping[str, Value]) -> Value:
        maps = b.reshape(v["dy"], [-1, 1, shape.output, shape.output])
        return b.reshape(transposed(b, maps, 1), shape.shapes["x"])

    forms: dict[str, Form] = {"grouped": lambda b, v: transposed(b, v["dy"], shape.channels)}
    forms["by channel"] = one_by_one
    if s == 1:
        forms["AveragePool"] = lambda b, v: b.op(
            "AveragePool", v["dy"], kernel_shape=[k, k], pads=[k - 1 - p] * 4, count_include_pad=1
        )
    if s == k and not p:
        forms["Resize"] = lambda b, v: b.op(
            "Resize",
            v["dy"] * share,
            None,
            b.constant(np.array([1, 1, k, k], np.float32)),
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
    return forms


def max_forms(shape: Shape) -> dict[str, Form]:
    """A maximum pool, forward and backward."""
    k, s, p = shape.kernel, shape.stride, shape.pad

    def places(b: Builder, v: Mapping[str, Value]) -> Value:
        return b.ops("MaxPool", v["x"], outputs=2, kernel_shape=[k, k], strides=[s, s], pads=[p] * 4)[1]

    def zeros(b: Builder) -> Value:
        size = int(np.prod(shape.shapes["x"]))
        return b.op("ConstantOfShape", b.ints([size]), value=ir.tensor(np.zeros(1, np.float32)))

    def elements(b: Builder, v: Mapping[str, Value]) -> Value:
        where, updates = b.reshape(places(b, v), [-1]), b.reshape(v["dy"], [-1])
        added = b.op("ScatterElements", zeros(b), where, updates, reduction="add")
        return b.reshape(added, shape.shapes["x"])

    def tuples(b: Builder, v: Mapping[str, Value]) -> Value:
        put = b.op("ScatterND", zeros(b), b.unsqueeze(places(b, v), [-1]), v["dy"])
        return b.reshape(put, shape.shapes["x"])

    forms: dict[str, Form] = {"ScatterElements": elements}
    if s == k and shape.size % k == 0:
        forms["ScatterND"] = tuples
        forms["MaxUnpool"] = lambda b, v: b.op(
            "MaxUnpool", v["dy"], places(b, v), kernel_shape=[k, k], strides=[s, s]
        )
    return forms


# ---- measuring ---------------------------------------------------------------------------------------


def session(form: Form, shapes: Shapes, threads: int) -> tuple[onnxruntime.InferenceSession, int]:
    """A session of the form, and its number of operators."""
    builder, dtype = Builder(18, "form"), ir.DataType.FLOAT
    result = form(builder, {n: builder.value(n, TensorInfo(dtype, s)) for n, s in shapes.items()})
    inputs = {n: ir.Value(name=n, type=ir.TensorType(dtype), shape=ir.Shape(s)) for n, s in shapes.items()}
    graph = ir.Graph(list(inputs.values()), [], nodes=[], name="form", opset_imports={"": 18})
    emitter = Emitter(graph, inputs)
    for index in live(builder.operators, [result.name]):
        emitter.emit(builder.operators[index], None)
    output = emitter.values[result.name]
    output.type = ir.TensorType(dtype)
    graph.outputs.append(output)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # sessions wait in turn
    message = ir.to_proto(ir.Model(graph, ir_version=10)).SerializeToString()
    return onnxruntime.InferenceSession(message, options), len(emitter.generated)


def measure(forms: Mapping[str, Form], shapes: Shapes, threads: int, runs: int, cpu: bool) -> str:
    """One line of results."""
    random = np.random.default_rng(0)
    feeds = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    sessions = {name: session(form, shapes, threads) for name, form in forms.items()}
    clock = time.thread_time if cpu else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in forms}
    results: dict[str, np.ndarray] = {}
    given = {
        name: {value.name: feeds[value.name] for value in one.get_inputs()}
        for name, (one, _) in sessions.items()
    }
    for _ in range(runs + 1):
        for name, (one, _count) in sessions.items():
            start = clock()
            results[name] = one.run(None, given[name])[0]
            times[name].append(1e3 * (clock() - start))
    typical = {name: float(np.quantile(taken[1:], 0.25)) for name, taken in times.items()}
    best, first = min(typical.values()), next(iter(results.values()))
    parts = []
    for name, taken in typical.items():
        error = np.abs(results[name] - first).max() / np.abs(first).max()
        note = "" if error < 1e-4 else " wrong"
        parts.append(f"{name} {taken:.2f} ({taken / best:.1f}, {sessions[name][1]} ops){note}")
    return "  ".join(parts)


def lines(only: set[str]) -> Iterator[tuple[str, Shape, dict[str, Form]]]:
    """What to measure."""
    for kind, shapes, forms in (
        ("weight", CONVOLUTIONS, weight_forms),
        ("data", CONVOLUTIONS, data_forms),
        ("average", AVERAGES, average_forms),
        ("max", MAXIMA, max_forms),
    ):
        if kind in only:
            for shape in shapes:
                yield kind, shape, forms(shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--only", default="weight,data,average,max")
    parser.add_argument("--cpu", action="store_true", help="processor time of one thread")
    given = parser.parse_args()
    threads = 1 if given.cpu else given.threads
    print("milliseconds, lower quartile (ratio to the fastest, operators)")
    for kind, shape, forms in lines(set(given.only.split(","))):
        print(f"{kind:8}{shape}: {measure(forms, shape.shapes, threads, given.runs, given.cpu)}", flush=True)


if __name__ == "__main__":
    main()
