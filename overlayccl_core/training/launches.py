"""Training launches: the arms of a model on real ranks, several launches, rows of the tables steps and stamps.

Finished launches are kept (`timing/launch_store.py`) until the rule's tables are written, so an interrupted run
resumes. A finalist failing (crash, hang, exception) also when alone is in no further launch. Only ranks import
torch.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from overlayccl_core.backends.backend import backend_of, oversubscribed
from overlayccl_core.backends.measured import FOREIGN_CPU_LIMIT
from overlayccl_core.backends.plan import MODULES
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.models import Model
from overlayccl_core.launching.launch import Launch
from overlayccl_core.launching.node_report import LaunchClock, NodeReport, doubts
from overlayccl_core.locks import machine_lock
from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.measuring.job_status import JobStatus
from overlayccl_core.measuring.progress import ProgressStep, tell
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.program.program import Program
from overlayccl_core.timing.failed_jobs import Failed, FailedJobs, without_failed
from overlayccl_core.timing.launch_store import KeptLaunches
from overlayccl_core.timing.partial import Evidence, key
from overlayccl_core.timing.reporting import Reporter
from overlayccl_core.training.left_behind import leaving
from overlayccl_core.training.plan import (
    Arm,
    ArmSite,
    Inspection,
    RankRecord,
    StepSettings,
    TrainingPlan,
    read_records,
)

WORKER = "overlayccl_core.training.worker"
STEP_TIMEOUT_S = 120.0
COUNTS = ("matmuls", "matmul_digest", "collectives", "stamps", "peak_memory_bytes")
Row = dict[str, Any]
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The training of a model's arms on the ranks of a deployment.

    Attributes:
        launches: How many, at most.
        narrows: Whether later launches drop arms that the first ones found far behind (`left_behind`).
        enough: Whether the rows of the launches so far suffice; None: all launches are made.
    """

    model: Model
    arms: tuple[Arm, ...]
    sources: Mapping[str, str]  # module's name -> its text
    deployment: Deployment
    fingerprint: str
    settings: StepSettings
    launches: int
    narrows: bool = False
    enough: Callable[[Sequence[Row]], bool] | None = None

    @property
    def times(self) -> bool:
        """Whether any steps are timed; untimed launches may be disturbed."""
        return any(Purpose.TIMED in arm.purposes for arm in self.arms)

    def key(self, code: str) -> str:
        """Return the digest of everything with an effect on the figures."""
        return key(
            self.model.identity(),
            [asdict(arm) for arm in self.arms],
            sorted(self.sources.items()),
            (self.deployment.ranks, self.deployment.library, self.fingerprint, code),
            asdict(self.settings),
            self.narrows,
        )


def module_name(digest: str) -> str:
    """Return the path of a Program's module in a launch's folder."""
    return f"{MODULES}/program_{digest}.py"


def train(training: Training, partial_dir: Path, batch_name: str, code: str, progress: Progress) -> list[Row]:
    """Train the arms and return rows of `steps`: one per arm, purpose and seed of every launch, and per failed arm.

    Raises:
        LaunchError: Ranks die or hang in the developer's arm. This ValueError names rank, arm and the file of the
            traceback.
    """
    folder = Path(partial_dir) / f"{batch_name}-{training.key(code)}"
    batch = _TrainingBatch(training, folder, Evidence.beside(partial_dir, batch_name), progress)
    with machine_lock(progress):
        return batch.finish()


