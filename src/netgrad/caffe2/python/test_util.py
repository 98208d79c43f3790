"""Helpers of test programs."""

from __future__ import annotations

import shutil
import tempfile
import unittest
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from netgrad.caffe2.python import core, workspace


def rand_array(*dims: int) -> np.ndarray[Any, Any]:
    """An array of float32 with elements from -0.5 to 0.5."""
    return np.array(np.random.rand(*dims) - 0.5).astype(np.float32)


def randBlob(name: Any, type: Any, *dims: int, **kwargs: float) -> None:
    """Feed a blob with random elements from ``offset`` (0) to ``offset + 1``."""
    workspace.FeedBlob(name, np.random.rand(*dims).astype(type) + kwargs.get("offset", 0.0))


def randBlobFloat32(name: Any, *dims: int, **kwargs: float) -> None:
    """`randBlob` of float32."""
    randBlob(name, np.float32, *dims, **kwargs)


def randBlobsFloat32(names: Iterable[Any], *dims: int, **kwargs: float) -> None:
    """`randBlobFloat32` for each name."""
    for name in names:
        randBlobFloat32(name, *dims, **kwargs)


def numOps(net: core.Net) -> int:
    """How many operators a net has."""
    return len(net.Proto().op)


def str_compare(a: Any, b: Any, encoding: str = "utf8") -> bool:
    """Whether two texts are equal, of which either may be bytes."""
    texts = [value.decode(encoding) if isinstance(value, bytes) else str(value) for value in (a, b)]
    return texts[0] == texts[1]


def get_default_test_flags() -> list[str]:
    """The command line that tests start the runtime with."""
    return ["caffe2", "--caffe2_log_level=0"]


def is_flaky_test_mode() -> bool:
    """Whether only tests that fail at times are run: never."""
    return False


def caffe2_flaky(test_method: Any) -> Any:
    """A decorator that marks a test that failed at times; it runs like any other."""
    return test_method


class TestCase(unittest.TestCase):
    """A test case that begins and ends with an empty workspace."""

    __test__ = False  # for pytest: it holds no tests of its own
    test_flags: ClassVar[list[str] | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__test__" not in cls.__dict__:
            cls.__test__ = True

    @classmethod
    def setUpClass(cls) -> None:
        """Start the runtime."""
        core.GlobalInit(cls.test_flags if cls.test_flags is not None else get_default_test_flags())

    def setUp(self) -> None:
        """Empty the workspace."""
        self.ws = workspace.C.Workspace()
        workspace.ResetWorkspace()

    def tearDown(self) -> None:
        """Empty the workspace."""
        workspace.ResetWorkspace()

    def make_tempfile(self) -> Any:
        """A file that is deleted when the test ends."""
        file = tempfile.NamedTemporaryFile()  # noqa: SIM115  closed by the clean-up
        self.addCleanup(file.close)
        return file

    def make_tempdir(self) -> Path:
        """A folder that is deleted when the test ends."""
        folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        return folder
