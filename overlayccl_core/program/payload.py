"""Bytes moved by a collective, counted exactly."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.program.groups import Groups
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.nodes import Node


def payload_bytes(node: Node) -> int:
    """Bytes of a collective on one rank, at its larger side: all_gather's result, the others' operand."""
    return node.bytes if node.kind is Kind.ALL_GATHER else node.operands[0].bytes


def group_size(node: Node) -> int:
    """Ranks in one group of a collective; all of them for a collective_permute."""
    return len(node.sources) if node.kind is Kind.COLLECTIVE_PERMUTE else node.groups.size


def wire_bytes(node: Node) -> float:
    """Least bytes sent by the busiest rank.

    The lower bounds of Chan, Heimlich, Purkayastha and van de Geijn, Collective communication: theory, practice
    and experience (2007), section 3: 2 (g - 1) / g of the payload for all_reduce, (g - 1) / g for the others.
    """
    if node.kind is Kind.COLLECTIVE_PERMUTE:
        return float(node.bytes) if _moves(node.sources) else 0.0
    g = node.groups.size
    steps = 2 * (g - 1) if node.kind is Kind.ALL_REDUCE else g - 1
    return float(steps / g * payload_bytes(node))


def node_bytes(node: Node, ranks_per_node: int) -> float:
    """Bytes leaving the busiest node; its ranks share a network card.

    Exact for messages from rank to rank: all_to_all and collective_permute. For the others, as if each group handed
    its `wire_bytes` on along a ring in the order of its ranks: 0-1-2-3 over two nodes leaves each of them once.
    """
    if node.kind is Kind.COLLECTIVE_PERMUTE:
        return float(_leaving(node.sources, ranks_per_node) * node.bytes)
    if node.kind is Kind.ALL_TO_ALL:
        elsewhere = _members_elsewhere(node.groups, ranks_per_node)
        return float(elsewhere.sum(axis=1).max() * (payload_bytes(node) // node.groups.size))
    return float(_rings_leaving(node.groups, ranks_per_node) * wire_bytes(node))


@lru_cache(maxsize=1024)
def _leaving(sources: tuple[int, ...], ranks_per_node: int) -> int:
    """Most messages of a permute leaving one node."""
    source = np.array(sources)
    leaves = (source >= 0) & (source // ranks_per_node != np.arange(source.size) // ranks_per_node)
    return int(np.bincount(source[leaves] // ranks_per_node, minlength=1).max())


@lru_cache(maxsize=1024)
def _rings_leaving(groups: Groups, ranks_per_node: int) -> int:
    """Most messages leaving one node, if each group is a ring in the order of its ranks."""
    node = groups.array // ranks_per_node
    return int(np.bincount(node[node != np.roll(node, -1, axis=1)], minlength=1).max())


@lru_cache(maxsize=1024)
def _members_elsewhere(groups: Groups, ranks_per_node: int) -> NDArray[np.int64]:
    """int64[nodes, ranks a node]: for every rank, the members of its group on other nodes."""
    node_of = np.arange(groups.ranks) // ranks_per_node
    others = node_of[groups.array[groups.group]] != node_of[:, None]
    elsewhere: NDArray[np.int64] = others.sum(axis=1).reshape(-1, ranks_per_node)
    return elsewhere


def crosses_nodes(node: Node, ranks_per_node: int) -> bool:
    """True if some message of a collective leaves its node."""
    if node.kind is Kind.COLLECTIVE_PERMUTE:
        return _leaving(node.sources, ranks_per_node) > 0
    return groups_cross_nodes(node.groups, ranks_per_node)


def groups_cross_nodes(groups: Groups, ranks_per_node: int) -> bool:
    """True if some group has members on two nodes."""
    return bool(_members_elsewhere(groups, ranks_per_node).any())


@lru_cache(maxsize=1024)
def _moves(sources: tuple[int, ...]) -> bool:
    """True if some rank receives from another."""
    source = np.array(sources)
    return bool(((source >= 0) & (source != np.arange(source.size))).any())
