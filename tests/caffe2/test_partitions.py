"""Rows divided by keys, lists of ids, ranges and blocks, indexes and quantized tables: small ones by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, workspace


def _run(type_: str, inputs: dict[str, Any], outputs: int, **arguments: Any) -> list[Any]:
    for name, array in inputs.items():
        workspace.FeedBlob(name, array)
    names = [f"y{at}" for at in range(outputs)]
    workspace.RunOperatorOnce(core.CreateOperator(type_, list(inputs), names, **arguments))
    return [workspace.FetchBlob(name) for name in names]


def _check(found: list[Any], *expected: Any) -> None:
    for array, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(array, wanted)


KEYS = np.array([3, 4, 8, 5, 3], np.int64)
ROWS = np.arange(10, dtype=np.float32).reshape(5, 2)


def test_rows_are_divided_by_keys() -> None:
    """The outputs of one shard come together; packed keys are what is left of them."""
    even, odd = [1, 2], [0, 3, 4]
    found = _run("Partition", {"k": KEYS, "x": ROWS}, 4)
    _check(found, KEYS[even], ROWS[even], KEYS[odd], ROWS[odd])
    _check(_run("Partition", {"k": KEYS}, 2, pack_first_input=1), [2, 4], [1, 2, 1])
    found = _run("LengthsPartition", {"l": np.array([2, 0, 3], np.int32), "k": KEYS}, 4)
    _check(found, [1, 0, 1], KEYS[even], [1, 0, 2], KEYS[odd])


def test_divided_rows_are_put_together_and_differentiated() -> None:
    net = core.Net("by_key")
    net.GatherByKey(["k", "a", "b"], "y")
    net.Mul(["y", "weights"], "z")
    gradients = net.AddGradientOperators([net.SumElements("z", "loss")])
    for name, array in {"k": KEYS, "a": ROWS[[1, 2]], "b": ROWS[[0, 3, 4]], "weights": ROWS * 10}.items():
        workspace.FeedBlob(name, array)
    workspace.RunNetOnce(net)
    np.testing.assert_array_equal(workspace.FetchBlob("y"), ROWS)
    np.testing.assert_array_equal(workspace.FetchBlob(gradients["a"]), 10 * ROWS[[1, 2]])
    np.testing.assert_array_equal(workspace.FetchBlob(gradients["b"]), 10 * ROWS[[0, 3, 4]])
    workspace.FeedBlob("a", ROWS)
    with pytest.raises(RuntimeError, match="2 keys are of shard 0, which has 5 rows"):
        workspace.RunNetOnce(net)


def test_lists_of_ids() -> None:
    lists = {
        "l": np.array([2, 1], np.int32),
        "a": np.array([5, 1, 7], np.int64),
        "m": np.array([1, 2], np.int32),
        "b": np.array([5, 7, 2], np.int64),
    }
    _check(_run("MergeIdLists", lists, 2), [2, 2], [1, 5, 2, 7])
    _check(_run("FindDuplicateElements", {"x": np.array([3, 1, 3, 3, 1], np.int64)}, 1), [2, 3, 4])
    texts = np.array(["a", "b", "a"], object)
    _check(_run("FindDuplicateElements", {"x": texts}, 1), [2])


def test_hashes_of_ids() -> None:
    """By NumPy's numbers, which overflow as the original's do."""
    ids = np.array([0, 7, -3, 2**40], np.int64)
    found = _run("IndexHash", {"i": ids}, 1, seed=3, modulo=1000)[0]
    with np.errstate(over="ignore"):
        for number, hashed in zip(ids, found, strict=True):
            value = np.int64(0xDEADBEEF) * np.int64(3)
            for part in np.array([number]).view(np.int8):
                value = value * np.int64(65537) + np.int64(part)
            assert hashed == int(value) % 1000
    with pytest.raises(RuntimeError, match="the argument 'modulo' is missing"):
        _run("IndexHash", {"i": ids}, 1)


RANGES = np.array([[[0, 1], [1, 2]], [[3, 1], [0, 0]]], np.int32)


def test_ranges() -> None:
    data = np.array([10, 20, 30, 40], np.float32)
    _check(_run("GatherRanges", {"x": data, "r": RANGES}, 2), [10, 20, 30, 40], [3, 1])
    inputs = {"x": data, "r": RANGES, "k": np.array([1, 9, 8, 2], np.int64)}
    _check(_run("GatherRangesToDense", inputs, 2, lengths=[1, 2]), [[10], [40]], [[30, 20], [0, 0]])
    with pytest.raises(RuntimeError, match="a range ends behind the data, which are 3"):
        _run("GatherRanges", {"x": data[:3], "r": RANGES}, 2)


def test_ranges_that_are_empty_or_of_another_length_become_zeros() -> None:
    """One of the second ranges is empty, the other one has 2 data and not 3: half of two, a third of 3."""
    inputs = {"x": np.array([10, 20, 30, 40], np.float32), "r": RANGES}

    def run(**limits: Any) -> Any:
        return _run("GatherRangesToDense", inputs, 2, lengths=[1, 3], **limits)

    _check(run(), [[10], [40]], [[0, 0, 0], [0, 0, 0]])
    _check(run(min_observation=2, max_mismatched_ratio=0.5), [[10], [40]], np.zeros((2, 3)))
    _check(run(min_observation=3, max_mismatched_ratio=0.34), [[10], [40]], np.zeros((2, 3)))
    with pytest.raises(RuntimeError, match="should have 3 data; 1 times of 2 it was of another length"):
        run(min_observation=2, max_mismatched_ratio=0.4)
    with pytest.raises(RuntimeError, match="should have 3 data; 1 times of 2 it was empty"):
        run(min_observation=2, max_mismatched_ratio=0.5, max_empty_ratio=0.4)
    net = core.Net("ranges")
    net.GatherRangesToDense(
        list(inputs), ["a", "b"], lengths=[1, 3], min_observation=3, max_mismatched_ratio=0.34
    )
    workspace.CreateNet(net)
    workspace.RunNet(net)
    with pytest.raises(RuntimeError, match="2 times of 4 it was of another length"):
        workspace.RunNet(net)


def test_blocks_and_empty_samples() -> None:
    found = _run("RemoveDataBlocks", {"x": ROWS, "i": np.array([3, 0], np.int32)}, 1)
    _check(found, ROWS[[1, 2, 4]])
    sizes = np.array([0, 2, 0, 1], np.int32)
    found = _run("PadEmptySamples", {"l": sizes, "x": np.array([1.0, 2.0, 3.0], np.float32)}, 2)
    _check(found, [1, 2, 1, 1], [0, 1, 2, 0, 3])


def test_buckets() -> None:
    """The example of the original's documentation: bounds lie in the bucket below them."""
    inputs = {
        "x": np.array([[2, 3], [4, 1], [2, 5]], np.float32),
        "l": np.array([2, 3], np.int32),
        "b": np.array([0.1, 2.5, 1, 3.1, 4.5], np.float32),
    }
    expected = [[0, 1, 0, 0, 1, 0, 0], [0, 0, 1, 1, 0, 0, 0], [0, 1, 0, 0, 0, 0, 1]]
    _check(_run("BatchBucketOneHot", inputs, 1), expected)
    # Between equal bounds the middle; the figures are the original's.
    for bounds, buckets in [([0, 0], [1, 0, 2]), ([0, 0, 0, 0], [2, 0, 4]), ([-1, 0, 0, 0, 1], [2, 1, 4])]:
        equal = {
            "x": np.array([[0], [-0.5], [0.5]], np.float32),
            "l": np.array([len(bounds)], np.int32),
            "b": np.array(bounds, np.float32),
        }
        _check(_run("BatchBucketOneHot", equal, 1), np.eye(len(bounds) + 1)[buckets])
    net = core.Net("buckets")
    net.BatchBucketOneHot(list(inputs), "hot")
    shapes, types = workspace.InferShapesAndTypes([net], {name: x.shape for name, x in inputs.items()})
    assert (shapes["hot"], types["hot"]) == ([3, 7], core.DataType.FLOAT)


