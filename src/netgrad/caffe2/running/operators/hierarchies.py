"""The hierarchical softmax: a softmax at each node on the way from the root of a tree to a word.

The rows of the weights that belong to a node follow one another; see `netgrad.caffe2.python.hsm_util`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from netgrad.caffe2.hsm_pb2 import HierarchyProto, NodeProto, TreeProto
from netgrad.caffe2.running.blob import Array
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs

_TINY = 1e-20  # what probabilities are at least


@dataclass(frozen=True)
class _Step:
    """A node on the way to a word: its rows of the weights, and the one that is taken."""

    rows: slice
    target: int


def _ways(call: Call) -> dict[int, list[_Step]]:
    """The way to each word, from the argument ``hierarchy``."""
    if "ways" not in call.memory:
        message = HierarchyProto.FromString(call.argument("hierarchy", b""))
        call.memory["ways"] = {
            path.word_id: [
                _Step(slice(node.index, node.index + node.length), node.target) for node in path.path_nodes
            ]
            for path in message.paths
        }
    found: dict[int, list[_Step]] = call.memory["ways"]
    return found


def _way_of(call: Call, label: int) -> list[_Step]:
    way = _ways(call).get(label)
    if way is None:
        raise call.error(f"the word {label} is not in the argument 'hierarchy'")
    return way


def _softmax(scores: Array) -> Array:
    shifted = np.exp(scores - scores.max(-1, keepdims=True))
    result: Array = shifted / shifted.sum(-1, keepdims=True)
    return result


@runs("HSoftmax")
def _hierarchical_softmax(call: Call) -> None:
    """The loss of each sample, minus the logarithm of its word's probability, given input, weights and bias.

    The second output keeps, sample by sample and step by step, the scores of a node and their softmax.
    """
    x, weights, bias, labels = (call.array(at) for at in range(4))
    losses, kept = [], [x[:0, :0].reshape(-1)]
    for row, label in zip(x, labels.reshape(-1).tolist(), strict=True):
        loss = 0.0
        for step in _way_of(call, label):
            scores = weights[step.rows] @ row + bias[step.rows]
            shares = _softmax(scores)
            kept += [scores, shares]
            loss -= np.log(max(float(shares[step.target]), _TINY))
        losses.append(loss)
    call.write(0, np.array(losses, x.dtype))
    call.write(1, np.concatenate(kept))


@runs("HSoftmaxGradient")
def _hierarchical_softmax_gradient(call: Call) -> None:
    """The gradients of input, weights and bias, and of what the forward operator keeps."""
    x, weights, bias, labels, kept, slopes = (call.array(at) for at in range(6))
    dx, dw, db, dkept = (np.zeros_like(array) for array in (x, weights, bias, kept))
    start = 0
    for sample, label in enumerate(labels.reshape(-1).tolist()):
        slope = slopes.reshape(-1)[sample]
        for step in _way_of(call, label):
            size = step.rows.stop - step.rows.start
            scores = slice(start, start + size)
            shares = slice(start + size, start + 2 * size)
            start += 2 * size
            own = kept[shares] * slope
            own[step.target] -= slope
            dkept[scores] = own
            dkept[shares][step.target] = -slope / max(kept[shares][step.target], _TINY)
            dx[sample] += own @ weights[step.rows]
            dw[step.rows] += np.outer(own, x[sample])
            db[step.rows] += own
    for at, gradient in enumerate((dx, dw, db, dkept)):
        call.write(at, gradient)


# ---- search ------------------------------------------------------------------------------------------


@runs("HSoftmaxSearch")
def _search(call: Call) -> None:
    """The ``topN`` best nodes and words of the tree for each sample, and their minus log probabilities.

    At each node only what loses no more than ``beam`` against the node is followed. Where fewer are found,
    names are empty and scores 0. The name of a word is its number.
    """
    x, weights, bias = (call.array(at) for at in range(3))
    count, beam = call.argument("topN", 5), call.argument("beam", 0.01)
    tree = TreeProto.FromString(call.argument("tree", b""))
    names = np.full((len(x), count), b"", object)
    scores = np.zeros((len(x), count), x.dtype)
    for sample, row in enumerate(x):
        found = sorted(_followed(tree.root_node, weights @ row + bias, beam), key=lambda one: one[1])[:count]
        for at, (name, score) in enumerate(found):
            names[sample, at], scores[sample, at] = name, score
    call.put(0, names)
    call.write(1, scores)


def _followed(root: Any, scores: Array, beam: float) -> Iterator[tuple[bytes, float]]:
    waiting: list[tuple[Any, float]] = [(root, 0.0)]
    while waiting:
        node, above = waiting.pop()
        children = list(node.children)
        names = [child.name for child in children] + [str(word) for word in node.word_ids]
        if not names:
            continue
        losses = -np.log(np.maximum(_softmax(scores[node.offset : node.offset + len(names)]), _TINY))
        for at, name in enumerate(names):
            if losses[at] <= beam:
                total = above + float(losses[at])
                yield name.encode(), total
                if at < len(children):
                    waiting.append((children[at], total))


# ---- trees -------------------------------------------------------------------------------------------


@runs("HuffmanTreeHierarchy")
def _huffman_tree(call: Call) -> None:
    """The tree of two branches in which frequent labels are near the root, serialized, a vector of one text.

    The two rarest nodes or labels become one node, over and over; of equally rare ones, labels go first.
    """
    labels, classes = call.array(0).reshape(-1), call.argument("num_classes", -1)
    if classes < 2:
        raise call.error("the argument 'num_classes' is missing, or less than 2")
    if labels.size and not (labels.min() >= 0 and labels.max() < classes):
        raise call.error(f"the labels lie between {labels.min()} and {labels.max()}, not in 0..{classes - 1}")
    counts = np.bincount(labels, minlength=classes).tolist()
    waiting: list[tuple[int, int, Any]] = [(count, label, label) for label, count in enumerate(counts)]
    heapq.heapify(waiting)
    number = classes
    while len(waiting) > 1:
        rarest = [heapq.heappop(waiting), heapq.heappop(waiting)]
        node = _joined([below for _, _, below in rarest])
        heapq.heappush(waiting, (rarest[0][0] + rarest[1][0], number, node))
        number += 1
    root = waiting[0][2]
    _number(root)
    result = np.empty(1, object)
    result[0] = TreeProto(root_node=root).SerializeToString()
    call.put(0, result)


def _joined(below: Sequence[Any]) -> Any:
    words = [one for one in below if isinstance(one, int)]
    return NodeProto(word_ids=words, children=[one for one in below if not isinstance(one, int)])


def _number(root: Any) -> None:
    """Give every node the first of its rows; the nodes below follow, each with all that is below it."""
    waiting, rows = [root], 0
    while waiting:
        node = waiting.pop()
        node.offset = rows
        rows += len(node.children) + len(node.word_ids)
        waiting += reversed(node.children)
