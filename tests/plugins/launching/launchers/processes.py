"""A launcher for tests: the agents of all nodes are processes of this host.

OVERLAYCCL_TESTS_BEFORE: words before the command of each agent but the first: for a host that is not quite this.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import BinaryIO

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.profile import Profile
from overlayccl_core.launching import processes
from overlayccl_core.launching.launcher import DoctorCheck, agent, no_link, one_rail
from overlayccl_core.launching.lines import Where
from overlayccl_core.launching.local_ranks import LOOPBACK

ALL = """
import os, shlex, subprocess, sys
nodes, *command = sys.argv[1:]
before = shlex.split(os.environ.get("OVERLAYCCL_TESTS_BEFORE", ""))
agents = [
    subprocess.Popen(before * (node > 0) + command, env={**os.environ, "OVERLAYCCL_NODE": str(node)})
    for node in reversed(range(int(nodes)))
]
sys.exit(max(one.wait() for one in agents))
"""

agents, this_host, options = True, True, ("link",)
link_bytes_per_s, rails = no_link, one_rail


def refuses(_deployment: Deployment) -> str:
    """It always can."""
    return ""


def refuses_here(_deployment: Deployment) -> str:
    """It always can."""
    return ""


def job_resources(_deployment: Deployment) -> Mapping[str, int | str]:
    """All nodes are this host."""
    return {}


def doctor(_deployment: Deployment, _profile: Profile | None) -> list[DoctorCheck]:
    """There is nothing that may be missing."""
    return []


def address(_deployment: Deployment) -> str:
    """All nodes are this host."""
    return LOOPBACK


def start(
    deployment: Deployment, towards: Where, environment: Mapping[str, str], printed: BinaryIO
) -> "subprocess.Popen[bytes]":
    """One process that has them all."""
    return subprocess.Popen(
        [sys.executable, "-c", ALL, str(deployment.nodes), *agent(towards)],
        env={**os.environ, **environment},
        stdout=printed,
        stderr=printed,
        start_new_session=True,
        preexec_fn=processes.with_me(),
    )
