"""Old scripts import ``caffe2`` and run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
from caffe2.python import core, utils
from caffe2.proto import caffe2_pb2
from caffe2.python.no_such_module import Something
import caffe2.python.core as again

net = core.Net("n")
net.AveragedLoss(net.Relu("x", "y"), "loss")
net.AddGradientOperators(["loss"])
assert again is core
assert isinstance(net.Proto(), caffe2_pb2.NetDef)
assert utils.MakeArgument("a", 1).i == 1
from caffe2.proto import predictor_consts_pb2
from caffe2.python.predictor_constants import predictor_constants
assert predictor_consts_pb2.PredictorConsts() == predictor_constants
print(sys.argv[1], [op.type for op in net.Proto().op])
try:
    Something()
except NotImplementedError as error:
    print(error)
"""


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "netgrad.caffe2", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_script_runs_unmodified(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = _run(str(tmp_path / "script.py"), "argument")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.strip().split("\n")
    assert first == (
        "argument ['Relu', 'AveragedLoss', 'ConstantFill', 'AveragedLossGradient', 'ReluGradient']"
    )
    assert second == "netgrad does not have caffe2.python.no_such_module.Something"


MODULES = """
import sys
import caffe2.python.predictor.predictor_exporter

ours = [module for name, module in sys.modules.items() if name.startswith("netgrad.caffe2.python")]
stand_ins = [
    f"{module.__name__}.{name}"
    for module in ours
    for name, value in vars(module).items()
    if type(value).__name__ == "_MissingType"
]
print(len(ours) > 50, stand_ins)
"""


def test_modules_have_each_other_and_no_stand_ins(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(MODULES)
    done = _run(str(tmp_path / "script.py"))
    assert done.stdout == "True []\n", done.stderr


@pytest.mark.parametrize(("arguments", "status"), [((), 2), (("--help",), 0), (("no_such_file.py",), 2)])
def test_the_command_itself(arguments: tuple[str, ...], status: int) -> None:
    done = _run(*arguments)
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().split("\n")) == 1
