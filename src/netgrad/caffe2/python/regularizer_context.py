"""Contexts in which parameters get regularizers of their own."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python.modifier_context import ModifierContext, UseModifierBase


class RegularizerContext(ModifierContext):
    """The regularizers that are in force."""

    def has_regularizer(self, name: str) -> bool:
        """Whether there is one of a name."""
        return self._has_modifier(name)

    def get_regularizer(self, name: str) -> Any:
        """The one of a name, which must be there."""
        assert self.has_regularizer(name), f"{name} regularizer is not provided!"
        return self._get_modifier(name)


class UseRegularizer(UseModifierBase):
    """A block in which regularizers are in force: one for all parameters, or a dictionary by tag or name."""

    def _context_class(self) -> type[ModifierContext]:
        return RegularizerContext