def test_joined_texts() -> None:
    _check(_run("StringJoin", {"x": np.array([[1.5, 2], [3, 4e9]], np.float32)}, 1), [b"1.5,2,", b"3,4e+09,"])
    found = _run("StringJoin", {"x": np.array([[True, False]])}, 1, axis=1, delimiter="-")
    _check(found, [b"1-", b"0-"])
    _check(_run("StringJoin", {"x": np.array([b"ab", b"c"], object)}, 1, delimiter=""), [b"ab", b"c"])


# ---- indexes -----------------------------------------------------------------------------------------------


def _index(type_: str, inputs: list[str], outputs: list[str], **arguments: Any) -> None:
    workspace.RunOperatorOnce(core.CreateOperator(type_, inputs, outputs, **arguments))


@pytest.mark.parametrize(
    ("create", "keys", "unknown"),
    [
        ("IntIndexCreate", np.array([[7, 5], [7, 9]], np.int32), np.array([1, 9], np.int32)),
        ("LongIndexCreate", np.array([[7, 5], [7, 9]], np.int64), np.array([1, 9], np.int64)),
        ("StringIndexCreate", np.array([["g", "e"], ["g", "i"]], object), np.array(["a", "i"], object)),
    ],
)
def test_indexes(create: str, keys: Any, unknown: Any) -> None:
    """Keys get numbers from 1; a frozen index has 0 for new ones."""
    _index(create, [], ["index"], max_elements=5)
    workspace.FeedBlob("keys", keys)
    workspace.FeedBlob("unknown", unknown)
    _index("IndexGet", ["index", "keys"], ["numbers"])
    np.testing.assert_array_equal(workspace.FetchBlob("numbers"), [[1, 2], [1, 3]])
    _index("IndexFreeze", ["index"], ["index"])
    _index("IndexGet", ["index", "unknown"], ["numbers"])
    np.testing.assert_array_equal(workspace.FetchBlob("numbers"), [0, 3])
    _index("IndexSize", ["index"], ["size"])
    assert workspace.FetchBlob("size") == [4]
    _index("IndexStore", ["index"], ["stored"])
    assert len(workspace.FetchBlob("stored")) == 3
    _index(create, [], ["other"])
    _index("IndexLoad", ["other", "stored"], ["other"], skip_first_entry=1)
    _index("IndexGet", ["other", "keys"], ["numbers"])
    np.testing.assert_array_equal(workspace.FetchBlob("numbers"), [[3, 1], [3, 2]])


