from __future__ import annotations

from netgrad.core.versions import NONE, Versions
from tests.core.nets import net


def _numbers(text: str) -> list[tuple[dict[str, int], dict[str, int]]]:
    """Per operator: version of each blob read, and of each blob written."""
    operators = net(text)
    versions = Versions(operators)
    return [
        (
            {versions.blobs[v]: versions.number(v) for v in versions.reads[index]},
            {versions.blobs[v]: versions.number(v) for v in versions.writes[index]},
        )
        for index in range(len(operators))
    ]


def test_blob_first_met_as_input_has_version_0_there() -> None:
    assert _numbers("Op(x)->(y); Op(y)->(x)") == [({"x": 0}, {"y": 0}), ({"y": 0}, {"x": 1})]


def test_blob_first_met_as_output_starts_at_version_0() -> None:
    assert _numbers("Op()->(x); Op()->(x)") == [({}, {"x": 0}), ({}, {"x": 1})]


def test_in_place_operator_reads_before_it_writes() -> None:
    assert _numbers("Op(x)->(x); Op(x)->(x)") == [({"x": 0}, {"x": 1}), ({"x": 1}, {"x": 2})]


def test_output_listed_twice_is_two_versions() -> None:
    versions = Versions(net("Op(a)->(b,b)"))
    assert [versions.number(value) for value in versions.writes[0]] == [0, 1]


def test_absent_operands_are_no_blobs() -> None:
    (op,) = net("Op(x)->(y)")
    versions = Versions([type(op)("Op", ("x", "", "x"), ("", "y"))])
    assert versions.reads[0][1] == NONE
    assert versions.writes[0][0] == NONE
    assert "" not in versions.last


def test_readers_of_a_value() -> None:
    versions = Versions(net("Op(x,x)->(y); Op(x)->(z)"))
    value = versions.value("x")
    assert versions.first_readers[value] == 0
    assert versions.readers(value) == [0, 1]


def test_value_of_a_version() -> None:
    versions = Versions(net("Op(x)->(x); Op(x)->(x)"))
    assert [versions.number(value) for value in versions.values("x")] == [2, 1, 0]
    assert versions.number(versions.value("x", 1)) == 1
    assert versions.value("x", 3) == NONE
    assert versions.value("nope") == NONE
    assert versions.producers[versions.value("x", 0)] == NONE
