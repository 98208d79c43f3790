"""Where a node came from: the notes that gradient nodes carry back to their forward node and rule.

The notes are ONNX metadata properties of the node, so they survive a file, can be read in any graph viewer,
and let a failure of ONNX Runtime be told in terms of the model that the user knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import onnx_ir

FORWARD_NAME: Final = "netgrad.forward"
"""Key: name of the forward node whose gradient the node belongs to."""

FORWARD_TYPE: Final = "netgrad.forward_type"
"""Key: operator type of that forward node (``domain::type`` outside the standard domain)."""

RULE: Final = "netgrad.rule"
"""Key: the rule that wrote the node, as ``function (file:line)``."""


@dataclass(frozen=True)
class Provenance:
    """The forward node and the rule that a generated node goes back to.

    Attributes:
        forward_name: Name of the forward node; empty where it had none.
        forward_type: Operator type of the forward node.
        rule: The rule as ``function (file:line)``; empty for nodes that no rule wrote (accumulation, seeds).
    """

    forward_name: str
    forward_type: str
    rule: str = ""

    def __str__(self) -> str:
        """One phrase for error messages."""
        name = f" node '{self.forward_name}'" if self.forward_name else " node"
        rule = f", written by the rule {self.rule}" if self.rule else ""
        return f"the gradient of {self.forward_type}{name}{rule}"


def record(node: onnx_ir.Node, provenance: Provenance) -> None:
    """Write ``provenance`` into the metadata properties of ``node``."""
    node.metadata_props[FORWARD_NAME] = provenance.forward_name
    node.metadata_props[FORWARD_TYPE] = provenance.forward_type
    if provenance.rule:
        node.metadata_props[RULE] = provenance.rule


def provenance_of(node: onnx_ir.Node) -> Provenance | None:
    """The provenance that ``node`` carries, or None for a node that netgrad did not generate."""
    return from_properties(node.metadata_props)


def from_properties(properties: Mapping[str, str]) -> Provenance | None:
    """The provenance in a node's metadata properties, or None where there is none."""
    if FORWARD_TYPE not in properties:
        return None
    return Provenance(properties.get(FORWARD_NAME, ""), properties[FORWARD_TYPE], properties.get(RULE, ""))
