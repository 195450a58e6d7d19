"""Have measured tables the rows that they ought to have? What was to be measured follows from an archive.

The stages tell: the same functions that make their batches say here which Programs and arms there have to be. So no
row can be left out that speaks against what is deployed, and none is there that nobody asked for. What failed has a
row that says so; in a later launch it is not looked for.
"""

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl

from overlayccl_core.archiving.again import ALL, Planned
from overlayccl_core.archiving.findings import Check, Finding, Outcome, guarded, wrong
from overlayccl_core.configuration import deployment as deployments
from overlayccl_core.configuration import models
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.evidence.decided import Decided, Trained
from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.measuring.job_status import JobStatus
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.probes.sweep import to_time
from overlayccl_core.program.json_form import loads
from overlayccl_core.stages import confirm, train
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.candidate_columns import CANDIDATE_KEY
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.choice import CHOICE
from overlayccl_core.tables.confirmed import CONFIRMED
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.rule_job import RUNNER, RuleJob
from overlayccl_core.tables.shortlist import SHORTLIST
from overlayccl_core.tables.steps import CONFIRMED_STAMPS, CONFIRMED_STEPS, STAMPS, STEPS
from overlayccl_core.tables.table import Table, read
from overlayccl_core.training.arms import Arms
from overlayccl_core.training.left_behind import LAUNCHES, leaving
from overlayccl_core.training.plan import SLOW, StepSettings

CANDIDATE = tuple(column.name for column in CANDIDATE_KEY)
NAMED = 3  # that a message names
NEARLY_SLOW = 0.75 * SLOW  # ranks decided it by their own clocks
Row = Mapping[str, Any]


