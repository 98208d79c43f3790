"""How fast, and how right, the formulations of Gather's gradient are on ONNX Runtime.

Gather copies entries of ``x`` along an axis, so its gradient adds every entry of the cotangent to the place
that it was copied from. Standard operators can say that in several ways; this prints the milliseconds of
each, per shape, and how many of its runs were wrong, by comparison with NumPy on small integers, which add
exactly.

    python benchmarks/gather.py [--threads 2] [--runs 30]

Measured with ONNX Runtime 1.32 on 2 cores of an AMD EPYC: ScatterND is the fastest for rows that repeat, and
wrong in some runs as soon as it uses both threads, so the rules use ScatterElements (`scatter_along`), and
Pad, Gather, or Slice where the indices are constants (`collect`).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper


@dataclass(frozen=True)
class Shape:
    """One use of Gather: the shape of x, the axis, and the indices."""

    name: str
    x: tuple[int, ...]
    axis: int
    indices: np.ndarray

    @property
    def cotangent(self) -> tuple[int, ...]:
        """Shape of the cotangent."""
        return (*self.x[: self.axis], *self.indices.shape, *self.x[self.axis + 1 :])

    def expected(self, dy: np.ndarray) -> np.ndarray:
        """The gradient, by NumPy."""
        flat = dy.reshape(*self.x[: self.axis], self.indices.size, *self.x[self.axis + 1 :])
        dx = np.zeros(self.x, np.float64)
        np.add.at(np.moveaxis(dx, self.axis, 0), self.indices.ravel(), np.moveaxis(flat, self.axis, 0))
        return dx


def shapes() -> list[Shape]:
    rng = np.random.default_rng(0)
    return [
        Shape("embedding 100k x 32, 1280 of them", (100_000, 32), 0, rng.integers(0, 100_000, 1280)),
        Shape("embedding 1k x 32, 1280 of them", (1000, 32), 0, rng.integers(0, 1000, 1280)),
        Shape("embedding 30k x 256, 4 x 128", (30_000, 256), 0, rng.integers(0, 30_000, (4, 128))),
        Shape("token types 2 x 256, 4 x 128", (2, 256), 0, rng.integers(0, 2, (4, 128))),
        Shape("classes 3 x 64, 20,000 of them", (3, 64), 0, rng.integers(0, 3, 20_000)),
        Shape("16 columns of 1024 x 64", (1024, 64), 1, rng.integers(0, 64, 16)),
        Shape("first token of 32 x 128 x 256", (32, 128, 256), 1, np.asarray(0)),
        Shape("channel shuffle 8 x 64 x 28 x 28", (8, 64, 28, 28), 1, rng.permutation(64)),
        Shape("shuffled columns 8 x 32 x 64 x 64", (8, 32, 64, 64), 3, rng.permutation(64)),
    ]


Built = tuple[list[onnx.NodeProto], dict[str, np.ndarray]]
Form = Callable[[Shape], "Built | None"]
INT = np.int64


def scatter_elements(shape: Shape) -> Built:
    """ScatterElements(add), the indices expanded to the cotangent."""
    flat = (*shape.x[: shape.axis], shape.indices.size, *shape.x[shape.axis + 1 :])
    column = [1] * len(shape.x)
    column[shape.axis] = shape.indices.size
    nodes = [
        helper.make_node("Reshape", ["dy", "flat"], ["dy_flat"]),
        helper.make_node("Reshape", ["indices", "column"], ["indices_column"]),
        helper.make_node("Expand", ["indices_column", "flat"], ["places"]),
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node(
            "ScatterElements", ["zeros", "places", "dy_flat"], ["dx"], axis=shape.axis, reduction="add"
        ),
    ]
    return nodes, {
        "flat": np.asarray(flat, INT),
        "column": np.asarray(column, INT),
        "shape": np.asarray(shape.x, INT),
    }


def scatter_nd(shape: Shape) -> Built:
    """ScatterND(add) along axis 0, between two transpositions for another axis."""
    flat = (*shape.x[: shape.axis], shape.indices.size, *shape.x[shape.axis + 1 :])
    swap = [shape.axis, *(k for k in range(len(shape.x)) if k != shape.axis)]
    back = [int(k) for k in np.argsort(swap)]
    first, last = ("dy_flat", "dx") if shape.axis == 0 else ("dy_first", "dx_first")
    nodes = [
        helper.make_node("Reshape", ["dy", "flat"], ["dy_flat"]),
        helper.make_node("Reshape", ["indices", "column"], ["indices_column"]),
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node("ScatterND", ["zeros", "indices_column", first], [last], reduction="add"),
    ]
    if shape.axis:
        nodes.insert(1, helper.make_node("Transpose", ["dy_flat"], [first], perm=swap))
        nodes.append(helper.make_node("Transpose", [last], ["dx"], perm=back))
    return nodes, {
        "flat": np.asarray(flat, INT),
        "column": np.asarray([shape.indices.size, 1], INT),
        "shape": np.asarray([shape.x[k] for k in swap], INT),
    }


def one_hot(shape: Shape) -> Built | None:
    """A product with the one-hot matrix of the indices; for tables only."""
    if shape.axis or shape.x[0] > 2000:
        return None
    nodes = [
        helper.make_node("Reshape", ["dy", "flat"], ["dy_flat"]),
        helper.make_node("Reshape", ["indices", "row"], ["indices_row"]),
        helper.make_node("OneHot", ["indices_row", "depth", "values"], ["hot"], axis=0),
        helper.make_node("MatMul", ["hot", "dy_flat"], ["dx"]),
    ]
    return nodes, {
        "flat": np.asarray([shape.indices.size, *shape.x[1:]], INT),
        "row": np.asarray([-1], INT),
        "depth": np.asarray(shape.x[0], INT),
        "values": np.asarray([0, 1], np.float32),
    }


def distinct_rows(shape: Shape) -> Built | None:
    """Equal indices are added first, so that ScatterND meets each row once; for tables only."""
    if shape.axis:
        return None
    count = shape.indices.size
    nodes = [
        helper.make_node("Reshape", ["dy", "flat"], ["dy_flat"]),
        helper.make_node("Reshape", ["indices", "row"], ["indices_row"]),
        helper.make_node("Unique", ["indices_row"], ["rows", "", "group"], sorted=1),
        helper.make_node("Shape", ["rows"], ["groups"]),
        helper.make_node("Concat", ["groups", "width"], ["sums_shape"], axis=0),
        helper.make_node("ConstantOfShape", ["sums_shape"], ["no_sums"]),
        helper.make_node("Unsqueeze", ["group", "one"], ["group_column"]),
        helper.make_node("Expand", ["group_column", "flat"], ["places"]),
        helper.make_node(
            "ScatterElements", ["no_sums", "places", "dy_flat"], ["sums"], axis=0, reduction="add"
        ),
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node("Unsqueeze", ["rows", "one"], ["rows_column"]),
        helper.make_node("ScatterND", ["zeros", "rows_column", "sums"], ["dx"]),
    ]
    return nodes, {
        "flat": np.asarray([count, *shape.x[1:]], INT),
        "row": np.asarray([-1], INT),
        "one": np.asarray([1], INT),
        "width": np.asarray(shape.x[1:], INT),
        "shape": np.asarray(shape.x, INT),
    }


def pad_gather(shape: Shape, *, moved: bool = False) -> Built | None:
    """For constant, distinct indices: Gather from the cotangent and one entry of zeros."""
    if np.unique(shape.indices).size != shape.indices.size or shape.x[shape.axis] > 10_000:
        return None
    rank, count, size = len(shape.x), shape.indices.size, shape.x[shape.axis]
    source = np.full(size, count, INT)
    source[shape.indices.ravel()] = np.arange(count)
    flat = (*shape.x[: shape.axis], count, *shape.x[shape.axis + 1 :])
    nodes = [helper.make_node("Reshape", ["dy", "flat"], ["dy_flat"])]
    padded = "dy_flat"
    if count < size:
        padded = "dy_padded"
        nodes.append(helper.make_node("Pad", ["dy_flat", "pads", "", "axes"], [padded]))
    if moved:
        swap = [shape.axis, *(k for k in range(rank) if k != shape.axis)]
        nodes += [
            helper.make_node("Transpose", [padded], ["first"], perm=swap),
            helper.make_node("Gather", ["first", "source"], ["dx_first"], axis=0),
            helper.make_node("Transpose", ["dx_first"], ["dx"], perm=[int(k) for k in np.argsort(swap)]),
        ]
    else:
        nodes.append(helper.make_node("Gather", [padded, "source"], ["dx"], axis=shape.axis))
    return nodes, {
        "flat": np.asarray(flat, INT),
        "pads": np.asarray([0, 1], INT),
        "axes": np.asarray([shape.axis], INT),
        "source": source,
    }


def moved_gather(shape: Shape) -> Built | None:
    """The same between two transpositions, so that the axis is not the last."""
    return pad_gather(shape, moved=True) if shape.axis == len(shape.x) - 1 else None


FORMS: dict[str, Form] = {
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "one-hot MatMul": one_hot,
    "distinct rows": distinct_rows,
    "Pad, Gather": pad_gather,
    "transposed": moved_gather,
}


def session(form: Form, shape: Shape, threads: int) -> onnxruntime.InferenceSession | None:
    """The form as a model on ONNX Runtime; None where it does not apply."""
    built = form(shape)
    if built is None:
        return None
    nodes, constants = built
    graph = helper.make_graph(
        nodes,
        "gather_gradient",
        [
            helper.make_tensor_value_info("dy", onnx.TensorProto.FLOAT, shape.cotangent),
            helper.make_tensor_value_info("indices", onnx.TensorProto.INT64, shape.indices.shape),
        ],
        [helper.make_tensor_value_info("dx", onnx.TensorProto.FLOAT, shape.x)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def measure(form: Form, shape: Shape, threads: int, runs: int) -> tuple[float, int] | None:
    """Least milliseconds of a run, and how many runs were wrong; None where the form does not apply."""
    made = session(form, shape, threads)
    if made is None:
        return None
    dy = np.random.default_rng(1).integers(-4, 5, shape.cotangent).astype(np.float32)
    feed = {"dy": dy, "indices": shape.indices.astype(np.int64)}
    feed = {value.name: feed[value.name] for value in made.get_inputs()}
    expected = shape.expected(dy)
    seconds, wrong = [], 0
    for _ in range(runs):
        start = time.perf_counter()
        (dx,) = made.run(None, feed)
        seconds.append(time.perf_counter() - start)
        wrong += not np.array_equal(dx, expected)
    return 1e3 * min(seconds), wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=2, help="intra-op threads of ONNX Runtime")
    parser.add_argument("--runs", type=int, default=30, help="runs of each form")
    arguments = parser.parse_args()
    print(
        f"onnxruntime {onnxruntime.__version__}, {arguments.threads} threads; ms, least of {arguments.runs}"
    )
    print("shape".ljust(36) + "".join(name.rjust(20) for name in FORMS))
    for shape in shapes():
        cells = []
        for form in FORMS.values():
            result = measure(form, shape, arguments.threads, arguments.runs)
            if result is None:
                cells.append("-")
            else:
                milliseconds, wrong = result
                cells.append(f"{milliseconds:.3f}" + (f" ({wrong} wrong)" if wrong else ""))
        print(shape.name.ljust(36) + "".join(cell.rjust(20) for cell in cells), flush=True)


if __name__ == "__main__":
    main()
