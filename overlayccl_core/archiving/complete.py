"""Completeness of measured tables: they must have exactly the rows expected from the archive's configuration.

Stages make their batches with certain functions; the same functions list the expected Programs and arms here. So
nobody can drop a row against a deployed Program, or add one. A failure has a row with its status; the job is not
expected in later launches.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from overlayccl_core.archiving.findings import Check, Finding, could_not, guarded, judged, wrong
from overlayccl_core.archiving.replay import Planned
from overlayccl_core.archiving.rows import Odd, Row, compared, launches, once, stamped
from overlayccl_core.configuration import deployment, models
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.evidence.choices import ProblemChoice, TrainingTables, choices_of
from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.probes.sweep import to_time
from overlayccl_core.program.json_form import loads
from overlayccl_core.rule import ALL
from overlayccl_core.stages import confirm, train
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.candidate_columns import CANDIDATE_KEY
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.confirmed import CONFIRMED
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.rule_job import RUNNER, RuleJob
from overlayccl_core.tables.shortlist import SHORTLIST
from overlayccl_core.tables.steps import CONFIRMED_STAMPS, CONFIRMED_STEPS, STAMPS, STEPS
from overlayccl_core.tables.table import Table

CANDIDATE = (*(column.name for column in CANDIDATE_KEY), "program")
ALONE = ("problem", *confirm.HEAD, "program")


def complete(folder: Path, plan: Sequence[Planned]) -> Iterator[Finding]:
    """Check the tables of each job that measured Programs or arms for `all`: missing rows, and rows too many."""
    for planned in plan:
        job = _archived(folder, planned)
        if planned.target != ALL or job.rule in UNLISTED:
            continue
        if job.rule in RULES:
            odd = RULES[job.rule](job, folder)
            yield from guarded(Check.COMPLETE, planned.name, _looked_at(planned.name, odd))
        elif planned.alone:
            yield could_not(Check.COMPLETE, planned.name, f"{Path(__file__).name} does not list its rows")


def _archived(folder: Path, planned: Planned) -> RuleJob:
    """Return a job whose inputs are the archive's files, those that it wrote among them."""
    told = RuleJob.of(planned.words[planned.words.index(RUNNER) + 1 :])
    named = {**told.inputs, **told.outputs}.items()
    return replace(told, inputs={name: [folder / path for path in paths] for name, paths in named})


def _looked_at(name: str, odd: Iterator[Odd]) -> Iterator[Finding]:
    found = list(odd)
    for one in found:
        yield (could_not if one.open else wrong)(Check.COMPLETE, name, one.message)
    if not found:
        yield judged(Check.COMPLETE, name)


def _rows(job: RuleJob, table: Table) -> list[Row]:
    return list(job.read(table).iter_rows(named=True))


def _probe(job: RuleJob, folder: Path) -> Iterator[Odd]:
    """Expect exactly the sweep, fitted and held-out."""
    can = Capabilities.from_rows(_rows(job, CAPABILITIES))
    here, settings = deployment.load(folder / job.option("deployment")), _settings(job)
    probes = to_time(here, settings, can, lambda _: None)
    wanted = {(probe.name, probe.role.value, probe.program.digest) for probe in probes}
    rows = _rows(job, PROBES)
    held = {text: loads(text).digest for text in {row["program_json"] for row in rows}}
    there = {
        (row["probe"], row["role"], digest)
        for row in rows
        for digest in (row["program"], held[row["program_json"]])
    }
    yield from compared(wanted, there)
    yield from once((row["probe"], row["launch"]) for row in rows)


def _bench(job: RuleJob, _: Path) -> Iterator[Odd]:
    """Expect exactly the shortlist: each timed, or with a failure."""
    rows = _rows(job, BENCH)
    yield from compared(_cells(_rows(job, SHORTLIST), CANDIDATE), _cells(rows, CANDIDATE))
    yield from once(_cells(rows, (*CANDIDATE, "launch")))


def _train(job: RuleJob, folder: Path) -> Iterator[Odd]:
    """Expect the arms named by finalists in every launch until they fail or are left behind."""
    finalists = {name: job.read(FINALISTS, name) for name in job.problems}
    model = models.load(job.option("model"), folder / models.FOLDER)
    arms = train.arms_to_train(deployment.load(folder / job.option("deployment")), model, finalists)
    settings, rows = _settings(job), _rows(job, STEPS)
    yield from launches(arms, rows, train.steps_of(settings), settings.train.launches, narrows=train.NARROWS)
    yield from stamped(arms, rows, _rows(job, STAMPS))


def _confirm(job: RuleJob, folder: Path) -> Iterator[Odd]:
    """Expect the deployed arms and those beside them, in every launch of every model."""
    decided, settings = choices_of(job), _settings(job).confirm
    yield from _alone(_rows(job, CONFIRMED), decided, settings.launches)
    timed, stamps = _rows(job, CONFIRMED_STEPS), _rows(job, CONFIRMED_STAMPS)
    here = deployment.load(folder / job.option("deployment"))
    before = TrainingTables(steps=job.read_all(STEPS), stamps=job.read_all(STAMPS))
    asked: list[str] = json.loads(job.option("models"))
    for name in asked:
        arms = confirm.arms_beside(here, decided, models.load(name, folder / models.FOLDER), before, settings)
        rows = [row for row in timed if row["model"] == name]
        yield from launches(arms, rows, confirm.steps_of(settings), settings.launches, narrows=False)
        yield from stamped(arms, rows, [row for row in stamps if row["model"] == name])
    others = {row["model"] for row in (*timed, *stamps)} - set(asked)
    yield from (Odd(message=f"{name}: no such model was asked for") for name in sorted(others))


def _alone(rows: Sequence[Row], decided: Mapping[str, ProblemChoice], launches: int) -> Iterator[Odd]:
    """Expect Cases outside all models, timed alone in every launch; arms that fail before timing have no row."""
    wanted: dict[tuple[str, ...], str] = {}
    for problem, one in decided.items():
        for row, alone in confirm.rows_to_time(one):
            if alone:
                wanted[(problem, *(row[name] for name in ALONE[1:]))] = row["arm"]
    seen = Counter(_cells(rows, ALONE))
    yield from compared(set(), seen.keys() - wanted.keys())
    yield from once(_cells(rows, (*ALONE, "launch")))
    for program, arm in wanted.items():
        where = " ".join(program[1:])
        if 0 < seen[program] < launches:
            yield Odd(message=f"{where}: {seen[program]} launches, where {launches} were asked for")
        elif not seen[program]:
            may_fail = arm not in (ArmName.DEPLOYED, ArmName.DEVELOPER)  # without these nothing is confirmed
            yield Odd(message=f"{where}: it was not timed; what fails before has no row", open=may_fail)


def _settings(job: RuleJob) -> Settings:
    return Settings.from_part(job.option("settings"))


def _cells(rows: Sequence[Row], columns: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return (tuple(row[name] for name in columns) for row in rows)


RULES: Mapping[str, Callable[[RuleJob, Path], Iterator[Odd]]] = dict(
    probe=_probe, bench=_bench, train=_train, confirm=_confirm
)
UNLISTED = {  # the other rules of `all` with ranks, and why nothing lists their rows
    "selftest": "what the library refuses, and by what, only the machine tells",
    "segments": "only the ranks tell the segments of a model",
    "trial": "its rows only decide what a language model is asked again",
}
