"""A launcher for tests: the agents of all nodes are processes of this host."""

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from overlayccl_core.backends import processes
from overlayccl_core.backends.launcher import agent
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.profile import Profile

ALL = """
import os, subprocess, sys
nodes, *command = sys.argv[1:]
agents = [
    subprocess.Popen(command, env={**os.environ, "OVERLAYCCL_NODE": str(node)})
    for node in reversed(range(int(nodes)))
]
sys.exit(max(one.wait() for one in agents))
"""


def refuses(_deployment: Deployment) -> str:
    """It always can."""
    return ""


def refuses_here(_deployment: Deployment) -> str:
    """It always can."""
    return ""


def doctor(_deployment: Deployment, _profile: Profile | None) -> list[dict[str, Any]]:
    """There is nothing that may be missing."""
    return []


def start(deployment: Deployment, port: int, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """One process that has them all."""
    return subprocess.Popen(
        [sys.executable, "-c", ALL, str(deployment.nodes), *agent("127.0.0.1", port)],
        env={**os.environ, **environment},
        start_new_session=True,
        preexec_fn=processes.die_with_parent,
    )
