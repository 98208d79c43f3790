"""Trees of words for the hierarchical softmax, and the ways from their roots to the words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from netgrad.caffe2.hsm_pb2 import HierarchyProto, NodeProto, PathNodeProto, PathProto, TreeProto


def create_node_with_words(words: Iterable[int], name: str = "node") -> NodeProto:
    """A node with some words below it, given by their numbers."""
    return NodeProto(name=name, word_ids=list(words))


def create_node_with_nodes(nodes: Iterable[Any], name: str = "node") -> NodeProto:
    """A node with copies of other nodes below it."""
    return NodeProto(name=name, children=list(nodes))


def create_hierarchy(tree_proto: TreeProto) -> HierarchyProto:
    """The way from the root of a tree to each of its words, as the operator ``HSoftmax`` takes it.

    Every node gets a row of weights for each node and word below it, nodes first; which row is the first is
    written to the nodes as their offset.
    """
    hierarchy = HierarchyProto(size=0)
    way: list[
        tuple[int, int, int]
    ] = []  # of each node above: its first row, how many there are, the taken one
    walks = [_walk(tree_proto.root_node, way, hierarchy)]
    while walks:  # in place of a recursion, which a deep tree would exceed
        below = next(walks[-1], None)
        if below is None:
            walks.pop()
        else:
            walks.append(_walk(below, way, hierarchy))
    return hierarchy


def _walk(node: Any, way: list[tuple[int, int, int]], hierarchy: HierarchyProto) -> Iterator[Any]:
    """Number a node, give the nodes below it one after the other, and add the ways to its words."""
    count = len(node.children) + len(node.word_ids)
    node.offset = hierarchy.size
    hierarchy.size += count
    for target, child in enumerate(node.children):
        way.append((node.offset, count, target))
        yield child
        way.pop()
    for target, word in enumerate(node.word_ids, len(node.children)):
        steps = [*way, (node.offset, count, target)]
        nodes = [PathNodeProto(index=index, length=length, target=taken) for index, length, taken in steps]
        hierarchy.paths.append(PathProto(word_id=word, path_nodes=nodes))
