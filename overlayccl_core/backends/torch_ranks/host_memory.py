"""Whether a host has memory for the values of its ranks, where these are on CPUs."""

import psutil

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.launching.launcher import DoctorCheck

LOWER_BUDGET = "lower memory_budget in the deployment's file"


def check(deployment: Deployment) -> DoctorCheck:
    """Check the free memory of this host."""
    ranks = deployment.ranks_per_node
    needed, free = ranks * deployment.memory_budget_bytes, psutil.virtual_memory().available
    enough = free >= needed
    detail = f"{bytes_text(free)} free, {bytes_text(needed)} may be used by {ranks} ranks"
    return DoctorCheck("memory", enough, detail if enough else f"{detail}: free some, or {LOWER_BUDGET}")
