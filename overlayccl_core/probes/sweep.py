"""The sweep: all probes of a deployment, always the same, to fit and judge the cost model."""

from collections.abc import Callable

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.probes.beside import beside_probes
from overlayccl_core.probes.mixed import mixed_probes
from overlayccl_core.probes.probe import Probe, ProbeRole
from overlayccl_core.probes.shapes import shape_probes
from overlayccl_core.probes.structured import structured_probes


def probes_of(deployment: Deployment, settings: Settings) -> list[Probe]:
    """Return all probes of a run. ValueError if held-out and fitted ones have the same seed."""
    fitted, heldout = settings.probe.mixed_seed, settings.heldout_seed
    if heldout == fitted:
        raise ValueError(
            f"heldout_seed must differ from the seed of the fitted mixed Programs (got {heldout} for both): "
            f"choose another, --config heldout_seed={heldout + 1}"
        )
    return [
        *structured_probes(deployment),
        *shape_probes(deployment),
        *mixed_probes(deployment, seed=fitted, count=settings.probe.mixed, role=ProbeRole.MIXED),
        *beside_probes(deployment),
        *mixed_probes(deployment, seed=heldout, count=settings.probe.heldout, role=ProbeRole.HELD_OUT),
    ]


def to_time(
    deployment: Deployment, settings: Settings, capabilities: Capabilities, progress: Callable[[str], None]
) -> list[Probe]:
    """Return the probes of the sweep the library can run, and report the others.

    They are exactly those of the table `probes`.
    """
    runnable = []
    for probe in probes_of(deployment, settings):
        if refused := capabilities.first_refused(probe.program):
            progress(f"left out {probe.name}: {refused.call.operation} {refused.evidence}")
        else:
            runnable.append(probe)
    return runnable
