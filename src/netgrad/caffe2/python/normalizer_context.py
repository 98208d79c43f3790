"""Contexts in which parameters get normalizers of their own."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python.modifier_context import ModifierContext, UseModifierBase


class NormalizerContext(ModifierContext):
    """The normalizers that are in force."""

    def has_normalizer(self, name: str) -> bool:
        """Whether there is one of a name."""
        return self._has_modifier(name)

    def get_normalizer(self, name: str) -> Any:
        """The one of a name, which must be there."""
        assert self.has_normalizer(name), f"{name} normalizer is not provided!"
        return self._get_modifier(name)


class UseNormalizer(UseModifierBase):
    """A block in which normalizers are in force: one for all parameters, or a dictionary by tag or name."""

    def _context_class(self) -> type[ModifierContext]:
        return NormalizerContext
