"""Libraries of operators."""

from __future__ import annotations

from pathlib import Path

import pytest

from netgrad.caffe2.python import dyndep


def test_libraries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dyndep.InitOpsLibrary("@/caffe2/caffe2/distributed:store_ops")
    assert "Ignoring @/caffe2/caffe2/distributed:store_ops" in capsys.readouterr().out
    library = tmp_path / "ops.so"
    library.write_bytes(b"")
    with pytest.raises(RuntimeError, match=r"ops.so can't be loaded(.|\n)*net.Python"):
        dyndep.InitOpsLibrary(str(library))
    assert dyndep.GetImportedOpsLibraries() == set()
