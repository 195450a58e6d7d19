"""Placement of scales: once on a new value, instead of on each of its parts.

The normal form moves scales outwards, so one buffer of averaged gradients reads as a scale of every slice. If
everything made of a value y, through layouts only, is scaled by one ratio, then y itself is scaled at its birth
(in place, mostly), and its parts are plain layouts. An all_gather with a scaled result gathers scaled shares. Both
give the same bits: layouts and gathers move elements, and every element is scaled once either way.
"""

from collections.abc import Iterable
from fractions import Fraction

from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.nodes import Node, make_scale, verbatim
from overlayccl_core.program.program import Event, Issue, Program, Write

_BORN = (Kind.SUM, Kind.CAST, Kind.ALL_REDUCE, Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL)


def scaled_at_birth(program: Program) -> Iterable[Event]:
    """Return the events of a Program over nodes as they run: equal values, not in normal form."""
    ratios = _born_scaled(program)
    if not ratios:
        return program.events
    runs = _Rewriting(ratios)
    for x in program.nodes:
        runs.node(x)
    return [_with_node(event, runs) for event in program.events]


def _with_node(event: Event, runs: "_Rewriting") -> Event:
    match event:
        case Write(port, node):
            return Write(port, runs.value(node))
        case Issue(call):
            return Issue(tuple(runs.new[node] for node in call))
        case _:
            return event


def _born_scaled(program: Program) -> dict[Node, Fraction]:
    """node -> the one ratio of all scales that its uses end in."""
    scales = [x for x in program.nodes if x.kind is Kind.SCALE]
    if not scales:
        return {}
    users = program.users()
    written = {e.node for e in program.events if isinstance(e, Write)}
    ratios: dict[Node, Fraction] = {}
    for scale in scales:
        y = scale.operands[0]
        while y.kind is Kind.VIEW and len(y.operands) == 1:
            y = y.operands[0]
        parts = _scaled_parts(y, users, written) if y.kind in _BORN and y not in ratios else None
        if parts and len({part.ratio for part in parts}) == 1 and sum(p.size for p in parts) >= y.size:
            ratios[y] = scale.ratio
    for y, ratio in list(ratios.items()):
        if y.kind is Kind.ALL_GATHER and users[y.operands[0]] == [y] and y.operands[0].kind in _BORN:
            ratios[y.operands[0]] = ratio
    return ratios


def _scaled_parts(y: Node, users: dict[Node, list[Node]], written: set[Node]) -> list[Node] | None:
    """The scales at the ends of all uses of y; None if some use is no scale of a layout of y."""
    if y in written:
        return None
    parts: list[Node] = []
    for user in users[y]:
        if user.kind is Kind.SCALE:
            parts.append(user)
        elif user.kind is Kind.VIEW and len(user.operands) == 1:
            below = _scaled_parts(user, users, written)
            if below is None:
                return None
            parts += below
        else:
            return None
    return parts


class _Rewriting:
    """Nodes as they run. `new[x]`: the form of x as it is made; `value(x)`: the node read by its users."""

    def __init__(self, ratios: dict[Node, Fraction]) -> None:
        self.ratios = ratios
        self.new: dict[Node, Node] = {}
        self.scaled: set[Node] = set()  # nodes that are read in scaled form

    def node(self, x: Node) -> None:
        """Make the new form of x, after those of its operands."""
        operands = [self.value(y) for y in x.operands]
        from_scaled = any(y in self.scaled for y in x.operands)
        if x.kind is Kind.SCALE and from_scaled:
            self.new[x] = operands[0]
            return
        same = all(a is b for a, b in zip(operands, x.operands, strict=True))
        self.new[x] = x if same else verbatim(x, operands)
        if from_scaled or x in self.ratios:
            self.scaled.add(x)

    def value(self, x: Node) -> Node:
        """The node read by users of x: scaled at birth if x has a ratio."""
        made = self.new[x]
        return make_scale(made, self.ratios[x]) if x in self.ratios and not self._arrives_scaled(x) else made

    def _arrives_scaled(self, x: Node) -> bool:
        """True if x is gathered from scaled shares."""
        return any(y in self.scaled for y in x.operands)
