"""Hosts within this one: network namespaces with an agent each, on shaped links to a switch.

Run as `python -m` in a new network namespace, the switch: it makes the hosts, waits for their agents, and ends with
the first that fails. What it makes lives in these namespaces only, and goes with their last process.
"""

import os
import subprocess
import sys
from collections.abc import Sequence

from overlayccl_core.launching import processes
from overlayccl_core.launching.local_ranks import ADDRESS, NODE

NETWORK = "10.77.0"  # exists in these namespaces only
QUEUE_BYTES = 4_000_000  # in front of the shaper: deep enough never to drop
# What a host does once its link is there. No congestion control that probes for a rate (bbr), and no slow start
# again after a pause between samples.
HOST = """
read -r _
ip link set lo up
ip address add "$1/24" dev eth0
ip link set eth0 up
echo reno > /proc/sys/net/ipv4/tcp_congestion_control
echo 0 > /proc/sys/net/ipv4/tcp_slow_start_after_idle
tc qdisc add dev eth0 root tbf rate "$2" burst "$3" limit "$4"
shift 4
exec "$@"
"""


def main(hosts: int, rate: str, burst_bytes: int, command: Sequence[str]) -> int:
    """Run a command on each host; return the first exit code that is not 0.

    Args:
        rate: Of each link in each direction, as `tc` takes it (`100mbit`).
        burst_bytes: The link's bytes that may pass at once.
    """
    processes.die_with(os.getppid())
    _do("ip", "link", "add", "switch", "type", "bridge")
    _do("ip", "link", "set", "switch", "up")
    link = [rate, str(burst_bytes), str(QUEUE_BYTES)]
    started = [_host(number, link, command) for number in range(hosts)]
    for number, host in enumerate(started):
        port = f"port{number}"
        _do("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(host.pid))
        _do("ip", "link", "set", port, "master", "switch", "up")
        _do(
            "tc", "qdisc", "add", "dev", port, "root", "tbf", "rate", rate, "burst", link[1], "limit", link[2]
        )
        assert host.stdin is not None
        host.stdin.write(b"\n")
        host.stdin.flush()
    left = {host.pid for host in started}
    while left:
        pid, status = os.wait()
        left.discard(pid)
        if code := os.waitstatus_to_exitcode(status):
            return code if code > 0 else 128 - code  # the others end with this process
    return 0


def _host(number: int, link: Sequence[str], command: Sequence[str]) -> "subprocess.Popen[bytes]":
    """Start a process in a network namespace of its own; it waits for a line before it runs the command."""
    address = f"{NETWORK}.{number + 1}"
    words = ["sh", "-ec", HOST, "sh", address, *link, *command]
    return subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        env={**os.environ, NODE: str(number), ADDRESS: address},
        preexec_fn=processes.with_me_in_a_new_network(),
    )


def _do(*command: str) -> None:
    """Run a command; its message is printed, and this process ends, if it fails."""
    if code := subprocess.run(command).returncode:
        sys.exit(code)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]))
