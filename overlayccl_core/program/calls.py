"""Calls: several collectives of one kind in one call of the library, each of its own value.

xm.all_reduce(op, [x, y]) reduces x and y, each for itself, by one call: nothing is laid end to end. Every member
stays a node: its meaning, proof, transpose and rewrites are those of a call of its own. A common name in their
labels makes members one call, if they are alike in all else. The name is a hash of what they compute: the same
values together are the same call in every strategy and in any order.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from overlayccl_core.program.groups import Groups
from overlayccl_core.program.kinds import (
    CALL_DIGITS,
    COALESCED,
    COLLECTIVES,
    NO_LABEL,
    Kind,
    Label,
    Reduction,
)
from overlayccl_core.program.nodes import Node, make_collective

Call = tuple[Node, ...]
COALESCED_SUFFIX = "_coalesced"
CALL_NAMES = (*(kind.value for kind in COLLECTIVES), *(kind.value + COALESCED_SUFFIX for kind in COALESCED))


def make_call(
    kind: Kind,
    operands: Sequence[Node],
    groups: Groups,
    label: Label = NO_LABEL,
    reduction: Reduction = Reduction.SUM,
) -> list[Node]:
    """Make the collective of each operand, all by one call; if all are equal, there is no call to share."""
    alone = replace(label, call="")
    made = [make_collective(kind, x, groups, alone, reduction) for x in operands]
    different = {bare(x).digest for x in made}
    if len(different) == 1:
        return made
    name = hashlib.blake2b(b"".join(sorted(different)), digest_size=CALL_DIGITS // 2).hexdigest()
    return [make_collective(kind, x, groups, replace(alone, call=name), reduction) for x in operands]


def call_name(call: Sequence[Node]) -> str:
    """`all_reduce`, or `all_reduce_coalesced` for several in one call."""
    return call[0].kind.value + (COALESCED_SUFFIX if len(call) > 1 else "")


def bare(made: Node) -> Node:
    """The collective made by a constructor: below the scale, if the constructor moved one outwards."""
    return made.operands[0] if made.kind is Kind.SCALE else made


def call_key(x: Node) -> object:
    """Equal for collectives of one call: of one name, and alike in kind, groups, reduction, graph, dtype."""
    return (x.kind, x.attr, x.dtype) if x.label.call else x


def calls_of(collectives: Iterable[Node]) -> list[Call]:
    """The collectives in their calls, both in order of first mention."""
    calls: dict[object, list[Node]] = {}
    for x in collectives:
        calls.setdefault(call_key(x), []).append(x)
    return [tuple(call) for call in calls.values()]
