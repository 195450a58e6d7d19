"""No launcher: all ranks of a deployment start on this host."""

import subprocess
from collections.abc import Mapping
from typing import BinaryIO

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.profile import Profile
from overlayccl_core.launching.launcher import DoctorCheck, no_link, one_rail
from overlayccl_core.launching.lines import Where

agents, this_host, options = False, True, ()
link_bytes_per_s, rails = no_link, one_rail


def refuses(deployment: Deployment) -> str:
    """Refuse several nodes: their ranks cannot all start here."""
    if deployment.nodes == 1:
        return ""
    return (
        f"deployment {deployment.name}: its {deployment.ranks} ranks are on {deployment.nodes} nodes, and launcher "
        f"{deployment.launcher} starts ranks on this host only, where they would measure one node as if it were "
        f"{deployment.nodes}: set launcher to slurm, or ranks_per_node to {deployment.ranks} to measure this host. "
        "Proofs (`overlayccl prove`) work at any number of nodes"
    )


def refuses_here(_deployment: Deployment) -> str:
    return ""


def job_resources(_deployment: Deployment) -> Mapping[str, int | str]:
    """Return nothing: a job gets all of this host."""
    return {}


def doctor(_deployment: Deployment, _profile: Profile | None) -> list[DoctorCheck]:
    return []


def address(deployment: Deployment) -> str:
    """Raise ValueError: no agent has to find this host."""
    raise ValueError(refuses(deployment))


def start(
    deployment: Deployment, towards: Where, environment: Mapping[str, str], printed: BinaryIO
) -> "subprocess.Popen[bytes]":
    """Raise ValueError: there are no agents."""
    raise ValueError(f"{refuses(deployment)} ({towards}, {len(environment)} variables, {printed})")
