"""time_payloads: all proven known ways of a Problem at payloads from small to large, in fresh launches."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from overlayccl_core import catalog
from overlayccl_core.backends.backend import backend_of
from overlayccl_core.backends.measured import Job, TimingSettings
from overlayccl_core.configuration.cases import cases_of_payloads
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.sections import SweepPayloadSection
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.measuring.progress import part_of
from overlayccl_core.program.problem import Direction
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.sweep_payload import TIMED_PAYLOADS
from overlayccl_core.timing.batch import TimingBatch, time_programs
from overlayccl_core.timing.partial import forget
from overlayccl_core.tuning.space import space_of

BATCH_NAME = "time_payloads"
Row = dict[str, Any]


def main(job: RuleJob) -> None:
    """Write the table timed_payloads."""
    rows = run(
        load(job.option("deployment")),
        Settings.from_part(job.option("settings")).sweep_payload,
        Capabilities.from_rows(job.read(CAPABILITIES).iter_rows(named=True)),
        job.partial,
        progress=job.say,
        code=job.option("code"),
    )
    job.write({TIMED_PAYLOADS: rows})
    forget(job.partial, f"{BATCH_NAME}-*", job.all_outputs)


def run(
    deployment: Deployment,
    section: SweepPayloadSection,
    capabilities: Capabilities | None,
    partial_dir: Path,
    *,
    progress: Callable[[str], None],
    code: str = "",
) -> list[Row]:
    """Return the rows of `timed_payloads`, at each Case the developer's way first."""
    emit = backend_of(deployment).emit
    jobs: list[Job] = []
    heads: dict[str, Row] = {}
    for case in cases_of_payloads(section, deployment):
        ways = space_of(catalog.build(case), capabilities, deployment.memory_budget_bytes)
        progress(f"{case.id}: {len(ways)} proven ways")
        for way in ways:
            key = f"{case.id} {way.name}"
            jobs.append(Job(key=key, program=way.program, source=emit(way.program)))
            heads[key] = {
                "problem": case.problem,
                "case": case.id,
                "direction": Direction.FORWARD.value,
                "candidate": way.name,
                "recipe": way.recipe.dumps(),
                **{name: getattr(way, name) for name in ("family", "parts", "numerics")},
            }
    programs = {job.key: job.program for job in jobs}
    rows: list[Row] = []
    for number in range(section.launches):
        batch = TimingBatch(
            jobs=jobs,
            deployment=deployment,
            settings=TimingSettings.of(section, seed=number),
            partial_dir=partial_dir,
            batch_name=f"{BATCH_NAME}-{number}",
            code=code,
        )
        timed = time_programs(batch, part_of(progress, f"{number + 1} of {section.launches}"))
        before = rows[-1]["launch"] + 1 if rows else 0
        rows += [
            {**heads[one.key], **one.columns(programs[one.key]), "launch": before + one.launch}
            for one in sorted(timed, key=lambda one: one.launch)
        ]
    return rows
