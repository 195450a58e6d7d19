"""Disjoint sets of nodes (union-find)."""

from collections.abc import Iterable

from overlayccl_core.program.nodes import Node


class DisjointSets:
    """Nodes, each in a set of its own until joined with others."""

    def __init__(self, members: Iterable[Node]) -> None:
        self._parent = {x: x for x in members}

    def root(self, x: Node) -> Node:
        """The representative of the set of x."""
        parent = self._parent
        while parent[x] is not x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    def join(self, x: Node, y: Node) -> None:
        """Join the sets of x and y."""
        self._parent[self.root(x)] = self.root(y)
