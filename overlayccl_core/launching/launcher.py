"""Launchers: they start the agents on a deployment's nodes.

A launcher starts agents, one a node, and no ranks: each agent starts the ranks of its node. So a launcher can bind
a node's agent with all its ranks (to cores, to a network namespace), not a single rank. Where a node has several
links (rails), it has an agent for each, with the ranks of that link.

The deployment names its launcher. Launcher NAME is the file `launchers/NAME.py`, here or in a folder of yours
(`overlayccl_core.loader`), with the functions of `Launcher`. `here` has no agents: all ranks start on this host.
"""

import subprocess
import sys
from collections.abc import Mapping
from typing import BinaryIO, NamedTuple, Protocol

from overlayccl_core import loader
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.profile import Profile
from overlayccl_core.launching.lines import Where

FOLDER = "launching/launchers"
AGENT = "overlayccl_core.launching.node_agent"


class DoctorCheck(NamedTuple):
    """One line of `overlayccl doctor`: what was looked at, and what was found, with the mend if it is not ok."""

    name: str
    ok: bool
    detail: str


class Launcher(Protocol):
    """Members of a `launching/launchers/<name>.py`.

    Attributes:
        agents: Whether agents on nodes start the ranks; False: the measuring process starts them itself.
        this_host: Whether this host is all nodes, so that what it is stands in the fingerprint.
        options: Known names in `launcher_options` of a deployment; all of those stand in the fingerprint.
    """

    agents: bool
    this_host: bool
    options: tuple[str, ...]

    def link_bytes_per_s(self, deployment: Deployment) -> float | None:
        """Return the declared rate of one link of a node in one direction, for the selftest; None: not declared."""

    def rails(self, deployment: Deployment) -> int:
        """Return the number of links of a node; each has as many consecutive ranks, and an agent of its own."""

    def refuses(self, deployment: Deployment) -> str:
        """Return why no ranks of the deployment can start from here, with the mend; empty if they can."""

    def refuses_here(self, deployment: Deployment) -> str:
        """Return why no ranks can start in this very process, though a run may begin here; empty if they can."""

    def job_resources(self, deployment: Deployment) -> Mapping[str, int | str]:
        """Return a job's resources for Snakemake's executor; `threads`: cores on a node.

        Empty: this host is enough, all of it. Partition, account and time limits come from the profile.
        """

    def doctor(self, deployment: Deployment, profile: Profile | None) -> list[DoctorCheck]:
        """Check the nodes by jobs of `profile`; on each node asked also as `backend.host`."""

    def address(self, deployment: Deployment) -> str:
        """Return this host's address for its nodes; the loopback's if all of them are this host.

        Empty: nodes have networks of their own on this host, and find it by a socket file.

        Raises:
            LaunchError: The address cannot be told.
        """

    def start(
        self,
        deployment: Deployment,
        towards: Where,
        environment: Mapping[str, str],
        printed: BinaryIO,
    ) -> "subprocess.Popen[bytes]":
        """Start `agent(towards)` for every rail of every node; the returned process ends with the agents.

        Args:
            environment: Variables of the agents, besides those of `local_ranks`: NODE (in the order of their
                ranks; if this host is a node, it is node 0) and, where their connection does not tell it, ADDRESS.
            printed: Takes the output of the process and the agents.
        """


def launcher_of(deployment: Deployment) -> Launcher:
    """Return the deployment's launcher; ValueError names the known ones, or an option that it does not know."""
    launcher = loader.plug_in(Launcher, FOLDER, deployment.launcher)
    for name in deployment.launcher_options:
        if name not in launcher.options:
            known = ", ".join(launcher.options) or "none"
            raise ValueError(
                f"deployment {deployment.name}: launcher_options: {deployment.launcher} knows no {name!r}: "
                f"take it away, or use one of its options ({known})"
            )
    return launcher


def no_link(_deployment: Deployment) -> float | None:
    """Return None, as `link_bytes_per_s` of a launcher that declares none."""
    return None


def one_rail(_deployment: Deployment) -> int:
    """Return 1, as `rails` of a launcher whose nodes have one link each."""
    return 1


def agent(towards: Where) -> list[str]:
    """Return the command of an agent; `towards`: where the requester listens."""
    return [sys.executable, "-P", "-m", AGENT, towards[0], str(towards[1])]
