"""Layers by name, as models find them."""

from __future__ import annotations

from typing import Any

_LAYER_REGISTRY: dict[str, Any] = {}


def register_layer(name: str, layer: Any) -> None:
    """Add a layer's class.

    Raises:
        AssertionError: There is one of that name.
    """
    assert name not in _LAYER_REGISTRY, f"{name} already exists"
    _LAYER_REGISTRY[name] = layer


def layer_exists(name: str) -> bool:
    """Whether there is a layer of that name."""
    return name in _LAYER_REGISTRY


def get_layer_class(name: str) -> Any:
    """The class of a layer, which must be there."""
    return _LAYER_REGISTRY[name]


def create_layer(layer_name: str, *args: Any, **kwargs: Any) -> Any:
    """A layer of that name."""
    return _LAYER_REGISTRY[layer_name](*args, **kwargs)


def registered_layers() -> list[str]:
    """The names of all layers."""
    return sorted(_LAYER_REGISTRY)
