"""Comparison of an archived table's rows with the expected ones: arms and launches."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from overlayccl_core.measuring.job_status import JobStatus
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.training.left_behind import leaving
from overlayccl_core.training.plan import SLOW, StepSettings
from overlayccl_core.training.roster import Roster

NEARLY_SLOW = 0.75 * SLOW  # ranks decided by their own clocks
NAMED = 3  # rows named in a message
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Odd:
    """A deviation. open: an honest run may have it, and no table tells why."""

    message: str
    open: bool = False


def compared(
    wanted: Iterable[tuple[Any, ...]],
    there: Iterable[tuple[Any, ...]],
    allowed: Iterable[tuple[Any, ...]] = (),
) -> Iterator[Odd]:
    """Report missing rows and unexpected rows. allowed: optional ones."""
    wanted, there = set(wanted), set(there)
    if lacking := wanted - there:
        yield Odd(message=f"no row of {_named(lacking)}, which ought to have been measured")
    if more := there - wanted - set(allowed):
        yield Odd(message=f"rows of {_named(more)}, which nobody asked for")


def once(there: Iterable[tuple[Any, ...]]) -> Iterator[Odd]:
    if twice := {one for one, count in Counter(there).items() if count > 1}:
        yield Odd(message=f"more than one row of {_named(twice)}")


def _named(those: Iterable[tuple[Any, ...]]) -> str:
    told = sorted(" ".join(map(str, one)) for one in those)
    more = f" and {len(told) - NAMED} more" if len(told) > NAMED else ""
    return f"{', '.join(told[:NAMED])}{more}"


def launches(
    arms: Roster, rows: Sequence[Row], steps: StepSettings, launches: int, *, narrows: bool
) -> Iterator[Odd]:
    """Check a model's rows: every arm in every launch, for every purpose, with an allowed number of steps.

    If an arm fails in the repeat of a disturbed launch, the first try may be kept: its rows there are optional.
    """

    def before(launch: int) -> Iterator[Row]:
        return (row for row in ran if row["launch"] < launch)

    failed = {_arm(row): row["launch"] for row in rows if row["status"] != JobStatus.TRAINED}
    ran = [row for row in rows if row["status"] == JobStatus.TRAINED]
    names = [(arm.microbatches, arm.name) for arm in arms.arms]
    wanted: set[tuple[Hashable, ...]] = set()
    allowed: set[tuple[Hashable, ...]] = set()
    for number in range(launches):
        began = {one for one in names if failed.get(one, launches) >= number}
        well = {one for one in began if failed.get(one, launches) > number}
        there = [some - (leaving(number, some, before) if narrows else set()) for some in (began, well)]
        for arm in arms.arms:
            one = (arm.microbatches, arm.name)
            of = {(purpose, seed) for purpose in arm.purposes for seed in _seeds(purpose, number, steps)}
            keys = {(*one, number, purpose.value, seed) for purpose, seed in of}
            wanted |= keys if all(one in some for some in there) else set()
            allowed |= keys if any(one in some for some in there) else set()
    columns = ("microbatches", "arm", "launch", "purpose", "seed")
    rows_there = [tuple(row[name] for name in columns) for row in ran]
    yield from compared(wanted, rows_there, allowed)
    yield from once(rows_there)
    yield from _counted(ran, steps)


def _seeds(purpose: Purpose, launch: int, steps: StepSettings) -> tuple[int, ...]:
    """Return an arm's seeds in a launch: only the first has losses, and quiet and idle steps that take no turns."""
    if purpose is Purpose.TIMED or (purpose is not Purpose.LOSS and steps.in_turns):
        return (launch,)
    if launch:
        return ()
    return steps.loss_seeds if purpose is Purpose.LOSS else (launch,)


def _counted(ran: Iterable[Row], steps: StepSettings) -> Iterator[Odd]:
    """Check the numbers of steps: few for slow arms, equal for all others, since ratios need pairs of steps."""
    fewest, timed = steps.minimum_steps, dict[int, list[Row]]()
    for row in ran:
        count = len(row["steps_us"])
        if row["purpose"] == Purpose.LOSS and count != steps.loss_steps:
            yield Odd(message=f"{_label(row)}: {count} steps, where {steps.loss_steps} were asked for")
        if row["purpose"] == Purpose.TIMED:
            if not fewest <= count <= steps.maximum_steps:
                of = f"from {fewest} to {steps.maximum_steps}"
                yield Odd(message=f"{_label(row)}: {count} steps, where {of} were asked for")
            timed.setdefault(row["launch"], []).append(row)
    for launch, rows in timed.items():
        counts = {max(len(row["steps_us"]), fewest) for row in rows}
        if len(counts - {fewest}) > 1:
            yield Odd(message=f"launch {launch}: arms have {sorted(counts)} steps, which are no pairs")
        usual = [median(row["steps_us"][:fewest]) for row in rows]
        for row, us in zip(rows, usual, strict=True):
            if len(row["steps_us"]) == fewest < max(counts) and us < NEARLY_SLOW * min(usual):
                yield Odd(message=f"{_label(row)}: fewer steps than others, which only the slow have")


def stamped(arms: Roster, rows: Iterable[Row], stamps: Iterable[Row]) -> Iterator[Odd]:
    """Check that every site ran its expected Program, and that no other arms have stamps."""
    ran = {_arm(row) for row in rows if row["status"] == JobStatus.TRAINED}
    columns = (*dict.fromkeys(name for one in arms.begun for name in one), "library")
    begun = ({**one, "library": arms.deployment.library} for one in arms.begun)
    wanted = [tuple(one[n] for n in columns) for one in begun if (one["microbatches"], one["ran_as"]) in ran]
    there = [tuple(row[name] for name in columns) for row in stamps]
    yield from compared(wanted, there)
    yield from once(there)


def _arm(row: Row) -> tuple[int, str]:
    return row["microbatches"], row["arm"]


def _label(row: Row) -> str:
    return f"{row['arm']}, M={row['microbatches']}, launch {row['launch']}, {row['purpose']}"
