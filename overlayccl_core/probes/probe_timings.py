"""Timing of probes on the ranks, all in one launch."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.backends.measured import Job, TimingSettings
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.sections import ProbeSection
from overlayccl_core.probes.probe import Probe, ProbeRole
from overlayccl_core.timing.batch import TimingBatch, time_programs

Row = dict[str, Any]


def time_probes(
    probes: Sequence[Probe],
    deployment: Deployment,
    section: ProbeSection,
    partial_dir: Path,
    *,
    batch_name: str,
    code: str,
    progress: Callable[[str], None],
) -> list[Row]:
    """Return `probe`, `role` and the timing columns, a row for each launch of each probe.

    Args:
        batch_name: Beginning of the names of its folders (`TimingBatch`).
        code: Digest of the rule's code; launches of other code are not reused.

    Raises:
        LaunchError: Ranks die or hang (a ValueError).
    """
    backend = backend_of(deployment)
    progress(f"{deployment.name}: emitting {len(probes)} probes")
    jobs = [
        Job(
            key=probe.name,
            program=probe.program,
            source=backend.emit(probe.program),
            rounds=rounds_of(probe.role, section),
        )
        for probe in probes
    ]
    batch = TimingBatch(
        jobs=jobs,
        deployment=deployment,
        settings=TimingSettings.of(section),
        partial_dir=partial_dir,
        batch_name=batch_name,
        code=code,
    )
    by_name = {probe.name: probe for probe in probes}
    return [
        {"probe": one.key, "role": by_name[one.key].role.value, **one.columns(by_name[one.key].program)}
        for one in time_programs(batch, progress)
    ]


def rounds_of(role: ProbeRole, section: ProbeSection) -> int | None:
    """Return the most rounds of a probe; None: as many as fit. Calls beside computing need few: they are long."""
    if role is ProbeRole.HELD_OUT:
        return None
    return max(section.rounds_of_fitted // 2, 2) if role is ProbeRole.BESIDE else section.rounds_of_fitted
