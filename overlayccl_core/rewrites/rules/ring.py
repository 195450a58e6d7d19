"""A2A, AG -> N - 1 permutes: at distance d every rank sends to the member d places on; my own block stays.

Knob, for AG: `handed_on`, every rank sends to the next member only, first its own and then what came before.
Side conditions: groups of two ranks or more.
"""

from collections.abc import Sequence

import numpy as np

from overlayccl_core.program import maps
from overlayccl_core.program.groups import Groups
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.maps import Map
from overlayccl_core.program.nodes import Node, make_permute, make_view
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.rule import DoesNotApply, Factor, Replacements, RuleNumerics, each

KINDS = (Kind.ALL_TO_ALL, Kind.ALL_GATHER)
NUMERICS = RuleNumerics.SAME
FACTOR = Factor.PRIMITIVE

HANDED_ON = "handed_on"


def knobs(program: Program, sites: Sequence[Node]) -> tuple[str, ...]:
    """Straight to each member; `handed_on`, whose steps wait for each other, only where it is asked for."""
    return ("",)


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    if knob and (knob != HANDED_ON or sites[0].kind is not Kind.ALL_GATHER):
        raise DoesNotApply(
            f"no such ring of {sites[0].kind.value}: an all_gather may be {HANDED_ON} (got {knob!r})"
        )
    return each(
        (x for x in sites if x.groups.size > 1),
        lambda x, operand: rotations(x, operand, handed_on=bool(knob)),
    )


def rotations(x: Node, operand: Node, *, handed_on: bool = False) -> Node:
    """Return the exchange or gather x of `operand` by permutes: received block d is from d places before me."""
    groups, g = x.groups, x.groups.size
    block = x.size // g
    came: list[Node] = []
    for d in range(g):
        sent = operand
        if x.kind is Kind.ALL_TO_ALL:
            sent = make_view([operand], maps.window(receiver_place(groups, d) * block, block))
        if handed_on and d:
            came.append(make_permute(came[-1], sender(groups, 1).tolist(), x.label))
        else:
            came.append(make_permute(sent, sender(groups, d).tolist(), x.label) if d else sent)
    keys = np.arange(groups.ranks)[:, None] * x.size + np.arange(g) * block
    distance = (groups.place[:, None] - np.arange(g)) % g
    return make_view(came, Map(groups.ranks, x.size, keys.ravel(), distance.ravel() * block))


def receiver_place(groups: Groups, distance: int) -> maps.Ints:
    """Return int[N]: the place of the member `distance` places on."""
    place: maps.Ints = (groups.place + distance) % groups.size
    return place


def sender(groups: Groups, distance: int) -> maps.Ints:
    """Return int[N]: the sender of each rank, `distance` places back."""
    senders: maps.Ints = groups.array[groups.group, (groups.place - distance) % groups.size]
    return senders
