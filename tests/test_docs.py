"""Every block of code in the README and the docs runs; every link inside the project leads somewhere."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import netgrad
from netgrad.cli.app import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Lines of shell blocks that would install or rebuild the project itself; the build server runs them.
NOT_HERE = ("make ", "pip install ", "git clone ", "cd ")


def _blocks(page: Path) -> list[tuple[str, str, int]]:
    text = page.read_text()
    return [
        (match.group(1), match.group(2), text[: match.start()].count("\n") + 2)
        for match in BLOCK.finditer(text)
    ]


WITH_CODE = [page for page in PAGES if _blocks(page)]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page run in order, in one namespace and one empty folder."""
    monkeypatch.chdir(tmp_path)
    with netgrad.local_rules():  # what a page registers is its own
        _run_blocks(page)


def _run_blocks(page: Path) -> None:
    namespace: dict[str, object] = {}
    for language, code, line in _blocks(page):
        if language == "python":
            exec(compile("\n" * (line - 1) + code, str(page), "exec"), namespace)
        elif language == "sh":
            for command in code.replace("\\\n", "").splitlines():
                if command.startswith("netgrad "):
                    result = CliRunner().invoke(app, shlex.split(command)[1:])
                    assert result.exit_code == 0, f"{page}:{line}: {command}\n{result.output}"
                else:
                    assert not command or command.startswith(NOT_HERE), (
                        f"{page}:{line}: {command!r} is not run"
                    )
        else:
            assert language in ("text", "json"), f"{page}:{line}: a block of '{language}' is not run"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page} links to {target}"


def test_generated_pages_are_up_to_date() -> None:
    """`make docs` would change nothing."""
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "generate.py", "--check"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
