"""What leaves a node: counted by hand."""

import numpy as np
import pytest

from overlayccl_core.program import nodes
from overlayccl_core.program.groups import contiguous, groups_of, strided, world
from overlayccl_core.program.kinds import DType, Kind
from overlayccl_core.program.nodes import NO_LABEL, Node
from overlayccl_core.program.payload import crosses_nodes, node_bytes

X = nodes.make_input(("x", 0), equal=False, size=24, dtype=DType.FLOAT32)  # 96 bytes
ALTERNATING = groups_of([(0, 3, 1, 4, 2, 5)], 6)
MIXED = groups_of([(0, 3), (1, 2), (4, 5)], 6)


def shifted(shift: int, ranks: int = 6) -> Node:
    return nodes.make_permute(X, ((np.arange(ranks) - shift) % ranks).tolist(), NO_LABEL)


@pytest.mark.parametrize(
    ("node", "leaving"),
    [
        (shifted(1), 96),  # 2 -> 3 and 5 -> 0: one message a node
        (shifted(2), 2 * 96),
        (shifted(3), 3 * 96),
        (nodes.make_permute(X, [1, 0, -1, -1, -1, 3], NO_LABEL), 0),  # none leaves
        (nodes.make_permute(X, [3, 4, -1, -1, -1, -1], NO_LABEL), 2 * 96),  # of the second node
        (nodes.make_collective(Kind.ALL_TO_ALL, X, world(6), NO_LABEL), 3 * 3 * 16),  # 3 ranks to 3 others
        (nodes.make_collective(Kind.ALL_TO_ALL, X, contiguous(6, 3), NO_LABEL), 0),
        (nodes.make_collective(Kind.ALL_TO_ALL, X, strided(6, 3), NO_LABEL), 3 * 48),
        (nodes.make_collective(Kind.ALL_REDUCE, X, world(6), NO_LABEL), 2 * 5 / 6 * 96),  # 2 -> 3 and 5 -> 0
        (nodes.make_collective(Kind.ALL_REDUCE, X, ALTERNATING, NO_LABEL), 3 * 2 * 5 / 6 * 96),
        (nodes.make_collective(Kind.ALL_REDUCE, X, strided(6, 3), NO_LABEL), 3 * 96),
        (nodes.make_collective(Kind.ALL_REDUCE, X, contiguous(6, 3), NO_LABEL), 0),
        (nodes.make_collective(Kind.ALL_REDUCE, X, MIXED, NO_LABEL), 96),  # one pair of three is apart
    ],
)
def test_bytes_that_leave_the_busiest_of_two_nodes_of_three_ranks(node: Node, leaving: float) -> None:
    assert node_bytes(node, 3) == pytest.approx(leaving)
    assert crosses_nodes(node, 3) is bool(leaving)
    assert node_bytes(node, 6) == 0
