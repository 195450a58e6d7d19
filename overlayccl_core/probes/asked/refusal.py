"""Reasons not to time a probe here: limits of the library, and of a rank's memory."""

from math import prod

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.gates import legality
from overlayccl_core.gates.verdict import Outcome
from overlayccl_core.probes.probe import Probe


def refusal(probe: Probe, capabilities: Capabilities, deployment: Deployment) -> str:
    """Return the reason and the mend in a sentence; empty if nothing stands in the way."""
    most, problem = deployment.memory_budget_bytes, probe.program.problem
    ports = (*problem.inputs.values(), *problem.outputs.values())
    if (held := sum(prod(port.shape) * port.dtype.bytes for port in ports)) > most:
        return f"it reads and writes {held} bytes on a rank, and at most {most} may be: take less at once"
    verdict = legality.check(probe.program, capabilities, most)
    return "" if verdict.outcome is Outcome.PASS else verdict.message
