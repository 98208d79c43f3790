"""Libraries of operators."""

from __future__ import annotations

from pathlib import Path

import pytest

from netgrad.caffe2.python import core, dyndep, lazy_dyndep, workspace
from netgrad.caffe2.running.errors import RunError


def test_libraries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dyndep.InitOpsLibrary("@/caffe2/caffe2/distributed:store_ops")
    assert "There is no file @/caffe2/caffe2/distributed:store_ops" in capsys.readouterr().out
    library = tmp_path / "ops.so"
    library.write_bytes(b"")
    with pytest.raises(RuntimeError, match=r"ops.so can't be loaded(.|\n)*net.Python"):
        dyndep.InitOpsLibrary(str(library))
    assert dyndep.GetImportedOpsLibraries() == set()


def test_the_operators_of_detectron_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    dyndep.InitOpsLibrary("/usr/local/lib/libcaffe2_detectron_ops_gpu.so")
    assert not capsys.readouterr().out
    assert core.IsOperator("SmoothL1Loss")


def test_libraries_that_wait(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lazy_dyndep.RegisterOpsLibrary("@/caffe2/caffe2/distributed:store_ops")
    assert "There is no file @/caffe2/caffe2/distributed:store_ops" in capsys.readouterr().out
    library = tmp_path / "ops.so"
    library.write_bytes(b"")
    net = core.Net("waits")

    def load() -> None:
        workspace.CreateNet(net)

    for call in (core.RefreshRegisteredOperators, lazy_dyndep.GetImportedOpsLibraries, load):
        lazy_dyndep.RegisterOpsLibrary(str(library))
        core.RefreshRegisteredOperators(trigger_lazy=False)
        with pytest.raises(RuntimeError, match=r"ops.so can't be loaded"):
            call()
        core.RefreshRegisteredOperators()  # it is not tried again
    seen: list[BaseException] = []
    lazy_dyndep.SetErrorHandler(seen.append)
    lazy_dyndep.RegisterOpsLibrary(str(library))
    assert lazy_dyndep.GetImportedOpsLibraries() == set()
    assert [type(error) for error in seen] == [RunError]
