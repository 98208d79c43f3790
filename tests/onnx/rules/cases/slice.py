"""Rows of Slice and Compress."""

from tests.onnx.rules.table import Case, Tensor, constant, normal, run_time

LAST = (1 << 63) - 1
FIRST = -(1 << 63) + 1


def sliced(
    x: Tensor, *bounds: list[int] | None, note: str, at_run_time: bool = False, opset: int = 18
) -> Case:
    """Slice with starts, ends, axes and steps in this order, as initializers or as inputs."""
    made = run_time if at_run_time else constant
    return Case(
        "Slice", [x, *(None if b is None else made(b) for b in bounds)], note=f"{bounds} {note}", opset=opset
    )


CASES = [
    sliced(normal(5, 3), [1], [4], [0], note="inner rows"),
    sliced(normal(5, 3), [1, 0], [3, 2], note="no axes"),
    sliced(normal(5, 3), [0], [-1], [0], note="all but the last"),
    sliced(normal(5, 3), [1], [LAST], [0], note="all but the first"),
    sliced(normal(5, 3), [-2], [LAST], [-2], note="the last two"),
    sliced(normal(5, 3), [0], [100], [1], note="everything"),
    sliced(normal(5, 3), [3], [2], [0], note="nothing"),
    sliced(normal(5, 3), [-100], [3], [0], note="start before the first"),
    sliced(normal(5, 3), [7], [9], [0], note="start after the last"),
    sliced(normal(5, 3), [4], [FIRST], [0], [-1], note="reversed"),
    sliced(normal(5, 3), [100000, 0], [-100000, 2], [0, -1], [-2, 1], note="backwards from beyond the end"),
    sliced(normal(5, 3), [-9, 1], [-7, -9], [0, 1], [-1, -1], note="a start too far below is 0"),
    sliced(normal(7, 2), [1], [LAST], [0], [3], note="every third"),
    sliced(normal(7, 4), [5, 0], [0, 3], [0, 1], [-2, 2], note="both strided"),
    sliced(normal(6, 4, 2), [-2, 1], [-5, 3], [0, 1], [-1, 1], note="backwards and forwards"),
    sliced(normal(6, 3), [2], [2], [0], [2], note="nothing of every second"),
    sliced(normal(0, 3), [0], [2], [1], note="empty"),
    sliced(normal(5, 3), [1], [4], [0], at_run_time=True, note="all at run time"),
    sliced(normal(6, 3), [5, 0], [0, 3], [0, 1], [-2, 2], at_run_time=True, note="all at run time"),
    sliced(normal(6, 3), [-5, 0], [-1, 1], at_run_time=True, note="no axes, at run time"),
    Case("Slice", [normal(6, 3), run_time([1]), run_time([-2]), constant([0])], note="bounds at run time"),
    Case(
        "Slice",
        [normal(6, 3), run_time([-2, 0]), run_time([100, 2]), constant([0, 1])],
        note="two pairs of bounds at run time",
    ),
    Case("Slice", [normal(6, 3), constant([2]), run_time([5]), constant([0])], note="end at run time"),
    Case(
        "Slice",
        [normal(6, 3), run_time([7]), constant([100]), constant([0])],
        note="start beyond at run time",
    ),
    Case(
        "Slice",
        [normal(6, 3), run_time([-1]), run_time([-100]), constant([0]), constant([-2])],
        note="bounds at run time, backwards",
    ),
    Case(
        "Slice",
        [normal(6, 3), constant([1], "int32"), constant([5], "int32"), constant([0], "int32")],
        note="int32",
    ),
    Case(
        "Slice",
        [normal(6, 3), run_time([1, 1], "int32"), run_time([5, 2], "int32")],
        note="int32 at run time",
    ),
    # ---- Compress --------------------------------------------------------------------------------------
    Case("Compress", [normal(4, 3), constant([1, 0, 0, 1], bool)], {"axis": 0}),
    Case("Compress", [normal(4, 3), run_time([0, 1, 1], bool)], {"axis": -1}),
    Case(
        "Compress",
        [normal(4, 3), run_time([0, 1], bool)],
        {"axis": 0},
        note="condition shorter than the axis",
    ),
    Case("Compress", [normal(2, 3), run_time([0, 1, 0, 0, 1, 1], bool)], note="flattened"),
    Case("Compress", [normal(2, 3), constant([0, 1, 0, 1], bool)], note="flattened, shorter"),
    Case("Compress", [normal(2, 3), run_time([0, 0], bool)], {"axis": 0}, note="nothing"),
]
