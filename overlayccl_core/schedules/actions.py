"""Actions of a schedule: what each reads and writes, what it waits for, and one order of all of them.

Files of schedules say who waits for whom, not when. Here that becomes one order, or a reason against it: actions
that wait for each other in a circle never run (a deadlock), and two accesses of one chunk, of which one writes and
which nothing puts in order, may come either way round (a race). If there is neither, all orders that the waits
allow give the same values, and one of them stands for all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from overlayccl_core.program.kinds import Rejected

Cell = tuple[int, str, int]
"""Rank, buffer, and index of a chunk in it."""

BUFFERS = {"i": "input", "o": "output", "s": "scratch"}
"""A rank's buffers, as files of MSCCL and MSCCL++ and as cells call them."""
NAMED_WAITS = 4  # of a deadlock, in its message


@dataclass(frozen=True, slots=True)
class Effect:
    """A chunk becomes the sum of others (of one: a copy)."""

    into: Cell
    terms: tuple[Cell, ...]


@dataclass(eq=False, slots=True)
class ChunkAction:
    """One step of one thread block.

    Attributes:
        rank, block, step: Where it stands in the file.
        name: The operation, as the file has it.
        effects: All terms are read before anything is written.
        after: Actions that have ended before this one begins, those before it in its thread block among them.
        room: The action that must end before there is room for what this one sends. It puts nothing in order: where
            buffers are larger, nobody waits for it.
    """

    rank: int
    block: int
    step: int
    name: str
    effects: tuple[Effect, ...] = ()
    after: list["ChunkAction"] = field(default_factory=list, repr=False)
    room: "ChunkAction | None" = None

    def __str__(self) -> str:
        return place_text(self.rank, self.block, self.step, self.name)


def place_text(rank: int, block: int, step: int, name: str) -> str:
    """Where a step stands in a file, and its operation, for messages."""
    return f"rank {rank}, thread block {block}, step {step} ({name})"


def in_order(actions: Sequence[ChunkAction]) -> list[ChunkAction]:
    """Return the actions in an order that all waits allow.

    Raises:
        Rejected: A deadlock, or a race; it names the actions.
    """
    order = _sorted(actions)
    _refuse_races(order)
    return order


def _sorted(actions: Sequence[ChunkAction]) -> list[ChunkAction]:
    waits = {action: len(_waits(action)) for action in actions}
    users: dict[ChunkAction, list[ChunkAction]] = {action: [] for action in actions}
    for action in actions:
        for before in _waits(action):
            users[before].append(action)
    order = [action for action in actions if not waits[action]]
    for action in order:  # grows
        for user in users[action]:
            waits[user] -= 1
            if not waits[user]:
                order.append(user)
    if len(order) < len(actions):
        raise Rejected(_deadlock({action for action in actions if waits[action]}))
    return order


def _waits(action: ChunkAction) -> list[ChunkAction]:
    return list(dict.fromkeys([*action.after, *([action.room] if action.room else [])]))


def _deadlock(stuck: set[ChunkAction]) -> str:
    """A circle of waits, in words."""
    at = min(stuck, key=lambda action: (action.rank, action.block, action.step))
    path: dict[ChunkAction, None] = {}
    while at not in path:
        path[at] = None
        at = next(before for before in _waits(at) if before in stuck)
    steps = list(path)
    circle = steps[steps.index(at) :]
    named = ", which waits for ".join(map(str, circle[:NAMED_WAITS]))
    more = f", and so on over {len(circle)} steps" if len(circle) > NAMED_WAITS else ""
    alone = "itself" if len(circle) == 1 else "the first"
    return f"a deadlock: {named}{more or f', which waits for {alone}'}"


def _refuse_races(order: Sequence[ChunkAction]) -> None:
    """Raise Rejected for two accesses of a chunk that nothing puts in order, if one of them writes."""
    number = {action: i for i, action in enumerate(order)}
    before: list[int] = []  # a bit for each action that has ended before
    for action in order:
        ended = 0
        for other in action.after:
            ended |= before[number[other]] | 1 << number[other]
        before.append(ended)
    wrote: dict[Cell, ChunkAction] = {}
    readers: dict[Cell, list[ChunkAction]] = {}
    for i, action in enumerate(order):
        reads = {cell for effect in action.effects for cell in effect.terms}
        writes = {effect.into for effect in action.effects}
        for cell in reads | writes:
            last = wrote.get(cell)
            earlier = [last] if last else []
            if cell in writes:
                earlier += readers.get(cell, [])
            for other in earlier:
                if not before[i] >> number[other] & 1:
                    raise Rejected(_race(cell, other, action))
        for cell in writes:
            wrote[cell], readers[cell] = action, []
        for cell in reads - writes:
            readers.setdefault(cell, []).append(action)


def _race(cell: Cell, one: ChunkAction, other: ChunkAction) -> str:
    def does(action: ChunkAction) -> str:
        return "writes" if any(effect.into == cell for effect in action.effects) else "reads"

    rank, buffer, index = cell
    return (
        f"a race at chunk {index} of {buffer} of rank {rank}: {one} {does(one)} it, {other} {does(other)} it, and "
        "neither waits for the other"
    )