def test_what_an_index_refuses() -> None:
    _index("IntIndexCreate", [], ["index"], max_elements=3)
    workspace.FeedBlob("keys", np.array([1, 2, 3], np.int32))
    with pytest.raises(RuntimeError, match="the index holds 2 keys"):
        _index("IndexGet", ["index", "keys"], ["numbers"])
    workspace.FeedBlob("keys", np.array([1, 2], np.int64))
    with pytest.raises(RuntimeError, match="its keys are int64, and those of the index int32"):
        _index("IndexGet", ["index", "keys"], ["numbers"])
    with pytest.raises(RuntimeError, match="input 'keys' holds no index"):
        _index("IndexSize", ["keys"], ["size"])


def test_places_of_keys() -> None:
    keys = np.random.default_rng(0).integers(0, 5, 100)
    workspace.FeedBlob("keys", keys)
    outputs = [f"places_{at}" for at in range(6)]
    _index("KeySplit", ["keys"], outputs, categorical_limit=6)
    for at, name in enumerate(outputs):
        assert workspace.FetchBlob(name).tolist() == [place for place, key in enumerate(keys) if key == at]
    with pytest.raises(RuntimeError, match="the number of outputs, 3"):
        _index("KeySplit", ["keys"], outputs[:3], categorical_limit=6)
    with pytest.raises(RuntimeError, match="keys lie between 0 and 4"):
        _index("KeySplit", ["keys"], outputs[:3], categorical_limit=3)


# ---- quantized tables --------------------------------------------------------------------------------------

TABLE = np.random.default_rng(3).uniform(-2, 2, (6, 5)).astype(np.float32)
INDICES, SIZES = np.array([0, 3, 3, 5], np.int64), np.array([1, 0, 3], np.int32)
WEIGHTS = np.array([0.5, 2, -1, 1], np.float32)


def _pooled(rows: Any) -> Any:
    return np.stack([rows[0], np.zeros(5), rows[1] + rows[2] + rows[3]])


def test_halves_between_eight_bits() -> None:
    """A row from -2 to 2 has steps of 4 / 255, and 0 lies halfway, which floats put below."""
    row = np.array([[-2, 0, 2]], np.float32)
    inverse = np.float32(1) / (np.float32(4) / np.float32(255))
    assert np.float32(2) * inverse < 127.5
    numbers, _ = _run("FloatToRowwiseQuantized8Bits", {"x": row}, 2)
    assert numbers.tolist() == [[0, 127, 255]]
    (fused,) = _run("FloatToFused8BitRowwiseQuantized", {"x": row}, 1)
    assert fused[0, :3].tolist() == [0, 128, 255]
    # Of steps of 1, which are exact, halves are rounded up; in a fused table to the even number.
    whole = np.array([[0, 0.5, 1.5, 255]], np.float32)
    assert _run("FloatToRowwiseQuantized8Bits", {"x": whole}, 2)[0].tolist() == [[0, 1, 2, 255]]
    assert _run("FloatToFused8BitRowwiseQuantized", {"x": whole}, 1)[0][0, :4].tolist() == [0, 0, 2, 255]


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_tables_of_no_rows(bits: int) -> None:
    (packed,) = _run(f"FloatToFused{bits}BitRowwiseQuantized", {"x": np.zeros((0, 8), np.float32)}, 1)
    assert packed.shape == (0, bits + (8 if bits == 8 else 4))
    (rows,) = _run(f"Fused{bits}BitRowwiseQuantizedToFloat", {"x": packed}, 1)
    assert rows.shape == (0, 8)


