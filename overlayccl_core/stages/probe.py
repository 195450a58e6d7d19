"""probe: time structured, mixed and held-out Programs on the ranks, all in one launch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.backends.measured import Job, TimingSettings
from overlayccl_core.backends.timing import Batch, time_programs
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.deployments.capabilities import Capabilities, call_of
from overlayccl_core.probes.mixed import mixed_probes
from overlayccl_core.probes.probe import Probe, Role
from overlayccl_core.probes.structured import structured_probes

PARTIAL_RULE = "probe"  # what the folders of its batches begin with
Row = dict[str, Any]


def run(
    deployment: Deployment,
    settings: Settings,
    capabilities: pl.DataFrame,
    partial_dir: Path,
    *,
    progress: Callable[[str], None],
    code: str = "",
) -> dict[str, list[Row]]:
    """The rows of `probes`. `code`: digest of the rule's code; launches of another are not reused."""
    can = Capabilities.from_rows(capabilities.iter_rows(named=True))
    probes = [probe for probe in probes_of(deployment, settings) if _supported(probe, can, progress)]
    backend = backend_of(deployment)
    progress(f"{deployment.name}: emitting {len(probes)} probes")
    jobs = [
        Job(
            key=probe.name,
            program=probe.program,
            source=backend.emit(probe.program),
            rounds=None if probe.role is Role.HELD_OUT else settings.probe.rounds_of_fitted,
        )
        for probe in probes
    ]
    timing = TimingSettings(
        seconds=settings.probe.seconds,
        minimum_rounds=settings.probe.minimum_rounds,
        maximum_rounds=settings.probe.maximum_rounds,
    )
    batch = Batch(
        jobs=jobs,
        deployment=deployment,
        settings=timing,
        partial_dir=partial_dir,
        rule=PARTIAL_RULE,
        code=code,
    )
    timed = time_programs(batch, progress)
    by_name = {probe.name: probe for probe in probes}
    rows = [
        {
            "probe": one.key,
            "role": by_name[one.key].role.value,
            **one.columns(by_name[one.key].program),
        }
        for one in timed
    ]
    return {"probes": rows}


def probes_of(deployment: Deployment, settings: Settings) -> list[Probe]:
    """All probes of a run. ValueError if held-out ones are to be drawn from the seed of the fitted ones."""
    fitted, heldout = settings.probe.mixed_seed, settings.heldout_seed
    if heldout == fitted:
        raise ValueError(
            f"heldout_seed must differ from the seed of the fitted mixed Programs (got {heldout} for both): "
            f"choose another, --config heldout_seed={heldout + 1}"
        )
    return [
        *structured_probes(deployment),
        *mixed_probes(deployment, seed=fitted, count=settings.probe.mixed, role=Role.MIXED),
        *mixed_probes(deployment, seed=heldout, count=settings.probe.heldout, role=Role.HELD_OUT),
    ]


def _supported(probe: Probe, capabilities: Capabilities, progress: Callable[[str], None]) -> bool:
    """Whether the library can run a probe; says so if not."""
    for collectives in probe.program.calls:
        call = call_of(collectives, probe.program.problem.case)
        support = capabilities.supports(call)
        if not support.supported:
            progress(f"left out {probe.name}: {call.operation} {support.evidence}")
            return False
    return True
