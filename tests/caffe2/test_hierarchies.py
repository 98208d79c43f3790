"""The hierarchical softmax, against the product of probabilities on the way to a word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.hsm_pb2 import TreeProto
from netgrad.caffe2.python import core, hsm_util, workspace

# root: (left: 0 1 2), (right: 3 4), 5
ROWS = {"root": slice(0, 3), "left": slice(3, 6), "right": slice(6, 8)}
WAYS = {
    0: [("root", 0), ("left", 0)],
    1: [("root", 0), ("left", 1)],
    2: [("root", 0), ("left", 2)],
    3: [("root", 1), ("right", 0)],
    4: [("root", 1), ("right", 1)],
    5: [("root", 2)],
}


def _tree() -> Any:
    left = hsm_util.create_node_with_words([0, 1, 2], "left")
    right = hsm_util.create_node_with_words([3, 4], "right")
    root = hsm_util.create_node_with_nodes([left, right], "root")
    root.word_ids.append(5)
    return TreeProto(root_node=root)


def _given() -> dict[str, Any]:
    random = np.random.default_rng(3)
    return {
        "x": random.normal(size=(4, 3)),
        "w": random.normal(size=(8, 3)),
        "b": random.normal(size=8),
        "labels": np.array([0, 4, 5, 4], np.int32),
    }


def _losses(given: dict[str, Any]) -> Any:
    losses = []
    for row, label in zip(given["x"], given["labels"], strict=True):
        loss = 0.0
        for node, target in WAYS[int(label)]:
            scores = np.exp(given["w"][ROWS[node]] @ row + given["b"][ROWS[node]])
            loss -= np.log(scores[target] / scores.sum())
        losses.append(loss)
    return np.array(losses)


def _feed(given: dict[str, Any]) -> None:
    for name, array in given.items():
        workspace.FeedBlob(name, array if name == "labels" else array.astype(np.float32))


def _net() -> Any:
    net = core.Net("hierarchy")
    hierarchy = hsm_util.create_hierarchy(_tree()).SerializeToString()
    net.HSoftmax(["x", "w", "b", "labels"], ["loss", "kept"], hierarchy=hierarchy)
    return net


def test_ways_to_words() -> None:
    tree = _tree()
    hierarchy = hsm_util.create_hierarchy(tree)
    assert hierarchy.size == 8
    found = {
        path.word_id: [(node.index, node.length, node.target) for node in path.path_nodes]
        for path in hierarchy.paths
    }
    expected = {
        word: [(ROWS[node].start, ROWS[node].stop - ROWS[node].start, target) for node, target in way]
        for word, way in WAYS.items()
    }
    assert found == expected
    assert tree.root_node.children[1].offset == 6


def test_losses_are_those_of_the_ways() -> None:
    given = _given()
    _feed(given)
    workspace.RunNetOnce(_net())
    np.testing.assert_allclose(workspace.FetchBlob("loss"), _losses(given), rtol=1e-5)


@pytest.mark.parametrize("name", ["x", "w", "b"])
def test_gradients_are_the_slopes(name: str) -> None:
    given = _given()
    _feed(given)
    net = _net()
    workspace.FeedBlob("seed", np.array([1, 2, -1, 0.5], np.float32))
    net.AddExternalInput("seed")
    grads = net.AddGradientOperators({"loss": "seed"})
    workspace.RunNetOnce(net)
    found = workspace.FetchBlob(str(grads[name]))
    step = 1e-6
    for index in np.ndindex(given[name].shape):
        ends = []
        for sign in (1, -1):
            moved = given[name].copy()
            moved[index] += sign * step
            ends.append(_losses({**given, name: moved}) @ [1, 2, -1, 0.5])
        assert abs(found[index] - (ends[0] - ends[1]) / (2 * step)) < 1e-4


def test_search_finds_nodes_and_words() -> None:
    given = _given()
    _feed(given)
    tree = _tree()
    hsm_util.create_hierarchy(tree)
    arguments = {"tree": tree.SerializeToString(), "beam": 50.0, "topN": 9}
    workspace.RunOperatorOnce(core.CreateOperator("HSoftmaxSearch", ["x", "w", "b"], ["n", "s"], **arguments))
    names, scores = workspace.FetchBlob("n"), workspace.FetchBlob("s")
    assert names.shape == (4, 9)
    for sample in range(4):
        found = dict(zip(names[sample], scores[sample], strict=True))
        assert set(found) == {b"left", b"right", *(str(word).encode() for word in range(6)), b""}
        for word in range(6):
            one = {**given, "x": given["x"][sample : sample + 1], "labels": np.array([word])}
            np.testing.assert_allclose(found[str(word).encode()], _losses(one)[0], rtol=1e-4)
        assert (np.diff(scores[sample][:8]) >= 0).all()
    workspace.RunOperatorOnce(
        core.CreateOperator("HSoftmaxSearch", ["x", "w", "b"], ["n", "s"], tree=arguments["tree"], beam=0.0)
    )
    assert (workspace.FetchBlob("n") == b"").all()


def test_frequent_labels_are_near_the_root() -> None:
    """Ways as long as the codes that Huffman's algorithm gives for counts of 1 to 6, and their total cost."""
    labels = np.repeat(np.arange(6), np.arange(1, 7))
    workspace.FeedBlob("labels", labels)
    workspace.RunOperatorOnce(
        core.CreateOperator("HuffmanTreeHierarchy", ["labels"], ["tree"], num_classes=6)
    )
    (serialized,) = workspace.FetchBlob("tree")
    tree = TreeProto.FromString(serialized)
    offsets = tree.root_node.children[0].offset, tree.root_node.children[1].offset
    paths = {path.word_id: path.path_nodes for path in hsm_util.create_hierarchy(tree).paths}
    lengths = [len(paths[word]) for word in range(6)]
    assert lengths == [4, 4, 3, 2, 2, 2]
    assert (tree.root_node.children[0].offset, tree.root_node.children[1].offset) == offsets


def test_labels_that_are_none() -> None:
    _feed({**_given(), "labels": np.array([0, 1, 2, 6], np.int32)})
    with pytest.raises(RuntimeError, match="the word 6 is not in the argument 'hierarchy'"):
        workspace.RunNetOnce(_net())
    workspace.FeedBlob("labels", np.array([0, 7]))
    with pytest.raises(RuntimeError, match=r"not in 0\.\.5"):
        workspace.RunOperatorOnce(
            core.CreateOperator("HuffmanTreeHierarchy", ["labels"], ["tree"], num_classes=6)
        )
    with pytest.raises(RuntimeError, match="'num_classes' is missing"):
        workspace.RunOperatorOnce(core.CreateOperator("HuffmanTreeHierarchy", ["labels"], ["tree"]))
