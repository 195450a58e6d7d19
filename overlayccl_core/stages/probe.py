"""probe: time structured, mixed and held-out Programs on the ranks, all in one launch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.probes.probe_timings import time_probes
from overlayccl_core.probes.sweep import to_time
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.timing.partial import forget

BATCH_NAME = "probe"
Row = dict[str, Any]


def main(job: RuleJob) -> None:
    """Write the table probes."""
    rows = run(
        load(job.option("deployment")),
        Settings.from_part(job.option("settings")),
        job.read(CAPABILITIES),
        job.partial,
        progress=job.say,
        code=job.option("code"),
    )
    job.write({PROBES: rows})
    forget(job.partial, BATCH_NAME, job.all_outputs)


def run(
    deployment: Deployment,
    settings: Settings,
    capabilities: pl.DataFrame,
    partial_dir: Path,
    *,
    progress: Callable[[str], None],
    code: str = "",
) -> list[Row]:
    """Return the rows of `probes`. `code`: digest of the rule's code; launches of other code are not reused."""
    can = Capabilities.from_rows(capabilities.iter_rows(named=True))
    probes, section = to_time(deployment, settings, can, progress), settings.probe
    return time_probes(
        *(probes, deployment, section, partial_dir), batch_name=BATCH_NAME, code=code, progress=progress
    )