def test_eight_bits() -> None:
    """Within half a step of the row; sums are those of the rounded rows."""
    step = (TABLE.max(1, keepdims=True) - TABLE.min(1, keepdims=True)) / 255
    numbers, pair = _run("FloatToRowwiseQuantized8Bits", {"x": TABLE}, 2)
    assert (numbers.dtype, pair.shape) == (np.uint8, (6, 2))
    (rounded,) = _run("Rowwise8BitQuantizedToFloat", {"n": numbers, "p": pair}, 1)
    assert (abs(rounded - TABLE) <= step * 0.501).all()
    (fused,) = _run("FloatToFused8BitRowwiseQuantized", {"x": TABLE}, 1)
    assert fused.shape == (6, 13)
    np.testing.assert_array_equal(fused[:, 5:].copy().view(np.float32)[:, 1], TABLE.min(1))
    (unfused,) = _run("Fused8BitRowwiseQuantizedToFloat", {"f": fused}, 1)
    np.testing.assert_allclose(unfused, rounded, atol=1e-6)
    _check(_run("GatherFused8BitRowwise", {"f": fused, "i": INDICES}, 1), unfused[INDICES])
    for shape in ((2, 3), (6,)):  # rows lie along the last axis
        (folded,) = _run("FloatToFused8BitRowwiseQuantized", {"x": TABLE[:, :4].reshape(*shape, -1)}, 1)
        assert folded.shape == (*shape, 12)
        (back,) = _run("Fused8BitRowwiseQuantizedToFloat", {"f": folded}, 1)
        np.testing.assert_allclose(back.reshape(6, 4), TABLE[:, :4], atol=float(step.max()) * 0.501)
    (row,) = _run("FloatToFused8BitRowwiseQuantized", {"x": TABLE[0]}, 1)
    np.testing.assert_array_equal(row, fused[0])
    _check(_run("GatherFused8BitRowwise", {"f": fused, "i": INDICES[:0]}, 1), unfused[:0])
    plain = {"i": INDICES, "l": SIZES}
    picked = rounded[INDICES]
    means = _pooled(picked) / [[1], [1], [3]]
    weighted = _pooled(picked * WEIGHTS[:, None])
    for type_, inputs, expected in [
        ("SparseLengthsSum8BitsRowwise", {"n": numbers, **plain, "p": pair}, _pooled(picked)),
        ("SparseLengthsMean8BitsRowwise", {"n": numbers, **plain, "p": pair}, means),
        ("SparseLengthsWeightedSum8BitsRowwise", {"n": numbers, "w": WEIGHTS, **plain, "p": pair}, weighted),
        ("SparseLengthsSumFused8BitRowwise", {"f": fused, **plain}, _pooled(picked)),
        ("SparseLengthsMeanFused8BitRowwise", {"f": fused, **plain}, means),
        ("SparseLengthsWeightedSumFused8BitRowwise", {"f": fused, "w": WEIGHTS, **plain}, weighted),
    ]:
        np.testing.assert_allclose(_run(type_, inputs, 1)[0], expected, atol=1e-5, err_msg=type_)
    nothing = {"i": INDICES[:0], "l": np.zeros(2, np.int32)}
    for inputs in ({"n": numbers, **nothing, "p": pair}, {"f": fused, **nothing}):
        kind = "8BitsRowwise" if "n" in inputs else "Fused8BitRowwise"
        np.testing.assert_array_equal(_run(f"SparseLengthsSum{kind}", inputs, 1)[0], np.zeros((2, 5)))
    for lost in (6, -1):
        with pytest.raises(RuntimeError, match=f"there is no row {lost}: input 'f' has 6"):
            _run("GatherFused8BitRowwise", {"f": fused, "i": np.array([0, lost])}, 1)
