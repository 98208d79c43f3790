from __future__ import annotations

import pytest

from netgrad.core import InvalidModelError
from netgrad.core.verify import check_cuts, check_reads, check_single_assignment, check_untouched
from tests.core.nets import net


def test_reads() -> None:
    assert check_reads(net("Op(x)->(y); Op(y)->(x)"), ["x"]) == {"x", "y"}
    with pytest.raises(InvalidModelError, match=r"nothing writes blob 'w' before Op\(y, w\)"):
        check_reads(net("Op(x)->(y); Op(y,w)->(z)"), ["x"])


def test_single_assignment() -> None:
    check_single_assignment(net("Op(x)->(y); Op(y)->(z)"), ["x"])
    with pytest.raises(InvalidModelError, match=r"'y' is written by Op\(x\) -> \(y\) and again by Two"):
        check_single_assignment(net("Op(x)->(y); Two(x)->(y)"), ["x"])
    with pytest.raises(InvalidModelError, match="'x' is written by the caller and again by"):
        check_single_assignment(net("Op(x)->(x)"), ["x"])
    with pytest.raises(InvalidModelError, match="nothing writes blob 'z' before"):
        check_single_assignment(net("Op(z)->(y); Op(y)->(z)"), ["x"])


def test_untouched() -> None:
    check_untouched(net("Op(x)->(y)"), ["x"])
    with pytest.raises(InvalidModelError, match=r"Op\(x\) -> \(y\) overwrites 'y'"):
        check_untouched(net("Op(x)->(y)"), ["y"])


def test_cuts() -> None:
    stop = [("", "StopGradient")]
    check_cuts(net("StopGradient(x)->(x)"), stop)
    check_cuts(net("StopGradient(x)->(y); Op(y)->(z)"), stop)
    check_cuts(net("StopGradient(x)->(y)"), [])
    with pytest.raises(InvalidModelError, match=r"nothing reads 'y'.*\n.*StopGradient\(x\) -> \(x\)"):
        check_cuts(net("StopGradient(x)->(y); Op(x)->(z)"), stop)
