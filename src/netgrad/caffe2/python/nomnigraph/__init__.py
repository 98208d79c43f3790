"""Nets as graphs of operators and tensors, to find patterns in them and to change them."""

from __future__ import annotations

from netgrad.caffe2.python.nomnigraph.graph import Graph, NNSubgraph
from netgrad.caffe2.python.nomnigraph.matching import NNMatchGraph
from netgrad.caffe2.python.nomnigraph.module import NNModule
from netgrad.caffe2.python.nomnigraph.nodes import Annotation, NeuralNetData, NeuralNetOperator

__all__ = [
    "Annotation",
    "Data",
    "Graph",
    "NNMatchGraph",
    "NNModule",
    "NNSubgraph",
    "NeuralNetData",
    "NeuralNetOperator",
    "Operator",
    "render",
]

Operator = NeuralNetOperator
Data = NeuralNetData


def render(s: object) -> None:
    """Print a graph, in the language of Graphviz."""
    print(s)
