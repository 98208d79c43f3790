"""The original's test files: fetched once, and kept in a folder that git ignores."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.original.known import EXCLUDED

_RELEASES = {"1.10.2": "3.9", "1.0.0": "3.7"}  # and a Python that each has a package for
RELEASE = os.environ.get("ORIGINAL_RELEASE", "1.10.2")
"""The release of PyTorch whose Caffe2 is meant: the last one with it inside, or the first, of 2018."""

PACKAGE = f"torch=={RELEASE}"
"""Where the test files come from. Nothing else is taken out of it."""

CACHE = Path(__file__).parents[2] / ".cache" / "original" / RELEASE
ROOT = CACHE / "caffe2" / "python"
"""Where the test files are, in the folders that they have in the original."""

_SIBLINGS = ("operator_test/", "test/")


class FetchError(Exception):
    """The package cannot be downloaded."""


def fetch() -> None:
    """Download the package if the test files aren't there, and take them out.

    Raises:
        FetchError: The package cannot be downloaded, or is none of those that are known.
    """
    if RELEASE not in _RELEASES:
        raise FetchError(f"ORIGINAL_RELEASE is one of {', '.join(_RELEASES)}, not {RELEASE}")
    if ROOT.is_dir():
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download"]
        command += [
            "--no-deps",
            "--only-binary",
            ":all:",
            "--python-version",
            _RELEASES[RELEASE],
            "--dest",
            folder,
        ]
        command += ["--platform", "manylinux1_x86_64", PACKAGE]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise FetchError(f"{PACKAGE} cannot be downloaded:\n{done.stderr.strip()}")
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            members = [name for name in archive.namelist() if _is_wanted(name)]
            archive.extractall(folder, members)
        (Path(folder) / "caffe2").rename(CACHE / "caffe2")


def listed() -> list[str]:
    """The test files below `ROOT`, but for those that are excluded."""
    found = (path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*_test.py"))
    return sorted(name for name in found if not any(name.startswith(start) for start in EXCLUDED))


def _is_wanted(member: str) -> bool:
    """Whether a member of the package is a test file, or a helper that stands among tests."""
    start, _, name = member.partition("caffe2/python/")
    if start or not name.endswith(".py") or any(name.startswith(excluded) for excluded in EXCLUDED):
        return False
    return name.endswith("_test.py") or name.startswith(_SIBLINGS)
