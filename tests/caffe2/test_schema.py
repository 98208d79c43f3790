"""Schemas, records of blobs, and what nets know of their inputs and outputs."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, schema, workspace


def _nested() -> schema.Struct:
    return schema.Struct(
        ("dense", schema.Scalar((np.float32, 3))),
        ("ids", schema.Map(np.int32, schema.List(np.int64))),
        ("more", schema.Struct(("user", np.int64), ("query", str))),
    )


NAMES = [
    "dense",
    "ids:lengths",
    "ids:values:keys",
    "ids:values:values:lengths",
    "ids:values:values:values",
    "more:user",
    "more:query",
]
TYPES = [(np.float32, 3), np.int32, np.int32, np.int32, np.int64, np.int64, str]


def test_columns() -> None:
    record = _nested()
    assert record.field_names() == NAMES
    assert record.field_types() == [np.dtype(one) for one in TYPES]
    assert record.field_metadata() == [None] * 7
    assert not record.has_blobs()
    with pytest.raises(AssertionError, match="Value is not set"):
        record.field_blobs()
    assert len(record) == 3
    assert [len(one.field_names()) for one in record] == [1, 4, 2]


def test_access() -> None:
    record = _nested()
    assert record["ids:values:values:lengths"] is record.ids.values.lengths
    assert record.ids.keys.dtype == np.int32
    assert record.ids.values.items.dtype == np.int64
    assert record[2].user is record["more:user"]
    assert record[[2, "dense"]].field_names() == ["more:user", "more:query", "dense"]
    assert "more:user" in record
    assert "more:user:x" not in record
    assert "" not in record
    assert record.get("more:nothing", "else") == "else"
    for name in ("", "none", "ids:none", "dense:none", "ids:lengths:none"):
        with pytest.raises(KeyError):
            record[name]
    with pytest.raises(AttributeError):
        record.none  # noqa: B018  the access itself is the test
    with pytest.raises(AttributeError, match="Field not found in list"):
        record.ids.none  # noqa: B018
    with pytest.raises(TypeError, match="can't be replaced"):
        record.dense = schema.Scalar()
    with pytest.raises(IndexError):
        record[3]


def test_columns_by_place() -> None:
    """A part of a record finds its columns in a list of all of them."""
    record = _nested()
    columns = list("abcdefg")
    assert columns[record.ids.slice()] == ["b", "c", "d", "e"]
    assert columns[record.ids.values.slice()] == ["d", "e"]
    assert [scalar.id() for scalar in record.all_scalars()] == list(range(7))
    assert record.more.query.id() == 6
    assert schema.Field([record.dense, record.ids, record.more])._field_offsets == [0, 1, 5, 7]


def test_equality_and_copies() -> None:
    record = _nested()
    assert record == _nested()
    assert record != record - schema.Struct(("dense", record.dense))
    assert pickle.loads(pickle.dumps(record)) == record
    assert schema.Struct(("a", np.int32)) != schema.Struct(("a", np.int64))
    assert schema.Scalar(np.void) == schema.Scalar(None)

    class Own(schema.ListWithEvicted):
        pass

    clone = Own(schema.Scalar(np.float32), np.array([2]), np.array([7])).clone()
    assert type(clone) is Own
    assert clone["_evicted_values"].get().tolist() == [7]
    assert not clone.clone_schema().has_blobs()
    assert clone.field_names() == ["lengths", "values", "_evicted_values"]


def test_nested_names_and_merging() -> None:
    made = schema.Struct(("a:b", np.int32), ("c", np.int64), ("a", schema.Struct(("d:e", np.float32))))
    assert made.field_names() == ["a:b", "a:d:e", "c"]
    more = schema.Struct(("a:d:f", str))
    assert (made + more).field_names() == ["a:b", "a:d:e", "a:d:f", "c"]
    assert (made + more - schema.Struct(("a:d:e", np.float32), ("x", str))).field_names() == [
        "a:b",
        "a:d:f",
        "c",
    ]
    assert (made - schema.Struct(("a", made.a))).field_names() == ["c"]
    for wrong in (lambda: made + made, lambda: made + schema.Scalar(), lambda: made - schema.Scalar()):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(TypeError, match="field c can't be removed"):
        made - schema.Struct(("c:d", str))
    with pytest.raises(ValueError, match="Duplicate field name: a"):
        schema.Struct(("a", str), ("a", str))
    with pytest.raises(AssertionError, match="lengths"):
        schema.Struct(("lengths", np.int32))


def test_types_of_scalars() -> None:
    assert schema.Scalar((np.int32, 1)).dtype.shape == (1,)
    assert schema.Scalar((np.int32, (2, 3))).dtype.shape == (2, 3)
    assert schema.Scalar((np.int32, (2, 3))).clone().dtype.shape == (2, 3)
    with pytest.raises(ValueError, match="shape"):
        schema.Scalar((np.int32, -1))
    with pytest.raises(TypeError, match="without a type"):
        schema.Scalar((np.void, (2,)))
    with pytest.raises(AssertionError, match="structured type"):
        schema.Scalar([("a", np.int32)])


@pytest.mark.parametrize(
    ("dtype", "given", "expected"),
    [
        (np.float32, [1, 2], np.array([1, 2], np.float32)),
        (np.int64, 3, np.array([3])),
        ((np.float32, 2), [], np.zeros((0, 2), np.float32)),
        (np.int64, np.array(3), np.array(3)),
        (None, np.array([1.5]), np.array([1.5])),
        (str, np.array([b"a", "bc"], object), np.array(["a", "bc"])),
    ],
)
def test_values_of_scalars(dtype: Any, given: Any, expected: Any) -> None:
    found = schema.Scalar(dtype, given).get()
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    assert found.shape == expected.shape


def test_the_inner_shape_is_that_of_the_values() -> None:
    assert schema.Scalar(np.float32, np.zeros((5, 2))).dtype == np.dtype((np.float32, (2,)))
    with pytest.raises(AssertionError, match="without a type"):
        schema.Scalar(blob=[1, 2])
    scalar = schema.Scalar(np.float32)
    with pytest.raises(AssertionError, match="float32 are needed, not int64"):
        scalar.set_value(np.array([1]), throw_on_type_mismatch=True, unsafe=True)


def test_metadata() -> None:
    record = schema.Struct(("a", schema.List(schema.Scalar(np.int32))), ("b", np.float32))
    known = schema.Metadata(categorical_limit=5)
    record.a.lengths.set_metadata(known)
    copy = schema.from_blob_list(record, [np.array([1]), np.array([2]), np.array([3.0])])
    assert copy.field_metadata() == [known, None, None]
    assert not schema.equal_schemas(copy, _nested())
    assert schema.equal_schemas(copy, record, check_field_metas=True)
    with pytest.raises(AssertionError, match="only in integral fields"):
        schema.attach_metadata_to_scalars(record, known)
    with pytest.raises(AssertionError, match="must be Metadata"):
        record.b.set_metadata(5)


def test_from_types_and_columns() -> None:
    found = schema.from_dtype(np.dtype([("a", np.int32), ("b", [("c", np.float32, (2,))], (3,))]))
    assert found.field_names() == ["a", "b:c"]
    assert found.field_types() == [np.dtype(np.int32), np.dtype((np.float32, (3, 2)))]

    record = _nested()
    order = [4, 0, 6, 2, 5, 1, 3]
    mixed = schema.from_column_list(
        [NAMES[at] for at in order],
        [TYPES[at] for at in order],
        [core.BlobReference(f"blob_{at}") for at in order],
    )
    assert isinstance(mixed.ids, schema.List)
    assert {name: str(blob) for name, blob in zip(mixed.field_names(), mixed.field_blobs(), strict=True)} == {
        name: f"blob_{at}" for at, name in enumerate(NAMES)
    }
    assert mixed[["dense", "ids", "more"]]["ids:values:keys"].dtype == np.int32
    assert schema.from_column_list([]) == schema.Struct()
    with pytest.raises(ValueError, match="Duplicate"):
        schema.from_column_list(["a", "a"])
    with pytest.raises(ValueError, match="inside of another"):
        schema.from_column_list(["a", "a:b"])
    with pytest.raises(AssertionError, match="1 entries for 2 columns"):
        schema.from_column_list(["a", "b"], [np.int32])
    with pytest.raises(AssertionError, match="must have 7 elements, got 1"):
        schema.from_blob_list(record, [np.zeros(1)])


def test_as_record() -> None:
    array = np.arange(3)
    assert schema.as_record({"a": np.int32, "b": [np.int32, array]}).field_names() == [
        "a",
        "b:field_0",
        "b:field_1",
    ]
    assert schema.as_record([("a", str), ("b", str)]).field_names() == ["a", "b"]
    assert schema.as_record(array).get() is array
    record = _nested()
    assert schema.as_record(record) is record
    assert schema.RawTuple(2).field_names() == ["field_0", "field_1"]
    assert schema.is_schema_subset(schema.RawTuple(1), schema.RawTuple(2))
    assert not schema.is_schema_subset(schema.RawTuple(2), schema.RawTuple(1))
    with pytest.raises(AssertionError, match="schemas differ"):
        schema.schema_check(schema.RawTuple(2), schema.RawTuple(1))


@pytest.mark.parametrize(
    ("dtype", "number"),
    [(str, core.DataType.STRING), ("U7", core.DataType.STRING), ((np.float16, 2), core.DataType.FLOAT16)],
)
def test_element_types(dtype: Any, number: int) -> None:
    assert schema.data_type_for_dtype(np.dtype(dtype)) == number
    assert np.dtype(schema.dtype_for_core_type(number)).kind == np.dtype(dtype).base.kind


def test_unknown_element_types() -> None:
    with pytest.raises(TypeError, match="Unknown dtype"):
        schema.data_type_for_dtype(np.dtype(np.void))
    with pytest.raises(TypeError, match="Unknown core type: 100"):
        schema.dtype_for_core_type(100)


# ---- records of blobs --------------------------------------------------------------------------------


def test_records_are_fed_and_fetched() -> None:
    net = core.Net("net")
    values = schema.Struct(("a", np.array([1.5, 2.5], np.float32)), ("b:c", np.array(["x", "yz"])))
    with core.NameScope("scope"):
        first, second = schema.NewRecord(net, values), schema.NewRecord(net, values)
    assert [str(blob) for blob in first.field_blobs()] == ["scope/a", "scope/b:c"]
    assert not set(first.field_blobs()) & set(second.field_blobs())
    schema.FeedRecord(first, values)
    schema.FeedRecord(second, [np.array([3.0]), np.array(["u"])])
    assert schema.FetchRecord(first).a().tolist() == [1.5, 2.5]
    assert schema.FetchRecord(second).b.c().tolist() == [b"u"]
    with pytest.raises(AssertionError, match="exactly 2 arrays, not 1"):
        schema.FeedRecord(first, [np.array([3.0])])
    with pytest.raises(AssertionError, match="a record of blobs is needed"):
        schema.FetchRecord(values)
    own = workspace.C.Workspace()
    schema.FeedRecord(first, values, own)
    assert own.fetch_blob("scope/a").tolist() == [1.5, 2.5]
    assert schema.FetchRecord(first, own).b.c().tolist() == [b"x", b"yz"]


def test_texts_are_fetched_by_type() -> None:
    workspace.FeedBlob("texts", np.array([b"a", "\u00e4".encode()], object))
    record = schema.Scalar(str, core.BlobReference("texts"))
    assert schema.FetchRecord(record).get().tolist() == ["a", "\u00e4"]


def test_constant_and_empty_records() -> None:
    net = core.Net("net")
    constant = schema.ConstRecord(net, schema.Struct(("a", np.array([1, 2])), ("b", np.array(["x"]))))
    empty = schema.InitEmptyRecord(net, _nested())
    untyped = schema.InitEmptyRecord(net, schema.Scalar())
    workspace.RunNetOnce(net)
    assert schema.FetchRecord(constant).a().tolist() == [1, 2]
    arrays = schema.FetchRecord(empty, throw_on_type_mismatch=False)
    assert [array.shape for array in arrays.field_blobs()] == [(0, 3), *[(0,)] * 6]
    assert arrays.field_types() == _nested().field_types()
    assert workspace.FetchBlob(str(untyped())).dtype == np.float32
    with pytest.raises(TypeError, match="Unknown dtype"):
        schema.InitEmptyRecord(net, schema.Scalar(), enforce_types=True)


# ---- records of nets ---------------------------------------------------------------------------------


def test_input_and_output_records() -> None:
    net = core.Net("net")
    record = net.set_input_record(schema.Struct(("x", np.float32), ("y", np.float32)))
    assert [str(blob) for blob in net.external_inputs] == [f"{net.Name()}/x", f"{net.Name()}/y"]
    total = net.Add([record.x(), record.y()], "total")
    net.set_output_record(schema.Struct(("total", total)))
    net.AppendOutputRecordField("square", schema.Scalar(blob=net.Sqr(total, "square")))
    assert [str(blob) for blob in net.external_outputs] == ["total", "square"]
    assert net.output_record().field_names() == ["total", "square"]
    with pytest.raises(AssertionError, match="Input schema cannot be reset"):
        net.set_input_record(schema.Struct(("x", np.float32)))
    with pytest.raises(AssertionError, match="is not defined in net"):
        core.Net("other").set_output_record(schema.Struct(("total", total)))

    clone = net.Clone("clone", {record.x(): "z"})
    assert [str(blob) for blob in clone.input_record().field_blobs()] == ["z", f"{net.Name()}/y"]
    assert clone.output_record().total().Net() is clone
    assert net.Clone("bare", keep_schema=False).input_record() is None


def test_records_are_recovered_by_names() -> None:
    net = core.Net("net")
    net.AddExternalInput("in/a:lengths", "in/a:values", "other")
    net.recover_input_record_by_prefix("in/")
    assert isinstance(net.input_record().a, schema.List)
    assert str(net.input_record().a.items()) == "in/a:values"
    net.recover_output_record_by_prefix("out/")
    assert net.output_record() is None


def test_external_inputs_of_records() -> None:
    net = core.Net("net")
    record = schema.NewRecord(net, schema.Struct(("x", np.float32), ("y", np.float32)))
    net.AddExternalInput(record)
    assert [str(blob) for blob in net.external_inputs] == ["x", "y"]
    with pytest.raises(AssertionError, match="already"):
        net.AddExternalInput(record)
