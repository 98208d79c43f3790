"""Writes the generated pages of the docs from the registry of rules and the command line.

Run: python docs/generate.py          rewrites the pages
     python docs/generate.py --check  exit status 1 if a page is not what would be written
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import typer

from netgrad.cli.app import app
from netgrad.onnx.fused import fused_formula, fused_operators
from netgrad.onnx.lowering.lower import lowered_operators
from netgrad.onnx.recurrent import RECURRENT
from netgrad.onnx.rules.declaration import Declaration, Kind, declarations

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.onnx.rules.second_order import UNMEASURED  # noqa: E402

NOTICE = "<!-- Written by docs/generate.py: do not edit. -->\n"
START, END = "<!-- operators: start -->", "<!-- operators: end -->"


def latest_schemas() -> list[onnx.defs.OpSchema]:
    """Every live operator of the standard's default domain, in alphabetical order."""
    schemas = [s for s in onnx.defs.get_all_schemas() if s.domain == "" and not s.deprecated]
    return sorted(schemas, key=lambda schema: schema.name)


def kind_of(schema: onnx.defs.OpSchema) -> str:
    """The one of five kinds that an operator is."""
    declared = declarations().get(("", schema.name))
    if declared is not None:
        return declared.kind.value
    if schema.name in RECURRENT or schema.has_function or schema.has_context_dependent_function:
        return "expanded"
    return "missing"


def differentiated(schema: onnx.defs.OpSchema, declared: Declaration) -> str:
    """Names of the inputs that a rule gives a gradient."""
    floating = {"tensor(float)", "tensor(double)", "tensor(float16)"}
    kept = [
        parameter.name
        for index, parameter in enumerate(schema.inputs)
        if index not in declared.not_differentiable and floating & set(parameter.types)
    ]
    return ", ".join(kept)


def kinks(declared: Declaration) -> str:
    """The kink convention in a rule's docstring: the paragraph that begins with `Kink:`."""
    text = (declared.function.__doc__ or "") if declared.function else ""
    match = re.search(r"Kinks?:(.*?)(?:\n\s*\n|\Z)", text, re.DOTALL)
    return " ".join(match.group(1).split()) if match else ""


def second_order(declared: Declaration | None, schema: onnx.defs.OpSchema) -> str:
    """Whether the gradient is differentiable again: the exceptions are listed beside the rules' tests."""
    kind = kind_of(schema)
    if kind not in ("rule", "expanded"):
        return ""
    text = (declared.function.__doc__ or "") if declared and declared.function else ""
    match = re.search(r"Second order:(.*?)(?:\n\s*\n|\Z)", text, re.DOTALL)
    limits = [" ".join(match.group(1).split())] if match else []
    untested = UNMEASURED.get(schema.name)
    if untested:
        limits.append(f"not measured: {untested}")
    return "yes; " + "; ".join(limits) if limits else "yes"


def operators_page() -> str:
    """The operator reference: a row per operator."""
    lines = [
        NOTICE,
        "# Operators",
        "",
        f"Every operator of the standard at opset {onnx.defs.onnx_opset_version()}, and what netgrad does "
        "with it. *rule*: a gradient rule. *expanded*: differentiated through the function body that the "
        "standard gives. "
        "The other kinds are explained in [What has no gradient](../concepts/no-gradient.md).",
        "",
        "*second order*: the gradient consists of standard operators and is differentiated again; that is "
        "compared with central differences of the gradient on the operator's rows in the tests, but for the "
        "exceptions named. The conventions are explained in [Kinks](../concepts/kinks.md).",
        "",
        "| operator | kind | inputs with a gradient | at a kink | second order | why none |",
        "|---|---|---|---|---|---|",
    ]
    for schema in latest_schemas():
        declared = declarations().get(("", schema.name))
        inputs = differentiated(schema, declared) if declared and declared.kind is Kind.RULE else ""
        reason = declared.reason if declared else ""
        kink = kinks(declared) if declared else ""
        again = second_order(declared, schema)
        lines.append(f"| {schema.name} | {kind_of(schema)} | {inputs} | {kink} | {again} | {reason} |")
    lines += [
        "",
        "## Fused operators",
        "",
        "Models that ONNX Runtime's optimizer wrote hold operators of its own. These are expanded, too. "
        "A form that a definition does not cover is refused by name: quantized caches and buffers that past "
        "and present share, for example.",
        "",
        "| operator | what it computes |",
        "|---|---|",
        *(
            f"| `{domain or 'ai.onnx'}::{op_type}` | {fused_formula(domain, op_type)} |"
            for domain, op_type in fused_operators()
        ),
        "",
        "## Classical models",
        "",
        "Operators of `ai.onnx.ml`. *lowered*: written as standard operators, the attributes as tensors.",
        "",
        "| operator | kind | why none |",
        "|---|---|---|",
        *(f"| {op_type} | lowered | |" for op_type in lowered_operators("ai.onnx.ml")),
        *(
            f"| {op_type} | {declared.kind.value} | {declared.reason} |"
            for (domain, op_type), declared in sorted(declarations().items())
            if domain == "ai.onnx.ml"
        ),
    ]
    return "\n".join(lines) + "\n"


