"""time_ways: all proven ways of single calls, timed in rounds of one launch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.backends.measured import Job, TimingSettings
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.program.problem import Direction
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.tune import TIMED_WAYS
from overlayccl_core.timing.batch import TimingBatch, time_programs
from overlayccl_core.timing.partial import forget
from overlayccl_core.tuning.open_ways import cases_to_tune, spaces_of

BATCH_NAME = "time_ways"


def main(job: RuleJob) -> None:
    """Write the table timed_ways."""
    rows = run(
        load(job.option("deployment")),
        Settings.from_part(job.option("settings")),
        Capabilities.from_rows(job.read(CAPABILITIES).iter_rows(named=True)),
        job.partial,
        progress=job.say,
        code=job.option("code"),
    )
    job.write({TIMED_WAYS: rows})
    forget(job.partial, BATCH_NAME, job.all_outputs)


def run(
    deployment: Deployment,
    settings: Settings,
    capabilities: Capabilities | None,
    partial_dir: Path,
    *,
    progress: Callable[[str], None],
    code: str = "",
) -> list[dict[str, Any]]:
    """Return the rows of `timed_ways`. ValueError if no call is configured, or none has another way."""
    space = spaces_of(cases_to_tune(settings, deployment), deployment, capabilities)
    if not space:
        raise ValueError(
            f"tune: on {deployment.name} no call has another proven way, so there is nothing to tune"
        )
    emit = backend_of(deployment).emit
    jobs, heads = [], {}
    for case, ways in space.items():
        progress(f"{case.id}: {len(ways)} proven ways")
        for way in ways:
            key = f"{case.id} {way.name}"
            jobs.append(Job(key=key, program=way.program, source=emit(way.program)))
            place = {"problem": case.problem, "case": case.id, "direction": Direction.FORWARD.value}
            about = {name: getattr(way, name) for name in ("family", "parts", "numerics")}
            heads[key] = {**place, "candidate": way.name, "recipe": way.recipe.dumps(), **about}, way.program
    batch = TimingBatch(
        jobs=jobs,
        deployment=deployment,
        settings=TimingSettings.of(settings.tune),
        partial_dir=partial_dir,
        batch_name=BATCH_NAME,
        code=code,
    )
    timed = [(one, *heads[one.key]) for one in time_programs(batch, progress)]
    return [{**head, **one.columns(program)} for one, head, program in timed]