class _TrainingBatch:
    """The launches of a model."""

    def __init__(self, training: Training, folder: Path, evidence: Evidence, progress: Progress) -> None:
        self.training = training
        self.kept = KeptLaunches(folder, evidence, progress)
        self.progress = progress
        developers = {arm.label for arm in training.arms if arm.name == ArmName.DEVELOPER}
        self.failed = FailedJobs(folder, progress, needed=developers)

    def finish(self) -> list[Row]:
        """Return the rows of all launches, new or kept, and of the failed arms."""
        rows: list[Row] = []
        for number in range(self.training.launches):
            rows += self._rows(number)
            if self.training.enough is not None and self.training.enough(rows):
                break
        failed = [
            self._failed_row(arm, self.failed[arm.label], shared=any(row["oversubscribed"] for row in rows))
            for arm in self.training.arms
            if arm.label in self.failed
        ]
        timed = [row for row in rows if row["steps_us"]]
        for said in doubts(
            [LaunchClock(row["nodes"], row["clock_off_by_us"], min(row["steps_us"])) for row in timed]
        ):
            self.progress(said)
        return [*_with_counts(rows), *failed]

    def _rows(self, number: int) -> list[Row]:
        """The rows of one launch, without the arms failing in it."""
        return without_failed(
            lambda: self._quiet_rows(number),
            lambda label: self._alone(number, label),
            self.failed,
            launch=number,
        )

    def _quiet_rows(self, number: int) -> list[Row]:
        """The rows of a launch, or of the less disturbed of two if others took too much CPU; [] if all arms failed.

        Once the second is disturbed too, later launches are not repeated: the other load will stay.
        """
        if all(arm.label in self.failed for arm in self.training.arms):
            return []
        kept = self.kept.attempts(number)
        if kept:
            of = f"{number + 1} of {self.training.launches}"
            self.progress(f"using launch {of} of a run that was cut off after it")
        else:
            self._launch(number)
        repeats = self.training.times and not any(map(self.kept.disturbed_twice, range(number)))
        if repeats and self.kept.disturbed_once(number):
            self._launch(number)
        return list(self.kept.least_disturbed(number).rows)

    def _launch(self, number: int) -> None:
        """Run one launch; keep it if it ends well."""
        arms = self._running(number)
        head = f"{len(arms)} arms on {self.training.deployment.ranks} ranks"
        tell(
            self.progress, ProgressStep(phase=head, unit="launch", done=number, total=self.training.launches)
        )
        self._train(number, arms, f"launch-{number}.{self.kept.next_attempt(number)}", keep=True)

    def _running(self, number: int) -> tuple[Arm, ...]:
        """The arms of a launch, without failed ones and those left behind by the first launches."""
        well = [arm for arm in self.training.arms if arm.label not in self.failed]
        names = {(arm.microbatches, arm.name) for arm in well}
        left = leaving(number, names, self._rows_before) if self.training.narrows else set()
        return tuple(arm for arm in well if (arm.microbatches, arm.name) not in left)

    def _rows_before(self, launch: int) -> Iterator[Row]:
        for number in range(launch):
            yield from self.kept.least_disturbed(number).rows

    def _alone(self, number: int, label: str) -> None:
        """Run one arm in a launch of its own and keep nothing; the only arm of a training runs as usual."""
        if len(self.training.arms) == 1:
            self._launch(number)
            return
        arms = tuple(arm for arm in self.training.arms if arm.label == label)
        self._train(number, arms, "alone")

    def _train(self, number: int, arms: tuple[Arm, ...], name: str, *, keep: bool = False) -> None:
        """Train arms in a launch with a folder of that name; with `keep`, keep its rows before it is removed.

        The first launch inspects the arms and compares their losses. When it is repeated, what it found stays.
        """
        training, earlier = self.training, self.kept.attempts(number)
        inspects = number == 0 and not earlier
        settings = training.settings if inspects else replace(training.settings, loss_seeds=())
        plan = TrainingPlan(
            launch=number,
            ranks=training.deployment.ranks,
            model=training.model,
            settings=settings,
            arms=arms,
            inspects=inspects,
        )
        head = f"launch {number + 1} of {training.launches}"
        # the ranks decide how many timed steps fit
        steps = None if training.times else settings.loss_steps
        reporter = Reporter(head, lambda: steps, self.progress)
        with self.kept.at_work(name) as work:
            plan.write(work, training.sources)
            started = Launch(
                worker=WORKER,
                folder=work,
                ranks=plan.ranks,
                names=tuple(arm.label for arm in arms),
                step_timeout_s=STEP_TIMEOUT_S,
            )
            share = backend_of(training.deployment).train(training.deployment, started, reporter.watch)
            told = NodeReport.read(work)
            rows = rows_of(
                plan,
                read_records(work, plan.ranks),
                share,
                training.fingerprint,
                oversubscribed=oversubscribed(training.deployment, told),
                told=told,
            )
            if keep:
                self.kept.keep(work, _with_found(rows, earlier[0].rows) if earlier and number == 0 else rows)

    def _failed_row(self, arm: Arm, failed: Failed, *, shared: bool) -> Row:
        """The row of a failed arm, without steps. shared: whether the other arms' ranks shared cores."""
        return {
            **_head(self.training.model, arm, Purpose.TIMED, failed.launch, failed.launch),
            **{"cold_us": [], "steps_us": [], "losses": [], "validation_loss": None},
            **_inspected(()),
            "oversubscribed": shared,
            "foreign_cpu_share": None,
            "disturbed": False,
            **NodeReport().columns,
            "fingerprint": self.training.fingerprint,
            "status": failed.status.value,
            "message": failed.message,
        }


