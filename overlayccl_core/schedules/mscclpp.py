"""MSCCL++: what an execution plan means.

The format is that of the executor of microsoft/mscclpp (`src/core/executor/execution_plan.cc`). One table has all
operations (`mscclpp_blocks.py`), with the order inside a thread block. Between thread blocks, and between ranks:

- Wait n on a channel comes after signal n of its other end. Where several thread blocks signal on one channel, or
  share a semaphore, a wait comes only after those that cannot have come later.
- The reader of a packet comes after its writer, if a run writes it once. A flag tells no more.
- Input and output belong to the caller before the first operation of a rank, and again after its last one.
- Relaxed signals and packets order execution, not data. A read with nothing else between it and a write may see old
  data. A packet itself is seen, and so are the caller's data. At the end we take everything as seen: plans with a
  switch end with relaxed signals.

Not looked at: scratch between one run and the next; sizes that do not divide into shares and units (a pipeline has
UNITS units a chunk here, too few to use scratch again); limits of the runtime, as on the number of operations.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from overlayccl_core.program.kinds import Rejected
from overlayccl_core.schedules.actions import Cell, ChunkAction, Effect, in_order
from overlayccl_core.schedules.mscclpp_blocks import BlockWalk, Counted, PlanRun
from overlayccl_core.schedules.mscclpp_file import MscclppPlan, parse
from overlayccl_core.schedules.mscclpp_places import PACKET, PlanChannel, PlanPlaces
from overlayccl_core.schedules.schedule import Schedule, collective_of

RELAXED = ("rlxsignal", "rlxwait")
Wait = tuple[ChunkAction, ChunkAction]
"""Who is waited for, and who waits."""


def read(text: str, collective: str | None = None) -> list[Schedule]:
    """Return the schedule of a plan, in a list.

    Args:
        collective: Proven in place of the plan's own word.

    Raises:
        Rejected: It is no plan, or it cannot run; one line, with the place.
    """
    plan = parse(text)
    said = collective_of(plan.collective, collective)
    places = PlanPlaces(plan, said)
    ranks = range(len(plan.gpus))
    run = PlanRun(places)
    for rank in ranks:
        _add_rank(run, plan, rank)
    relaxed = _match(run)
    order = in_order(run.actions)
    _refuse_unseen(order, relaxed)
    return [
        Schedule(
            name=plan.name + (" in place" if plan.inplace else ""),
            collective=said,
            ranks=len(ranks),
            given=tuple(places.cells(rank, "i") for rank in ranks),
            results=tuple(places.cells(rank, "o") for rank in ranks),
            order=tuple(x for x in order if x.effects and not isinstance(x, _Caller)),
        )
    ]


class _Caller(ChunkAction):
    """The caller of a rank, who has its input and output before and after the run."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"the caller of rank {self.rank} {self.name}"


def _add_rank(run: PlanRun, plan: MscclppPlan, rank: int) -> None:
    """Add the actions of a rank, between those of its caller."""
    owned = dict.fromkeys(cell for buffer in ("i", "o") for cell in run.places.cells(rank, buffer))
    effects = tuple(Effect(cell, (cell,)) for cell in owned)
    before = run.add(_Caller(rank, -1, 0, "before the run", effects))
    ends = [before]
    for block in plan.gpus[rank].threadblocks:
        walk = BlockWalk(run, rank, block.id, before)
        walk.do(block.ops)
        ends += walk.last()
    run.add(_Caller(rank, -1, 1, "after the run", effects, ends))


# ------------------------------------------------------------------------------------------------------- waits
def _match(run: PlanRun) -> set[Wait]:
    """Add the waits between thread blocks and between ranks; return those that order execution, not data."""
    relaxed: set[Wait] = set()
    for counted in dict.fromkeys([*run.acquired, *run.released]):
        _check_loops(counted, run.loops[counted])
        for before, action in _counted(counted, run.released[counted], run.acquired[counted]):
            action.after.append(before)
            if isinstance(counted, PlanChannel) and counted.type == "memory":
                relaxed |= {(before, action) for x in (before, action) if x.name.startswith(RELAXED)}
    for (rank, number), uses in run.barriers.items():
        _match_barrier(f"barrier {number} of rank {rank}", uses)
    return relaxed | _match_packets(run)


