"""Rows of operators that rearrange or repeat elements."""

from tests.onnx.rules.table import Case, constant, normal, run_time

CASES = [
    # ---- Reshape -------------------------------------------------------------------------------------
    Case("Reshape", [normal(2, 3, 4), constant([4, 6])]),
    Case("Reshape", [normal(2, 3, 4), constant([6, -1])], note="one dim inferred"),
    Case("Reshape", [normal(2, 3, 4), constant([0, -1])], note="a dim kept by 0"),
    Case("Reshape", [normal(2, 3, 4), run_time([3, 8])], note="shape at run time"),
    Case("Reshape", [normal(1, 1), constant([], "int64")], note="to 0d"),
    Case("Reshape", [normal(), constant([1, 1])], note="from 0d"),
    Case("Reshape", [normal(0, 3), constant([0, 5])], {"allowzero": 1}, note="empty"),
    Case("Reshape", [normal(2, 0, 3), run_time([0, 2, 3, 1])], {"allowzero": 1}, note="empty at run time"),
    # ---- Flatten -------------------------------------------------------------------------------------
    *(Case("Flatten", [normal(2, 3, 4)], {"axis": axis}) for axis in (0, 1, 2, 3, -1, -3)),
    Case("Flatten", [normal(2, 3, 4)], note="default axis"),
    Case("Flatten", [normal()], {"axis": 0}),
    Case("Flatten", [normal(2, 0, 3)], note="empty"),
    # ---- Squeeze, Unsqueeze --------------------------------------------------------------------------
    Case("Squeeze", [normal(1, 2, 1, 3), constant([0])]),
    Case("Squeeze", [normal(1, 2, 1, 3), constant([-2, 0])], note="negative axes in any order"),
    Case("Squeeze", [normal(1, 2, 1, 3), run_time([2])], note="axes at run time"),
    Case("Squeeze", [normal(1, 2, 1, 3)], note="all axes of size 1"),
    Case("Squeeze", [normal(1, 0, 3), constant([0])], note="empty"),
    Case("Unsqueeze", [normal(2, 3), constant([0])]),
    Case("Unsqueeze", [normal(2, 3), constant([-1, 1])], note="negative axes in any order"),
    Case("Unsqueeze", [normal(2, 3), run_time([3, 0])], note="axes at run time"),
    Case("Unsqueeze", [normal(), constant([0, 1])], note="from 0d"),
    Case("Unsqueeze", [normal(0, 3), constant([1])], note="empty"),
    # ---- Transpose -----------------------------------------------------------------------------------
    Case("Transpose", [normal(2, 3, 4)], note="axes reversed"),
    Case("Transpose", [normal(2, 3, 4)], {"perm": [1, 2, 0]}),
    Case("Transpose", [normal(2, 3, 4)], {"perm": [2, 0, 1]}),
    Case("Transpose", [normal(2, 3, 4)], {"perm": [0, 1, 2]}, note="nothing moves"),
    Case("Transpose", [normal(2, 3, 4, 1)], {"perm": [0, 2, 3, 1]}),
    Case("Transpose", [normal(0, 3)], note="empty"),
    # ---- Expand --------------------------------------------------------------------------------------
    Case("Expand", [normal(3, 1), constant([3, 4])]),
    Case("Expand", [normal(3, 1), constant([2, 1, 4])], note="new leading axis"),
    Case("Expand", [normal(2, 3), constant([1])], note="x is broadcast to nothing larger"),
    Case("Expand", [normal(2, 1, 3), constant([4, 1])], note="both ways"),
    Case("Expand", [normal(3, 1), run_time([2, 3, 4])], note="shape at run time"),
    Case("Expand", [normal(1, 3), run_time([2, 1])], note="both ways at run time"),
    Case("Expand", [normal(), constant([2, 3])], note="from 0d"),
    Case("Expand", [normal(1, 3), constant([0, 3])], note="to nothing"),
    # ---- Tile ----------------------------------------------------------------------------------------
    Case("Tile", [normal(2, 3), constant([2, 1])]),
    Case("Tile", [normal(2, 3), constant([3, 2])], note="both axes"),
    Case("Tile", [normal(2, 3), constant([1, 1])], note="once"),
    Case("Tile", [normal(2, 3), run_time([2, 3])], note="repeats at run time"),
    Case("Tile", [normal(2, 3, 1), constant([1, 1, 4])]),
    Case("Tile", [normal(2, 3), constant([0, 2])], note="not at all"),
    Case("Tile", [normal(0, 3), constant([2, 2])], note="empty"),
    # ---- DepthToSpace, SpaceToDepth, ReverseSequence, Trilu --------------------------------------------
    Case("DepthToSpace", [normal(1, 8, 2, 3)], {"blocksize": 2}),
    Case("DepthToSpace", [normal(2, 8, 1, 3)], {"blocksize": 2, "mode": "DCR"}),
    Case("DepthToSpace", [normal(2, 12, 1, 2)], {"blocksize": 2, "mode": "CRD"}),
    Case("DepthToSpace", [normal(1, 9, 2, 1)], {"blocksize": 3, "mode": "CRD"}),
    Case("SpaceToDepth", [normal(2, 3, 4, 2)], {"blocksize": 2}),
    Case("SpaceToDepth", [normal(1, 1, 3, 6)], {"blocksize": 3}),
    Case("ReverseSequence", [normal(4, 3), constant([1, 4, 2])]),
    Case("ReverseSequence", [normal(3, 4, 2), run_time([1, 4, 2])], {"batch_axis": 0, "time_axis": 1}),
    *(Case("Trilu", [normal(3, 4)], {"upper": upper}) for upper in (0, 1)),
    *(Case("Trilu", [normal(2, 4, 3), constant(k)], {"upper": 0}, note=f"k={k}") for k in (-1, 0, 2)),
    *(Case("Trilu", [normal(2, 3, 4), constant(k)], {"upper": 1}, note=f"k={k}") for k in (-2, 1)),
    Case("Trilu", [normal(3, 4), run_time(1)], note="k at run time"),
    Case("Trilu", [normal(0, 4)], note="empty"),
]
