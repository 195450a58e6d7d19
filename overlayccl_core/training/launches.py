"""Training launches: the arms of a model on real ranks, several launches, rows of the tables steps and stamps.

Finished launches are kept in <partial>/<rule>-<key>/launch-<k>.json until the rule's tables are written, so that an
interrupted run goes on where it stopped. This file imports no torch: ranks do.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from overlayccl_core.backends.machine_lock import machine_lock
from overlayccl_core.backends.measured import FOREIGN_CPU_LIMIT
from overlayccl_core.backends.partial import KEY_DIGITS
from overlayccl_core.backends.torchdist.launch import Launch, launch
from overlayccl_core.configuration.models import Model
from overlayccl_core.measuring.progress import Step, tell
from overlayccl_core.program.program import Program
from overlayccl_core.training.plan import (
    MODULES,
    Arm,
    ArmSite,
    Found,
    Inspection,
    StepSettings,
    TrainingPlan,
    read_found,
)

WORKER = "overlayccl_core.training.worker"
STEP_TIMEOUT_S = 120.0
COUNTS = ("matmuls", "matmul_digest", "collectives", "stamps", "peak_activation_bytes")
Row = dict[str, Any]
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What is trained: arms of a model on the ranks of a deployment. sources: module's name -> its text."""

    model: Model
    arms: tuple[Arm, ...]
    sources: Mapping[str, str]
    ranks: int
    library: str
    fingerprint: str
    settings: StepSettings
    launches: int

    def key(self, code: str) -> str:
        """Digest of everything that decides what the figures mean."""
        parts = (
            asdict(self.model),
            [asdict(arm) for arm in self.arms],
            sorted(self.sources.items()),
            (self.ranks, self.library, self.fingerprint, code),
            asdict(self.settings),
        )
        return hashlib.blake2b(
            json.dumps(parts, sort_keys=True).encode(), digest_size=KEY_DIGITS // 2
        ).hexdigest()


def module_name(digest: str) -> str:
    """Where a module of a Program stands in a launch's folder."""
    return f"{MODULES}/program_{digest}.py"


def train(training: Training, partial_dir: Path, rule: str, code: str, progress: Progress) -> list[Row]:
    """The rows of `steps` (without model's name): one per arm, purpose and seed of every launch.

    LaunchError (a ValueError) names rank and arm if ranks die or hang.
    """
    folder = Path(partial_dir) / f"{rule}-{training.key(code)}"
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    with machine_lock(progress):
        for number in range(training.launches):
            kept = folder / f"launch-{number}.json"
            if kept.exists():
                progress(
                    f"using launch {number + 1} of {training.launches} of a run that was cut off after it"
                )
            else:
                found = _launch_quietly(training, folder, number, progress)
                temporary = kept.with_suffix(".tmp")
                temporary.write_text(json.dumps(found))
                temporary.replace(kept)
            rows += json.loads(kept.read_text())
    return _with_counts(rows)


def _with_counts(rows: Sequence[Row]) -> list[Row]:
    """What the first launch counted in a step of an arm holds for all of its rows: the step is the same."""
    counted = {(row["microbatches"], row["arm"]): row for row in rows if row["matmuls"] is not None}
    return [
        {**row, **{name: counted[row["microbatches"], row["arm"]][name] for name in COUNTS}} for row in rows
    ]


def _launch_quietly(training: Training, folder: Path, number: int, progress: Progress) -> list[Row]:
    """One launch; once more if others took too much of the CPU, and then the less disturbed one."""
    rows = _launch(training, folder, number, progress)
    if not rows[0]["disturbed"]:
        return rows
    progress(f"others took {rows[0]['foreign_cpu_share']:.0%} of the CPU: launching once more")
    again = _launch(training, folder, number, progress)
    return min(rows, again, key=lambda found: found[0]["foreign_cpu_share"])


def _launch(training: Training, folder: Path, number: int, progress: Progress) -> list[Row]:
    work = folder / f"launch-{number}"
    if work.exists():
        shutil.rmtree(work)
    settings = training.settings if number == 0 else replace(training.settings, loss_seeds=())
    plan = TrainingPlan(
        launch=number,
        ranks=training.ranks,
        library=training.library,
        model=training.model,
        settings=settings,
        arms=training.arms,
    )
    plan.write(work, training.sources)
    progress(f"launch {number + 1} of {training.launches}: {len(plan.arms)} arms on {plan.ranks} ranks")
    phase = f"{len(plan.arms)} arms on {plan.ranks} ranks"
    tell(progress, Step(phase=phase, unit="launch", done=number, total=training.launches))
    try:
        outcome = launch(
            Launch(
                worker=WORKER,
                folder=work,
                ranks=plan.ranks,
                names=tuple(arm.label for arm in plan.arms),
                step_timeout_s=STEP_TIMEOUT_S,
            )
        )
        share = outcome.foreign_cpu_share
        return rows_of(plan, read_found(work, plan.ranks), share, training.fingerprint)
    finally:
        shutil.rmtree(work)


def rows_of(
    plan: TrainingPlan, found: Sequence[Sequence[Found]], foreign_cpu_share: float, fingerprint: str
) -> list[Row]:
    """Rows from what the ranks found: [rank][entry]. A step lasts from the last rank's start to the last's end.

    The ranks' clocks are one: a launch is on one host (`backends.torchdist.launch`).
    """
    rows = []
    for entries in zip(*found, strict=True):
        first = entries[0]
        starts = np.array([one.starts_ns for one in entries])
        ends = np.array([one.ends_ns for one in entries])
        us = ((ends.max(0) - starts.max(0)) / 1e3).tolist()
        arm, seen = plan.arms[first.arm], first.inspection
        validation = [one.validation_loss for one in entries if one.validation_loss is not None]
        rows.append(
            {
                "model": plan.model.name,
                "microbatches": arm.microbatches,
                "arm": arm.name,
                "purpose": first.purpose.value,
                "seed": first.seed,
                "launch": plan.launch,
                "cold_us": us[: first.cold],
                "steps_us": us[first.cold :],
                "losses": np.array([one.losses for one in entries]).mean(0).tolist(),
                "validation_loss": float(np.mean(validation)) if validation else None,
                "gradient_rel_error": seen.gradient_rel_error if seen else None,
                "matmuls": seen.matmuls if seen else None,
                "matmul_digest": seen.matmul_digest if seen else None,
                "collectives": seen.collectives if seen else None,
                "stamps": _stamps(seen) if seen else {},
                "peak_activation_bytes": seen.peak_activation_bytes if seen else None,
                "oversubscribed": plan.ranks > len(os.sched_getaffinity(0)),
                "foreign_cpu_share": foreign_cpu_share,
                "disturbed": foreign_cpu_share > FOREIGN_CPU_LIMIT,
                "fingerprint": fingerprint,
            }
        )
    return rows


def _stamps(seen: Inspection) -> dict[str, Row]:
    """site -> what its module says ran there."""
    calls = dict(seen.calls)
    return {
        site: {"program": digest, "library_version": seen.library_version, "calls": calls[site]}
        for site, digest in seen.programs
    }


def arm_site(site: str, program: Program, members: tuple[tuple[int, ...], ...]) -> ArmSite:
    """The emitted module of a Program at a site, as the ranks find it."""
    return ArmSite(
        site=site,
        module=module_name(program.digest),
        members=members,
        shapes=tuple((port, spec.shape) for port, spec in program.problem.outputs.items()),
    )