def _counted(
    counted: Counted,
    released: dict[tuple[int, int], list[ChunkAction]],
    acquired: dict[tuple[int, int], list[ChunkAction]],
) -> list[Wait]:
    """The waits that hold in whatever order several thread blocks come."""
    free = 0 if isinstance(counted, PlanChannel) else counted.free
    total, wanted = (sum(map(len, counts.values())) for counts in (released, acquired))
    if wanted > free + total:
        last = max(acquired.values(), key=len)[-1]
        raise Rejected(
            f"a deadlock: {last} waits for number {wanted} on {counted}, and there are {free + total}"
        )
    if isinstance(counted, PlanChannel) and total > wanted:
        last = max(released.values(), key=len)[-1]
        raise Rejected(
            f"a signal without its wait: {last} sends number {total} on {counted}, and {wanted} are waited for: "
            "the next run would begin with one too many"
        )
    return [
        (own[sure - 1], action)
        for waits in acquired.values()
        for needed, action in enumerate(waits, 1 - free)
        for own in released.values()
        if (sure := needed - (total - len(own))) > 0
    ]


def _check_loops(counted: Counted, loops: Counter[int]) -> None:
    """Raise Rejected where long pipelines end otherwise than one of UNITS units a chunk."""
    if len(loops) > 1:
        raise Rejected(
            f"pipelines of different unit_size ({', '.join(map(str, sorted(loops)))}) meet at {counted}, and so "
            "they have not as many units"
        )
    more = loops.total()
    if more < 0:
        raise Rejected(f"a deadlock: each unit of a pipeline waits for more at {counted} than comes in it")
    if more and isinstance(counted, PlanChannel):
        raise Rejected(f"a signal without its wait: each unit of a pipeline leaves some on {counted}")


def _match_barrier(barrier: str, uses: dict[int, list[tuple[ChunkAction, ChunkAction, int]]]) -> None:
    """In each round thread blocks leave when all have come."""
    for come, _, blocks in (use for rounds in uses.values() for use in rounds):
        if blocks != len(uses):
            raise Rejected(
                f"{come} is for {blocks} thread blocks, and {len(uses)} use {barrier}: it would end too early, or "
                "never"
            )
    longest, shortest = max(uses.values(), key=len), min(uses.values(), key=len)
    if len(shortest) < len(longest):
        raise Rejected(
            f"a deadlock: {longest[-1][0]} comes to {barrier} for time {len(longest)}, and thread block "
            f"{shortest[0][0].block} only {len(shortest)} times"
        )
    for one_round in zip(*uses.values(), strict=True):
        for _, leave, _ in one_round:
            leave.after += [come for come, _, _ in one_round]


def _match_packets(run: PlanRun) -> set[Wait]:
    """Add the waits for packets, and return them."""
    packets, data = run.places.label(PACKET), run.places.label("s")
    written: dict[Cell, list[ChunkAction]] = defaultdict(list)
    uses: dict[Cell, ChunkAction] = {}
    for action in run.actions:
        for effect in action.effects:
            uses |= dict.fromkeys((effect.into, *effect.terms), action)
            if effect.into[1] == packets:
                written[effect.into].append(action)
    waits = set()
    for action, cell in run.packets:
        if not written[cell]:
            raise Rejected(f"a deadlock: {action} waits for {cell[1]}, chunk {cell[2]}, which nobody writes")
        if len(written[cell]) == 1:
            action.after.append(written[cell][0])
            waits.add((written[cell][0], action))
    for (rank, buffer, chunk), action in uses.items():
        room = [uses.get((rank, data, 2 * chunk + i)) for i in (0, 1)] if buffer == packets else []
        for other in filter(None, room):
            raise Rejected(
                f"{action} has {packets} of rank {rank}, chunk {chunk}, and {other} has data there: with its flags "
                f"the packet takes the room of chunks {2 * chunk} and {2 * chunk + 1}"
            )
    return waits


def _refuse_unseen(order: Sequence[ChunkAction], relaxed: set[Wait]) -> None:
    """Raise Rejected for data that are read behind their write, but may not be seen."""
    if not relaxed:
        return
    number = {action: i for i, action in enumerate(order)}
    seen: list[int] = []  # a bit for each action whose writes are seen
    wrote: dict[Cell, ChunkAction] = {}
    for action in order:
        bits = 0
        for before in action.after:
            if (before, action) not in relaxed:
                bits |= seen[number[before]] | 1 << number[before]
        seen.append(bits)
        for cell in (
            () if isinstance(action, _Caller) else {x for effect in action.effects for x in effect.terms}
        ):
            last = wrote.get(cell)
            if last and (last, action) not in relaxed and not bits >> number[last] & 1:
                raise Rejected(
                    f"{action} reads chunk {cell[2]} of {cell[1]} of rank {cell[0]}, which {last} writes, with "
                    "relaxed signals or packets between: they order execution, and data may come later"
                )
        if not isinstance(action, _Caller):
            wrote.update((effect.into, action) for effect in action.effects)