def _with_found(rows: Sequence[Row], first: Sequence[Row]) -> list[Row]:
    """Complete the rows of a repeat by what the first attempt found: counts, gradients, and the rows of losses.

    Only times need a quiet machine, so the rows of losses say of the machine what the repeat's do.
    """
    found = {_which(row): {name: row[name] for name in (*COUNTS, "gradient_rel_error")} for row in first}
    timed = [{**row, **found.get(_which(row), {})} for row in rows]
    arms = {(row["microbatches"], row["arm"]) for row in rows}
    conditions = {name: rows[0][name] for name in ("foreign_cpu_share", "disturbed")}
    losses = [row for row in first if row["purpose"] == Purpose.LOSS]
    return [*timed, *({**row, **conditions} for row in losses if (row["microbatches"], row["arm"]) in arms)]


def _which(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("microbatches", "arm", "purpose", "seed"))


def _with_counts(rows: Sequence[Row]) -> list[Row]:
    """Copy an arm's counts from the first launch into all its rows: the step is the same."""
    counted = {(row["microbatches"], row["arm"]): row for row in rows if row["matmuls"] is not None}
    return [
        {**row, **{name: counted[row["microbatches"], row["arm"]][name] for name in COUNTS}} for row in rows
    ]


def _head(model: Model, arm: Arm, purpose: Purpose, seed: int, launch: int) -> Row:
    """The first columns of a row of `steps`."""
    of_arm = {"model": model.name, "microbatches": arm.microbatches, "arm": arm.name}
    return {**of_arm, "purpose": purpose.value, "seed": seed, "launch": launch}


def rows_of(
    plan: TrainingPlan,
    records: Sequence[Sequence[RankRecord]],
    foreign_cpu_share: float,
    fingerprint: str,
    *,
    oversubscribed: bool,
    told: NodeReport,
) -> list[Row]:
    """Build rows from the ranks' records, [rank][entry].

    A step lasts from the last rank's start to the last rank's end, on the launch's clock.
    """
    rows = []
    for entries in zip(*records, strict=True):
        first = entries[0]
        starts = np.array([one.starts_ns for one in entries])
        ends = np.array([one.ends_ns for one in entries])
        us = ((ends.max(0) - starts.max(0)) / 1e3).tolist()
        inspections = [one.inspection for one in entries if one.inspection is not None]
        validation = [one.validation_loss for one in entries if one.validation_loss is not None]
        rows.append(
            {
                **_head(plan.model, plan.arms[first.arm], first.purpose, first.seed, plan.launch),
                "cold_us": us[: first.cold],
                "steps_us": us[first.cold :],
                "losses": np.array([one.losses for one in entries if one.losses]).T.tolist(),
                "validation_loss": float(np.mean(validation)) if validation else None,
                **_inspected(inspections),
                "oversubscribed": oversubscribed,
                "foreign_cpu_share": foreign_cpu_share,
                "disturbed": foreign_cpu_share > FOREIGN_CPU_LIMIT,
                **told.columns,
                "fingerprint": fingerprint,
                "status": JobStatus.TRAINED.value,
                "message": "",
            }
        )
    return rows


def _inspected(ranks: Sequence[Inspection]) -> Row:
    """A step's counts: the largest over ranks (they may compute different things), one digest of all products."""
    if not ranks:
        return {"gradient_rel_error": None, **dict.fromkeys(COUNTS), "stamps": {}}
    digests = [one.matmul_digest for one in ranks]
    return {
        "gradient_rel_error": max(one.gradient_rel_error for one in ranks),
        "matmuls": max(one.matmuls for one in ranks),
        "matmul_digest": hashlib.blake2b(repr(digests).encode(), digest_size=8).hexdigest(),
        "collectives": max(one.collectives for one in ranks),
        "stamps": _stamps(ranks[0]),
        "peak_memory_bytes": max(
            (one.peak_memory_bytes for one in ranks if one.peak_memory_bytes is not None), default=None
        ),
    }


def _stamps(seen: Inspection) -> dict[str, Row]:
    """site -> Program, library and calls, as reported by its module."""
    calls = dict(seen.calls)
    return {
        site: {"program": digest, "library_version": seen.library_version, "calls": calls[site]}
        for site, digest in seen.programs
    }


def arm_site(
    site: str, program: Program, members: tuple[tuple[int, ...], ...], deployed: str | None = None
) -> ArmSite:
    """Return the ArmSite of a Program's emitted module, or of the `deployed` file containing it."""
    return ArmSite(
        site=site,
        direction=program.problem.direction,
        module=deployed or module_name(program.digest),
        case=program.problem.case.id,
        deployed=deployed is not None,
        early=program.starts_early,
        members=members,
        shapes=tuple((port, spec.shape) for port, spec in program.problem.outputs.items()),
    )
