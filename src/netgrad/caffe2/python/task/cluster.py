"""Nodes, which are names of places where tasks run, and the clusters that know them."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python.context import DefaultManaged


class Cluster(DefaultManaged):
    """Collects the nodes that are used inside its block."""

    def __init__(self) -> None:
        self._node_kwargs: dict[str, dict[str, Any]] = {}

    def add_node(self, node: Node) -> None:
        """Note a node; of a known one what is said more."""
        self._node_kwargs[str(node)] = {**node.kwargs(), **self._node_kwargs.get(str(node), {})}

    def nodes(self) -> list[str]:
        """The names of the nodes, in the order of their first use."""
        return list(self._node_kwargs)

    def node_kwargs(self) -> dict[str, dict[str, Any]]:
        """By node, what was said of it."""
        return self._node_kwargs

    def __repr__(self) -> str:
        return f"Cluster(nodes={self.nodes()}, node_kwargs={self._node_kwargs})"


class Node(DefaultManaged):
    """A place where tasks run: those that are created inside its block."""

    def __init__(self, node: Any = "local", **kwargs: Any) -> None:
        """Name a node, and note it in the current cluster.

        Args:
            node: Its name, or an object with that text.
            **kwargs: What else is to be known of it.
        """
        self._name = str(node)
        self._kwargs = kwargs
        Cluster.current().add_node(self)

    def __str__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"Node(name={self._name}, kwargs={self._kwargs})"

    def kwargs(self) -> dict[str, Any]:
        """What is known of it."""
        return self._kwargs


class WorkspaceType:
    """Whether a task has a workspace of its own, or runs in that of the session."""

    PRIVATE = "private"
    GLOBAL = "global"
