"""How the agents of a deployment's nodes are started: a launcher, which the deployment names.

A launcher NAME is the file `launchers/NAME.py`, here or in a folder of yours (`overlayccl_core.loader`), which
defines at its top level what `Launcher` declares. `here` starts nothing: all ranks are on this host.
"""

import subprocess
import sys
from collections.abc import Mapping
from typing import Any, BinaryIO, Protocol

from overlayccl_core import loader
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.profile import Profile

FOLDER = "launching/launchers"
AGENT = "overlayccl_core.launching.node_agent"


class Launcher(Protocol):
    """What `launching/launchers/<name>.py` defines."""

    def refuses(self, deployment: Deployment) -> str:
        """Why no ranks of it can be started from here, with the mend; empty if they can."""

    def refuses_here(self, deployment: Deployment) -> str:
        """Why no ranks can be started in this very process, though a run may be begun here; empty if they can."""

    def job_resources(self, deployment: Deployment) -> Mapping[str, int | str]:
        """What a job that runs ranks asks Snakemake's executor for; `threads`: cores on a node. Empty: this host is
        enough, all of it. Partition, account and time limits are the profile's."""

    def doctor(self, deployment: Deployment, profile: Profile | None) -> list[dict[str, Any]]:
        """What the nodes have and lack: rows of check, ok, detail; `backend.host` of each that it asks. profile:
        where its jobs run."""

    def address(self, deployment: Deployment) -> str:
        """Of this host, at which its nodes find it; the loopback's where all of them are this host. LaunchError
        where that cannot be told."""

    def start(
        self,
        deployment: Deployment,
        towards: tuple[str, int],
        environment: Mapping[str, str],
        printed: BinaryIO,
    ) -> "subprocess.Popen[bytes]":
        """Start `agent(towards)` on every node, with such variables and OVERLAYCCL_NODE, the number of the node
        from 0; the first is this host where that is one of them. printed: takes what it and the agents print. The
        process ends with the agents."""


def launcher_of(deployment: Deployment) -> Launcher:
    """The deployment's launcher; ValueError naming those there are."""
    return loader.plug_in(Launcher, FOLDER, deployment.launcher)


def agent(towards: tuple[str, int]) -> list[str]:
    """The command of an agent. towards: address and port of who asks."""
    return [sys.executable, "-P", "-m", AGENT, towards[0], str(towards[1])]
