"""time_ways: all proven ways of single calls, timed in rounds of one launch, and the fastest again in a second."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.backends.measured import Job, TimingSettings
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.program.case import Case
from overlayccl_core.program.problem import Direction
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.tune import TIMED_WAYS
from overlayccl_core.timing.batch import TimingBatch, time_programs
from overlayccl_core.timing.partial import forget
from overlayccl_core.tuning.open_ways import Space, arms_of, cases_to_tune, spaces_of
from overlayccl_core.tuning.recorded import RecordedCall
from overlayccl_core.tuning.space import OpenWay

FIRST, AGAIN = "time_ways", "time_ways_again"
"""Batches: of all ways, and of the fastest."""
Row = dict[str, Any]


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
    for batch_name in (FIRST, AGAIN):
        forget(job.partial, batch_name, job.all_outputs)


def run(
    deployment: Deployment,
    settings: Settings,
    capabilities: Capabilities | None,
    partial_dir: Path,
    *,
    progress: Callable[[str], None],
    code: str = "",
) -> list[Row]:
    """Return the rows of `timed_ways`. ValueError if no call is configured, or none has another way."""
    space = spaces_of(cases_to_tune(settings, deployment), deployment, capabilities)
    if not space:
        raise ValueError(
            f"tune: on {deployment.name} no call has another proven way, so there is nothing to tune"
        )
    for case, ways in space.items():
        progress(f"{case.id}: {len(ways)} proven ways")
    emit = backend_of(deployment).emit

    def timed(space: Space, section: Any, batch_name: str) -> list[Row]:
        placed = {f"{case.id} {way.name}": (case, way) for case, ways in space.items() for way in ways}
        batch = TimingBatch(
            jobs=[
                Job(key=key, program=way.program, source=emit(way.program))
                for key, (_, way) in placed.items()
            ],
            deployment=deployment,
            settings=TimingSettings.of(section),
            partial_dir=partial_dir,
            batch_name=batch_name,
            code=code,
        )
        return [
            _head(*placed[one.key]) | one.columns(placed[one.key][1].program)
            for one in time_programs(batch, progress)
        ]

    rows = [row | {"again": False} for row in timed(space, settings.tune, FIRST)]
    fastest = {case: _fastest(case, ways, rows) for case, ways in space.items()}
    progress(f"{sum(map(len, fastest.values()))} ways again: each call's own and its fastest others")
    after = 1 + max(row["launch"] for row in rows)
    for row in timed(fastest, settings.tune.again, AGAIN):
        rows.append(row | {"again": True, "launch": after + row["launch"]})
    return rows


def _head(case: Case, way: OpenWay) -> Row:
    return {
        "problem": case.problem,
        "case": case.id,
        "direction": Direction.FORWARD.value,
        "candidate": way.name,
        "recipe": way.recipe.dumps(),
        **{name: getattr(way, name) for name in ("family", "parts", "numerics")},
    }


def _fastest(case: Case, ways: Sequence[OpenWay], rows: list[Row]) -> list[OpenWay]:
    """Return the ways of a call that are timed again. rows: of the first launch."""
    recorded = RecordedCall.of(arms_of(ways), (row for row in rows if row["case"] == case.id))
    return [ways[way] for way in recorded.to_time_again]
