"""Old scripts import ``caffe2`` and run."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from netgrad.caffe2 import old_names

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


def _run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "netgrad.caffe2", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def test_a_script_runs_unmodified(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = _run(str(tmp_path / "script.py"), "argument")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.strip().split("\n")
    assert first == (
        "argument ['Relu', 'AveragedLoss', 'ConstantFill', 'AveragedLossGradient', 'ReluGradient']"
    )
    assert second == "netgrad does not have caffe2.python.no_such_module.Something"


OWN_PACKAGE = """
import sys, types
package = types.ModuleType("caffe2.python.own")
package.__path__ = [sys.argv[1]]
sys.modules["caffe2.python.own"] = package
from caffe2.python.own.helpers import seven
assert seven() == 7
try:
    import caffe2.python.own.others
except ModuleNotFoundError as error:
    print(error)
"""


def test_a_package_that_a_script_adds_has_its_modules(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(OWN_PACKAGE)
    (tmp_path / "helpers.py").write_text("def seven():\n    return 7\n")
    done = _run(str(tmp_path / "script.py"), str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "No module named 'caffe2.python.own.others'"


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


def test_modules_are_run_by_name(tmp_path: Path) -> None:
    """Those of the original that are here, and a program's own."""
    net = tmp_path / "net.pbtxt"
    net.write_text('name: "drawn" op { type: "Relu" input: "x" output: "y" }')
    done = _run("-m", "caffe2.python.net_drawer", "--input", str(net), "--output_prefix", f"{tmp_path}/of_")
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert "Relu" in (tmp_path / "of_drawn.dot").read_text()
    done = _run("-m", "caffe2.python.caffe_translator", "--help")
    assert done.stdout.startswith("usage:")
    own = "import sys\nfrom caffe2.python import core\nprint(__name__, sys.argv[1:], core.Net('n'))"
    (tmp_path / "own.py").write_text(own)
    done = _run("-m", "own", "a", cwd=tmp_path)
    assert done.stdout == "__main__ ['a'] n\n", done.stderr


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ((), 2),
        (("--help",), 0),
        (("no_such_file.py",), 2),
        (("-m",), 2),
        (("-m", "no_such_module.inside"), 2),
        (("-m", "caffe2.python.examples.char_rnn"), 2),
        (("-m", "caffe2.python.layers"), 2),
    ],
)
def test_the_command_itself(arguments: tuple[str, ...], status: int) -> None:
    done = _run(*arguments)
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().split("\n")) == 1


OLD = """
import collections
import inspect
import time
import numpy as np
import six
from caffe2.python import core
from future.utils import viewitems
from past.builtins import basestring, xrange

assert isinstance(b"bytes", basestring) and list(viewitems({"a": 1})) == [("a", 1)] and sum(xrange(4)) == 6
assert np.zeros(2, dtype=np.int).dtype.kind == "i" and np.asscalar(np.ones(1)) == 1.0
assert np.fromstring(b"ab", dtype=np.uint8).tolist() == np.fromstring("ab", np.uint8, 2).tolist() == [97, 98]
assert np.fromstring("1-2", dtype=int, sep="-").tolist() == [1, 2]
assert np.fromstring(b"ab", np.uint8).flags.writeable
assert np.isnan(np.NaN) and -np.NINF == np.Inf == np.infty
assert np.round_(1.25, 1) == 1.2 and np.trapz([1, 3]) == 2
assert np.in1d([[1, 2]], [2]).tolist() == [False, True] and np.asfarray([1], int).dtype == np.float64
assert np.msort([[2], [1]]).tolist() == [[1], [2]] and np.mat([[1]]).shape == (1, 1) and time.clock() >= 0
assert issubclass(list, collections.Iterable)
assert inspect.getargspec(lambda a, b=2, *c: 0).defaults == (2,)
print(six.__name__, getattr(six, "MARK", ""))
"""


def test_what_old_scripts_use_besides(tmp_path: Path) -> None:
    """A package that is there comes before its stand-in."""
    (tmp_path / "old.py").write_text(OLD)
    done = _run(str(tmp_path / "old.py"))
    assert done.returncode == 0, done.stderr
    (tmp_path / "six.py").write_text("MARK = 'the real one'")
    assert _run(str(tmp_path / "old.py")).stdout == "six the real one\n"


MOVED = """
import six.moves.urllib.request
from past.utils import old_div
from six.moves import configparser, queue, urllib, zip_longest
from six.moves import cPickle as pickle
from six.moves.urllib.parse import quote

import queue as real

assert pickle.loads(pickle.dumps(1)) == 1 and queue.Queue is real.Queue and configparser.ConfigParser
assert urllib.request.urlopen and urllib.parse.quote is quote and list(zip_longest([1], []))
assert (old_div(7, 2), old_div(7.0, 2)) == (3, 3.5)
"""


def test_modules_that_have_moved(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text(MOVED)
    done = _run(str(tmp_path / "old.py"))
    assert done.returncode == 0, done.stderr


def _stand_in(name: str) -> Any:
    spec = old_names._Finder().find_spec(name, None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    assert spec.loader is not None
    spec.loader.exec_module(module)
    return module


def test_stand_ins_of_packages() -> None:
    six, past, future = (_stand_in(name) for name in ("six", "past.builtins", "future.utils"))

    class Meta(type):
        pass

    class First(six.with_metaclass(Meta, dict)):  # type: ignore[misc]
        pass

    @six.add_metaclass(Meta)
    class Second:
        kept = 1

    assert type(First) is type(Second) is Meta
    assert issubclass(First, dict)
    assert Second.kept == 1
    assert [isinstance(one, past.basestring) for one in ("a", b"a", 1)] == [True, True, False]
    assert past.map(str, past.range(2)) == ["0", "1"]
    assert _stand_in("mock").Mock(return_value=3)() == 3
    types = _stand_in("onnx.mapping")
    assert types.NP_TYPE_TO_TENSOR_TYPE[np.dtype(np.float32)] == onnx.TensorProto.FLOAT
    assert types.NP_TYPE_TO_TENSOR_TYPE[np.dtype(object)] == onnx.TensorProto.STRING
    assert types.TENSOR_TYPE_TO_NP_TYPE[onnx.TensorProto.INT64] == np.int64
    assert (future.bytes_to_native_str(b"a"), future.native_str_to_bytes("a")) == ("a", b"a")
    assert future.listitems({"a": 1}) == [("a", 1)]
    with pytest.raises(ValueError, match="why") as caught:
        six.raise_from(ValueError("why"), KeyError("because"))
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(ValueError, match="why"):
        six.reraise(ValueError, caught.value, None)
    with pytest.raises(KeyError):
        six.reraise(KeyError, None)
    with pytest.raises(
        AttributeError, match=r"six\.get_unbound_function needs the package 'six': pip install"
    ):
        six.get_unbound_function  # noqa: B018  the access itself is the test
    assert old_names._Finder().find_spec("numpy", None) is None