def complete(folder: Path, plan: Sequence[Planned]) -> Iterator[Finding]:
    """Of each job that measured Programs or arms for `all`, what its tables lack or have too much of."""
    for job in plan:
        if job.target == ALL and job.rule in LOOKED_AT:
            told = _Job(folder, RuleJob.of(job.words[job.words.index(RUNNER) + 1 :]))
            yield from guarded(Check.COMPLETE, job.name, _looked_at(job.name, told, LOOKED_AT[job.rule]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Odd:
    """Something that is not as it ought to be. open: it may be so in an honest run, and no table tells why."""

    message: str
    open: bool = False


def _looked_at(name: str, job: "_Job", look: "Callable[[_Job], Iterator[Odd]]") -> Iterator[Finding]:
    found = list(look(job))
    for one in found:
        if one.open:
            yield Finding(check=Check.COMPLETE, subject=name, outcome=Outcome.COULD_NOT, message=one.message)
        else:
            yield wrong(Check.COMPLETE, name, one.message)
    if not found:
        yield Finding(check=Check.COMPLETE, subject=name, outcome=Outcome.EXACT)


class _Job:
    """What a job was told: the options of its command, and its tables, as an archive's folder has them."""

    def __init__(self, folder: Path, job: RuleJob) -> None:
        self._folder = folder
        self._job = job
        self.option = job.option

    @cached_property
    def deployment(self) -> Deployment:
        return deployments.load(self._folder / self.option("deployment"))

    @cached_property
    def settings(self) -> Settings:
        return Settings.from_part(self.option("settings"))

    def model(self, name: str) -> models.Model:
        return models.load(name, self._folder / models.FOLDER)

    def file(self, name: str, of: str = "") -> Path:
        """The input or output of this name, of several that below a folder that is named so."""
        paths = (*self._job.inputs.get(name, ()), *self._job.outputs.get(name, ()))
        return self._folder / next(path for path in paths if not of or of in path.parts)

    def table(self, table: Table, of: str = "") -> pl.DataFrame:
        return read(table, self.file(table.name, of))

    def rows(self, table: Table, of: str = "") -> list[Row]:
        return list(self.table(table, of).iter_rows(named=True))

    def decided(self) -> dict[str, Decided]:
        return {
            problem: Decided(
                finalists=self.table(FINALISTS, problem),
                choice=self.table(CHOICE, problem),
                module=self.file("chosen", problem).read_text(),
            )
            for problem in self.option("problems").split(",")
        }


# ----------------------------------------------------------------------------------------- Programs of their own
def _probes(job: _Job) -> Iterator[Odd]:
    """Exactly the sweep, fitted and held-out."""
    can = Capabilities.from_rows(job.table(CAPABILITIES).iter_rows(named=True))
    probes = to_time(job.deployment, job.settings, can, lambda _: None)
    wanted = {(probe.name, probe.role.value, probe.program.digest) for probe in probes}
    rows = job.rows(PROBES)
    held = {text: loads(text).digest for text in {row["program_json"] for row in rows}}
    there = {
        (row["probe"], row["role"], digest)
        for row in rows
        for digest in (row["program"], held[row["program_json"]])
    }
    yield from _compared(wanted, there)
    yield from _once((row["probe"], row["launch"]) for row in rows)


def _bench(job: _Job) -> Iterator[Odd]:
    """Exactly the shortlist: each timed, or failed in a way that is told."""

    def program(row: Row) -> tuple[str, ...]:
        return (*(row[name] for name in CANDIDATE), row["program"])

    rows = job.rows(BENCH)
    yield from _compared(map(program, job.rows(SHORTLIST)), map(program, rows))
    yield from _once((*program(row), row["launch"]) for row in rows)


def _confirmed(job: _Job, decided: Mapping[str, Decided]) -> Iterator[Odd]:
    """What no model has, alone, as often as was asked for; an arm that failed before it was timed is in no row."""
    wanted: dict[tuple[str, ...], str] = {}
    for problem, one in decided.items():
        for row, alone in confirm.looked_at(one):
            if alone:
                wanted[problem, *(str(row[name]) for name in (*confirm.HEAD, "program"))] = row["arm"]
    rows = job.rows(CONFIRMED)
    columns = ("problem", *confirm.HEAD, "program")
    seen = Counter(tuple(row[name] for name in columns) for row in rows)
    launches = job.settings.confirm.launches
    yield from _compared(set(), seen.keys() - wanted.keys())
    yield from _once((*(row[name] for name in columns), row["launch"]) for row in rows)
    for program, arm in wanted.items():
        where = " ".join(program[1:])
        if 0 < seen[program] < launches:
            yield Odd(message=f"{where}: {seen[program]} launches, where {launches} were asked for")
        elif not seen[program]:
            may_fail = arm not in (ArmName.DEPLOYED, ArmName.DEVELOPER)  # without these nothing is confirmed
            yield Odd(message=f"{where}: it was not timed; what fails before has no row", open=may_fail)


# ------------------------------------------------------------------------------------------------ training steps
def _trained(job: _Job) -> Iterator[Odd]:
    """The arms that finalists name, in every launch but those that they failed or were left behind in."""
    finalists = {name: job.table(FINALISTS, name) for name in job.option("problems").split(",")}
    arms = train.arms_to_train(job.deployment, job.model(job.option("model")), finalists)
    steps = train.steps_of(job.settings)
    rows = job.rows(STEPS)
    yield from _launches(arms, rows, steps, job.settings.train.launches, narrows=train.NARROWS)
    yield from _stamped(arms, rows, job.rows(STAMPS))


def _confirmed_in_steps(job: _Job) -> Iterator[Odd]:
    """What is deployed and what stands beside it, in every launch of every model."""
    decided = job.decided()
    yield from _confirmed(job, decided)
    timed, stamps = job.rows(CONFIRMED_STEPS), job.rows(CONFIRMED_STAMPS)
    steps = confirm.steps_of(job.settings.confirm)
    asked: list[str] = [str(name) for name in json.loads(job.option("models"))]
    for name in asked:
        before = Trained(steps=job.table(STEPS, name), stamps=job.table(STAMPS, name))
        arms = confirm.arms_beside(job.deployment, decided, job.model(name), before)
        rows = [row for row in timed if row["model"] == name]
        yield from _launches(arms, rows, steps, job.settings.confirm.launches, narrows=False)
        yield from _stamped(arms, rows, [row for row in stamps if row["model"] == name])
    others = {row["model"] for row in (*timed, *stamps)} - set(asked)
    yield from (Odd(message=f"{name}: no such model was asked for") for name in sorted(others))


def _launches(
    arms: Arms, rows: Sequence[Row], steps: StepSettings, launches: int, *, narrows: bool
) -> Iterator[Odd]:
    """Of a model: every arm in every launch, for every purpose, and as many steps as there may be.

    An arm may fail where a disturbed launch is repeated, of which the first is kept: it may be there, or not.
    """
    failed = {_arm(row): row["launch"] for row in rows if row["status"] != JobStatus.TRAINED}
    ran = [row for row in rows if row["status"] == JobStatus.TRAINED]
    first = [row for row in ran if row["launch"] < LAUNCHES]  # by which some are left behind
    names = [(arm.microbatches, arm.name) for arm in arms.arms]
    wanted: set[tuple[Hashable, ...]] = set()
    allowed: set[tuple[Hashable, ...]] = set()
    for number in range(launches):
        began = {one for one in names if failed.get(one, launches) >= number}
        well = {one for one in began if failed.get(one, launches) > number}
        there = [
            some - (leaving(number, some, lambda: first) if narrows else set()) for some in (began, well)
        ]
        for arm in arms.arms:
            one = (arm.microbatches, arm.name)
            of = {(purpose, seed) for purpose in arm.purposes for seed in _seeds(purpose, number, steps)}
            keys = {(*one, number, purpose.value, seed) for purpose, seed in of}
            wanted |= keys if all(one in some for some in there) else set()
            allowed |= keys if any(one in some for some in there) else set()
    columns = ("microbatches", "arm", "launch", "purpose", "seed")
    rows_there = [tuple(row[name] for name in columns) for row in ran]
    yield from _compared(wanted, rows_there, allowed)
    yield from _once(rows_there)
    yield from _counted(ran, steps)


def _seeds(purpose: Purpose, launch: int, steps: StepSettings) -> tuple[int, ...]:
    """Of the courses of an arm in a launch: only the first tells losses and what is left without communication."""
    if purpose is Purpose.TIMED:
        return (launch,)
    if launch:
        return ()
    return steps.loss_seeds if purpose is Purpose.LOSS else (launch,)


def _counted(ran: Iterable[Row], steps: StepSettings) -> Iterator[Odd]:
    """The slow have the fewest steps, all others equally many: pairs of steps are what ratios are of."""
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


def _stamped(arms: Arms, rows: Iterable[Row], stamps: Iterable[Row]) -> Iterator[Odd]:
    """What ran at every site is what was to run there; of what never ran there is nothing."""
    ran = {_arm(row) for row in rows if row["status"] == JobStatus.TRAINED}
    columns = (*dict.fromkeys(name for one in arms.begun for name in one), "library")
    begun = ({**one, "library": arms.deployment.library} for one in arms.begun)
    wanted = [tuple(one[n] for n in columns) for one in begun if (one["microbatches"], one["ran_as"]) in ran]
    there = [tuple(row[name] for name in columns) for row in stamps]
    yield from _compared(wanted, there)
    yield from _once(there)


def _arm(row: Row) -> tuple[int, str]:
    return row["microbatches"], row["arm"]


def _label(row: Row) -> str:
    return f"{row['arm']}, M={row['microbatches']}, launch {row['launch']}, {row['purpose']}"


# ------------------------------------------------------------------------------------------------------- of sets
def _compared(
    wanted: Iterable[tuple[Any, ...]],
    there: Iterable[tuple[Any, ...]],
    allowed: Iterable[tuple[Any, ...]] = (),
) -> Iterator[Odd]:
    """allowed: besides what is wanted."""
    wanted, there = set(wanted), set(there)
    if lacking := wanted - there:
        yield Odd(message=f"no row of {_named(lacking)}, which ought to have been measured")
    if more := there - wanted - set(allowed):
        yield Odd(message=f"rows of {_named(more)}, which nobody asked for")


def _once(there: Iterable[tuple[Any, ...]]) -> Iterator[Odd]:
    if twice := {one for one, count in Counter(there).items() if count > 1}:
        yield Odd(message=f"more than one row of {_named(twice)}")


def _named(those: Iterable[tuple[Any, ...]]) -> str:
    told = sorted(" ".join(map(str, one)) for one in those)
    more = f" and {len(told) - NAMED} more" if len(told) > NAMED else ""
    return f"{', '.join(told[:NAMED])}{more}"


LOOKED_AT: dict[str, Callable[[_Job], Iterator[Odd]]] = {
    "probe": _probes,
    "bench": _bench,
    "train": _trained,
    "confirm": _confirmed_in_steps,
}
