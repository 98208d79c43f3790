"""Orders in which the operators of a net can run."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from netgrad.caffe2.caffe2_pb2 import OperatorDef


class OperatorGraph:
    """Which operators read what others have written before.

    Attributes:
        ops: The operators.
        successors: For each operator, by its position, those that read what it writes, in their order.
        predecessors: For each operator, those whose outputs it reads.
    """

    def __init__(self, ops: Sequence[OperatorDef]) -> None:
        self.ops = list(ops)
        self.successors: list[list[int]] = [[] for _ in self.ops]
        self.predecessors: list[list[int]] = [[] for _ in self.ops]
        writers: dict[str, list[int]] = {}
        for index, op in enumerate(self.ops):
            for writer in sorted({at for blob in op.input for at in writers.get(blob, ())}):
                self.successors[writer].append(index)
                self.predecessors[index].append(writer)
            for blob in op.output:
                writers.setdefault(blob, []).append(index)

    def edges(self) -> list[tuple[int, int]]:
        """Writer and reader of everything that is passed on."""
        return [(writer, reader) for writer, readers in enumerate(self.successors) for reader in readers]

    def __len__(self) -> int:
        return len(self.ops)


def compute_interference_graph(ops: Sequence[OperatorDef]) -> OperatorGraph:
    """The graph of a list of operators."""
    return OperatorGraph(ops)


def topological_sort_traversal(g: OperatorGraph) -> list[int]:
    """Positions of operators, each behind those that it reads from: depth first, the last source first."""
    finished: list[int] = []
    seen = bytearray(len(g))
    for start in range(len(g)):
        stack = [] if seen[start] else [(start, iter(g.successors[start]))]
        seen[start] = 1
        while stack:
            index, following = stack[-1]
            after = next((at for at in following if not seen[at]), None)
            if after is None:
                finished.append(index)
                stack.pop()
            else:
                seen[after] = 1
                stack.append((after, iter(g.successors[after])))
    return finished[::-1]


def topological_sort_traversal_longest_path(g: OperatorGraph) -> list[int]:
    """The same, but sources come by the length of the longest path from them, the longest first.

    What only a short path needs is computed late, and so lives shortly.
    """
    lengths = [0] * len(g)
    for index in reversed(range(len(g))):
        lengths[index] = max((1 + lengths[at] for at in g.successors[index]), default=0)
    sources = [index for index in range(len(g)) if not g.predecessors[index]]
    ranks = [len(g)] * len(g)
    for rank, source in enumerate(sorted(sources, key=lambda index: -lengths[index])):
        pending = [source]
        while pending:
            index = pending.pop()
            if ranks[index] > rank:
                ranks[index] = min(ranks[index], rank)
                pending += g.successors[index]
    waits = [len(before) for before in g.predecessors]
    ready = [(ranks[index], index) for index in sources]
    heapq.heapify(ready)
    order = []
    while ready:
        _, index = heapq.heappop(ready)
        order.append(index)
        for after in g.successors[index]:
            waits[after] -= 1
            if not waits[after]:
                heapq.heappush(ready, (ranks[after], after))
    return order
