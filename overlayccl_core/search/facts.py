"""The facts of a deployment for a search."""

from dataclasses import dataclass

from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.deployments.capabilities import Capabilities


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentFacts:
    """The facts of a deployment. capabilities, memory_budget_bytes: None restricts nothing."""

    theta: Theta
    capabilities: Capabilities | None
    memory_budget_bytes: int | None
