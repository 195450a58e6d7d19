"""time_probes: the sweep, the held-out Programs and the models' chosen probes, in one launch that chooses nothing.

Launches differ by more than the rounds of one, so times from the choosing launches are no match for the sweep.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.probes.probe import Probe, ProbeRole
from overlayccl_core.probes.probe_timings import time_probes
from overlayccl_core.probes.sweep import to_time
from overlayccl_core.program.json_form import loads
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.probing import CHOSEN_PROBES, COMPARED_PROBES
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.timing.partial import forget

BATCH_NAME = "time_probes"
Row = dict[str, Any]


def main(job: RuleJob) -> None:
    """Write the table compared_probes."""
    rows = run(
        load(job.option("deployment")),
        Settings.from_part(job.option("settings")),
        job.read(CAPABILITIES),
        job.read_all(CHOSEN_PROBES),
        job.partial,
        progress=job.say,
        code=job.option("code"),
    )
    job.write({COMPARED_PROBES: rows})
    forget(job.partial, BATCH_NAME, job.all_outputs)


def run(
    deployment: Deployment,
    settings: Settings,
    capabilities: pl.DataFrame,
    chosen: pl.DataFrame,
    partial_dir: Path,
    *,
    progress: Callable[[str], None],
    code: str = "",
) -> list[Row]:
    """Return the rows of `compared_probes`. chosen: `chosen_probes` of all choosing searches."""
    can = Capabilities.from_rows(capabilities.iter_rows(named=True))
    sweep = [one for one in to_time(deployment, settings, can, progress) if one.role is not ProbeRole.BESIDE]
    every = {one.program.digest: one for one in [*_chosen(chosen), *sweep]}
    fixed = {one.program.digest for one in sweep if one.role is not ProbeRole.HELD_OUT}
    by: dict[str, list[str]] = {}
    for program, search in chosen.select("program", "search").unique().sort("program", "search").iter_rows():
        by.setdefault(program, []).append(search)
    seconds = settings.probe.seconds + settings.probing.seconds * chosen["search"].n_unique()
    section = settings.probe.changed(seconds=seconds)
    probes = list(every.values())
    timed = time_probes(
        *(probes, deployment, section, partial_dir), batch_name=BATCH_NAME, code=code, progress=progress
    )
    return [
        row | {"fixed": row["program"] in fixed, "chosen_by": by.get(row["program"], [])} for row in timed
    ]


def _chosen(chosen: pl.DataFrame) -> list[Probe]:
    once = chosen.unique("program", keep="first", maintain_order=True)
    return [
        Probe(name=row["probe"], role=ProbeRole(row["role"]), program=loads(row["program_json"]))
        for row in once.iter_rows(named=True)
    ]
