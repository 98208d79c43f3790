"""The page about the original's tests counts what passes, and names what doesn't."""

from __future__ import annotations

from pathlib import Path

from tests.original import known, run
from tests.original.run import Outcome
from tests.original.table import as_page

REPORT = """<testsuites><testsuite>
<testcase classname="a_test.TestA" name="test_good"/>
<testcase classname="a_test.TestA" name="test_bad"><failure message="1 != 2">trace</failure></testcase>
<testcase classname="a_test.TestA" name="test_left_out"><skipped message="no device"/></testcase>
</testsuite></testsuites>"""


def test_a_report_is_read(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)
    outcome = run.read("a_test.py", tmp_path / "report.xml")
    assert outcome.passed == ["TestA::test_good"]
    assert outcome.failed == {"TestA::test_bad": "1 != 2"}
    assert outcome.skipped == ["TestA::test_left_out"]


def test_what_the_original_passes_counts() -> None:
    outcomes = [
        Outcome("a_test.py", passed=["TestA::test_good"], failed={"TestA::test_bad": "1 != 2 | more"}),
        Outcome("b_test.py", failed={"TestB::test_c": "the original fails, too"}),
    ]
    page = as_page(outcomes, {"a_test.py": ["TestA::test_bad", "TestA::test_good"]})
    assert "Of 2 tests 1 pass." in page
    assert "| a_test.py | TestA.test_bad | 1 != 2 \\| more |" in page
    assert "b_test.py" not in page


def test_patterns_are_of_whole_names() -> None:
    assert known.reason_for("no/such_test.py::TestA::test_b") is None
