"""The rooms and the direction of their imports, the public names, and what the command imports at start."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import netgrad

PACKAGE = Path(netgrad.__file__).parent

# Lowest first: a room imports itself and the rooms before it. `onnx.rules` stands on `onnx` (the builder),
# and nothing in `onnx` knows that there are rules.
ROOMS = ["core", "onnx", "onnx.rules", "runtime", "caffe2", "transforms", "train", "cli"]

# The core knows no dialect and needs nothing but Python.
CORE_MAY_IMPORT = set(sys.stdlib_module_names) | {"netgrad"}

PUBLIC = [
    "AccumulationError",
    "CheckReport",
    "Inspection",
    "InvalidArgumentError",
    "InvalidModelError",
    "NetgradError",
    "NetgradWarning",
    "OverwrittenBlobError",
    "RuleError",
    "RuntimeFailureError",
    "Trainer",
    "TrainingStep",
    "UnsupportedOperatorError",
    "__version__",
    "check",
    "core",
    "grad",
    "inspect",
    "load",
    "local_rules",
    "losses",
    "lower",
    "optimizers",
    "rule",
    "run",
    "save",
    "training_step",
]


def _room(module: str) -> str | None:
    inside = module.removeprefix("netgrad").removeprefix(".")
    matching = [room for room in ROOMS if inside == room or inside.startswith(room + ".")]
    return max(matching, key=len) if matching else None


def _imports(path: Path) -> list[tuple[str, int]]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            found.append((node.module or "", node.lineno))
            found += [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
    return found


SOURCES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downwards(path: Path) -> None:
    module = "netgrad." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    room = _room(module)
    if room is None:
        assert path.parent == PACKAGE, f"{path} is in no room"
        return
    for imported, line in _imports(path):
        target = _room(imported) if imported.startswith("netgrad") else None
        if target is not None:
            assert ROOMS.index(target) <= ROOMS.index(room), f"{path}:{line}: {room} imports {imported}"
        if room == "core":
            assert imported.split(".")[0] in CORE_MAY_IMPORT, f"{path}:{line}: the core imports {imported}"


def test_every_file_is_in_a_room() -> None:
    folders = {path.relative_to(PACKAGE).parts[0] for path in SOURCES if path.parent != PACKAGE}
    assert folders == {room.split(".")[0] for room in ROOMS}


def test_public_names() -> None:
    assert netgrad.__all__ == PUBLIC
    for name in PUBLIC:
        assert getattr(netgrad, name) is not None


def test_unknown_public_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'gradient'"):
        netgrad.gradient  # noqa: B018  the access itself is the test


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["grad", "--help"], ["train", "--help"]])
def test_help_needs_neither_onnx_nor_a_runtime(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        "from netgrad.cli.app import app\n"
        "try:\n"
        f"    app({arguments!r})\n"
        "except SystemExit as stop:\n"
        "    assert stop.code in (0, None), stop.code\n"
        "heavy = {'onnx', 'onnx_ir', 'onnxruntime', 'numpy', 'matplotlib', 'sklearn'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)


def test_no_framework_is_imported() -> None:
    banned = {"torch", "jax", "tensorflow", "onnxscript", "sklearn"}
    for path in SOURCES:
        if path.name == "demo_model.py":
            continue  # the demo reads its digits from scikit-learn's collection, an extra of its own
        for imported, line in _imports(path):
            assert imported.split(".")[0] not in banned, f"{path}:{line} imports {imported}"
