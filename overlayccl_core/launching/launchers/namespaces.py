"""Network namespaces: each node is one of this host, with a link of its own to a switch, shaped to a rate.

With several links a node (option `rails`), each has a namespace of its own, with as many consecutive ranks: gloo
binds no address before it connects, so only the namespace says by which link a rank sends.

The link's rate is emulated; the traffic of the library through the kernel is real. Nodes share cores and memory,
and a message takes no longer across the switch than within a node, but for its bytes. An ordinary user needs user
namespaces. All of it lives in namespaces of the started processes: the kernel removes it with them.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import BinaryIO

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.profile import Profile
from overlayccl_core.launching import hosts, processes
from overlayccl_core.launching.hosts import QUEUE_BYTES
from overlayccl_core.launching.launcher import DoctorCheck, agent
from overlayccl_core.launching.lines import Where

agents, this_host, options = True, True, ("rate", "rails")

HOSTS = hosts.__name__
RATE, RAILS = "rate", "rails"
BITS = {"k": 1e3, "m": 1e6, "g": 1e9}
# Longer than a packet of 64 KiB takes at 400 Mbit/s, which the kernel would cut at a cost in CPU time. Messages of
# less than that pass unshaped.
BURST_S = 1.4e-3
LEAST_BURST_BYTES = 16_000  # ten frames: with fewer, timers rule
NEEDS = {"ip": "iproute2", "tc": "iproute2", "unshare": "util-linux"}  # command -> Debian's package
TRIAL = """
lacks() { echo "this kernel has no $1: load its module (modprobe $1)"; exit 1; }
ip link add switch type bridge || lacks bridge
ip link add port type veth peer name eth0 || lacks veth
tc qdisc add dev eth0 root tbf rate "$1" burst "$2" limit "$3" ||
{ echo "tc cannot shape a link to $1: take another rate, or load the kernel's module (modprobe sch_tbf)"; exit 1; }
"""


def link_bytes_per_s(deployment: Deployment) -> float | None:
    """Return the rate that the deployment's file gives; None if it is no rate."""
    return _bytes_per_s(str(deployment.launcher_options.get(RATE, "")))


def rails(deployment: Deployment) -> int:
    """Return the links of a node that the deployment's file gives; 1 if it gives none, or no number."""
    told = str(deployment.launcher_options.get(RAILS, 1))
    return max(int(told), 1) if told.isdecimal() else 1


def _bytes_per_s(rate: str) -> float | None:
    told = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg])bit", rate)
    return float(told[1]) * BITS[told[2]] / 8 or None if told else None


def refuses(deployment: Deployment) -> str:
    """Refuse a host without the commands, without the right to make namespaces, or whose kernel shapes no link."""
    why = _refused(deployment)
    return f"deployment {deployment.name}: {why}" if why else ""


def _refused(deployment: Deployment) -> str:
    if deployment.nodes < 2:
        return "launcher namespaces makes several nodes: set ranks_per_node to less than ranks"
    if not (rate := link_bytes_per_s(deployment)):
        told = deployment.launcher_options.get(RATE, "")
        return f"launcher_options: {RATE}: {told!r} is no rate of a link: write 100mbit or 1gbit"
    told, here = deployment.launcher_options.get(RAILS, 1), deployment.ranks_per_node
    if str(told) != str(rails(deployment)) or here % rails(deployment):
        return f"launcher_options: {RAILS}: {told!r} does not divide the {here} ranks of a node: write {here}, or 1"
    for command, package in NEEDS.items():
        if shutil.which(command) is None:
            nodes = f"its {deployment.nodes} nodes are network namespaces"
            return f"{nodes}, and this host has no {command}: install {package}"
    return _tried(str(deployment.launcher_options[RATE]), _burst_bytes(rate))


def _burst_bytes(rate: float) -> int:
    return max(round(rate * BURST_S), LEAST_BURST_BYTES)


@lru_cache(maxsize=8)
def _tried(rate: str, burst_bytes: int) -> str:
    """Return why this process can make no such nodes, after a try; empty if it can."""
    made = subprocess.run([*_unshare(), "true"], capture_output=True, text=True)
    if made.returncode:
        return (
            f"no network namespace for user {os.getuid()} ({made.stderr.strip()}): run as root with "
            "CAP_SYS_ADMIN, or allow those of users (sysctl user.max_user_namespaces, "
            "kernel.apparmor_restrict_unprivileged_userns=0)"
        )
    tried = [*_unshare(), "sh", "-c", TRIAL, "sh", rate, str(burst_bytes), str(QUEUE_BYTES)]
    if (done := subprocess.run(tried, capture_output=True, text=True)).returncode:
        first = (done.stderr.strip().splitlines() or ["no word"])[0]
        return f"{done.stdout.strip()} ({first})"
    return ""


def _unshare() -> list[str]:
    """Return the words that run a command in a new network namespace, as its administrator."""
    return ["unshare", *([] if os.getuid() == 0 else ["--user", "--map-root-user"]), "--net"]


def refuses_here(_deployment: Deployment) -> str:
    return ""


def job_resources(_deployment: Deployment) -> Mapping[str, int | str]:
    """Return nothing: all nodes are this host."""
    return {}


def doctor(deployment: Deployment, _profile: Profile | None) -> list[DoctorCheck]:
    refused = _refused(deployment)
    each = f"{rails(deployment)} links" if rails(deployment) > 1 else "links"
    link = f"{deployment.nodes} of this host, {each} of {deployment.launcher_options.get(RATE)}"
    return [DoctorCheck("network namespaces", not refused, refused or link)]


def address(_deployment: Deployment) -> str:
    """Return nothing: a socket file leads from one network to the other."""
    return ""


def start(
    deployment: Deployment, towards: Where, environment: Mapping[str, str], printed: BinaryIO
) -> "subprocess.Popen[bytes]":
    """Start the process of the switch, which makes the nodes' namespaces and starts their agents."""
    rate = str(deployment.launcher_options[RATE])
    return subprocess.Popen(
        on_hosts(deployment.nodes, rate, agent(towards), rails(deployment)),
        env={**os.environ, **environment},
        stdout=printed,
        stderr=printed,
        start_new_session=True,
        preexec_fn=processes.with_me(),
    )


def on_hosts(nodes: int, rate: str, command: Sequence[str], rails: int = 1) -> list[str]:
    """Return the words that run a command on each of so many hosts, on shaped links (`rate`: 400mbit).

    rails: Links of a host; the command runs for each.
    """
    bytes_per_s = _bytes_per_s(rate)
    assert bytes_per_s is not None, "refused before"
    link = [rate, str(_burst_bytes(bytes_per_s))]
    return [*_unshare(), sys.executable, "-P", "-m", HOSTS, str(nodes), str(rails), *link, *command]
