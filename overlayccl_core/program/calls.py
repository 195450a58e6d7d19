"""Calls: collectives of one kind that the library is asked for at once, each of its own value.

In xm.all_reduce(op, [x, y]) x and y are reduced, each for itself, by one call: nothing is laid end to end. Every
member stays a node: what it means, proves, transposes and rewrites to is that of a call of its own. The name in
their labels makes them one call, of those that are alike in all else. It is made of what they compute, so the same
values asked for together are the same call, whoever asks and in whatever order.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from overlayccl_core.program.groups import Groups
from overlayccl_core.program.kinds import COALESCED, COLLECTIVES, NO_LABEL, Kind, Label, Reduction
from overlayccl_core.program.nodes import Node, make_collective

Call = tuple[Node, ...]
COALESCED_SUFFIX = "_coalesced"
CALL_NAMES = (*(kind.value for kind in COLLECTIVES), *(kind.value + COALESCED_SUFFIX for kind in COALESCED))
_NAME_BYTES = 6


def make_call(
    kind: Kind,
    operands: Sequence[Node],
    groups: Groups,
    label: Label = NO_LABEL,
    reduction: Reduction = Reduction.SUM,
) -> list[Node]:
    """The collective of each operand, all by one call. Where only one is different, it has none to share."""
    alone = replace(label, call="")
    made = [make_collective(kind, x, groups, alone, reduction) for x in operands]
    different = {bare(x).digest for x in made}
    if len(different) == 1:
        return made
    name = hashlib.blake2b(b"".join(sorted(different)), digest_size=_NAME_BYTES).hexdigest()
    return [make_collective(kind, x, groups, replace(alone, call=name), reduction) for x in operands]


def call_name(call: Sequence[Node]) -> str:
    """`all_reduce`, or `all_reduce_coalesced` where one call does several."""
    return call[0].kind.value + (COALESCED_SUFFIX if len(call) > 1 else "")


def bare(made: Node) -> Node:
    """The collective that a constructor made: below the scale, where it moved one outwards."""
    return made.operands[0] if made.kind is Kind.SCALE else made


def call_key(x: Node) -> object:
    """Equal for collectives that one call does: of one name, and alike in kind, groups, reduction, graph, dtype."""
    return (x.kind, x.attr, x.dtype) if x.label.call else x


def calls_of(collectives: Iterable[Node]) -> list[Call]:
    """The collectives in their calls, both in order of first mention."""
    calls: dict[object, list[Node]] = {}
    for x in collectives:
        calls.setdefault(call_key(x), []).append(x)
    return [tuple(call) for call in calls.values()]
