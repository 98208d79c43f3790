"""Contexts in which parameters get optimizers of their own."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python.modifier_context import ModifierContext, UseModifierBase

DEFAULT_OPTIM = "DEFAULT"


class OptimizerContext(ModifierContext):
    """The optimizers that are in force."""

    def has_optimizer(self, name: str) -> bool:
        """Whether there is one of a name."""
        return self._has_modifier(name)

    def get_optimizer(self, name: str) -> Any:
        """The one of a name, which must be there."""
        assert self.has_optimizer(name), f"{name} optimizer is not provided!"
        return self._get_modifier(name)


class UseOptimizer(UseModifierBase):
    """A block in which optimizers are in force: one for all parameters, or a dictionary by tag or name."""

    def _context_class(self) -> type[ModifierContext]:
        return OptimizerContext
