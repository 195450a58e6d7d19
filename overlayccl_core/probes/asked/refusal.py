"""Why a probe cannot be timed here: what the library takes, how large a call may be, what a rank can hold."""

from math import prod

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.gates import legality
from overlayccl_core.gates.verdict import Outcome
from overlayccl_core.probes.probe import Probe
from overlayccl_core.program.memory import peak_bytes


def refusal(probe: Probe, capabilities: Capabilities, deployment: Deployment) -> str:
    """A sentence with the mend; empty where nothing stands in the way."""
    program = probe.program
    verdict = legality.check(program, capabilities)
    if verdict.outcome is not Outcome.PASS:
        return verdict.message
    read = sum(prod(port.shape) * port.dtype.bytes for port in program.problem.inputs.values())
    if (held := read + peak_bytes(program)) > (most := deployment.memory_budget_bytes):
        return f"it reads and holds {held} bytes on a rank, at most {most} may be: take less at once"
    return ""