def kinks_page() -> str:
    """The table of conventions at points without a derivative."""
    lines = [
        NOTICE,
        "# Kinks",
        "",
        "At a point where a function has no derivative, netgrad returns one choice, always the same. "
        "Each has a row in the tests.",
        "",
        "| operator | convention |",
        "|---|---|",
    ]
    for (domain, op_type), declared in sorted(declarations().items(), key=lambda item: item[0][1]):
        convention = kinks(declared)
        if convention and not domain:
            lines.append(f"| {op_type} | {convention} |")
    return "\n".join(lines) + "\n"


def command_page() -> str:
    """The command line reference."""
    command: Any = typer.main.get_command(app)
    lines = [NOTICE, "# Command line", "", "Exit status: 0 done, 1 the answer is no, 2 a wrong call or file."]
    for name, verb in command.commands.items():
        lines += ["", f"## netgrad {name}", "", re.sub(r"\n +", "\n", verb.help or "").strip(), ""]
        lines += ["| option | meaning |", "|---|---|"]
        for parameter in verb.params:
            spelling = ", ".join([*parameter.opts, *parameter.secondary_opts])
            if parameter.param_type_name == "argument":
                spelling = parameter.metavar or parameter.name.upper()
            default = parameter.default
            shown = f" Default: {default}." if isinstance(default, str | int | float) and default else ""
            lines.append(
                f"| `{spelling}` | {(parameter.help or '').strip()}{shown if default is not True else ''} |"
            )
    return "\n".join(lines) + "\n"


def operator_table() -> str:
    """The summary of operators for the README."""
    by_kind: dict[str, list[str]] = {}
    for schema in latest_schemas():
        by_kind.setdefault(kind_of(schema), []).append(schema.name)
    counts = Counter({kind: len(names) for kind, names in by_kind.items()})
    lines = ["| kind | operators |", "|---|---|"]
    for kind in (
        "rule",
        "expanded",
        "piecewise constant",
        "not differentiable",
        "not implemented",
        "missing",
    ):
        if counts[kind]:
            lines.append(f"| {kind} ({counts[kind]}) | {' '.join(by_kind[kind])} |")
    return "\n".join(lines)


def readme() -> str:
    """The README with its operator table renewed."""
    text = (ROOT / "README.md").read_text()
    before, rest = text.split(START)
    _, after = rest.split(END)
    return f"{before}{START}\n{operator_table()}\n{END}{after}"


def pages() -> dict[Path, str]:
    """Every generated page with its content."""
    return {
        ROOT / "docs" / "reference" / "operators.md": operators_page(),
        ROOT / "docs" / "reference" / "command-line.md": command_page(),
        ROOT / "docs" / "concepts" / "kinks.md": kinks_page(),
        ROOT / "README.md": readme(),
    }


def main() -> int:
    """Write the pages, or say which are out of date."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say which pages are out of date")
    check = parser.parse_args().check
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text() != text]
    for path in stale:
        print(f"{path.relative_to(ROOT)} {'is out of date: run `make docs`' if check else 'written'}")
        if not check:
            path.write_text(pages()[path])
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
