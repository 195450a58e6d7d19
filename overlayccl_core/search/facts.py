"""What a search knows of the deployment."""

from dataclasses import dataclass

from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.deployments.capabilities import Capabilities


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentFacts:
    """capabilities, memory_budget_bytes: None asks for nothing."""

    theta: Theta
    capabilities: Capabilities | None
    memory_budget_bytes: int | None
