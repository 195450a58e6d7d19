"""Hosts within this one: network namespaces with an agent each, on shaped links to a switch.

Run as `python -m` in a new network namespace, the switch: it makes the hosts, waits for their agents, and ends with
the first that fails. What it makes lives in these namespaces only, and goes with their last process.

A host with several links (rails) is as many namespaces, each with an address, one link and an agent, so that all
messages of its ranks to other hosts leave and arrive by this link. Between the rails of a host there is a link that
is not shaped, as fast as the kernel is, in place of the loopback.
"""

import os
import subprocess
import sys
from collections.abc import Sequence

from overlayccl_core.launching import processes
from overlayccl_core.launching.local_ranks import ADDRESS, NODE

NETWORK = "10.77.0"  # exists in these namespaces only
QUEUE_BYTES = 4_000_000  # in front of the shaper: deep enough never to drop
LONGEST_PACKET = "65535"  # of a link in a host: packets as long as on a loopback
# What a rail does once its links are there ($2: the other addresses of its host). No congestion control that probes
# for a rate (bbr), and no slow start again after a pause between samples.
RAIL = """
read -r _
ip link set lo up
ip address add "$1/24" dev eth0
ip link set eth0 up
for near in $2
do
    ip link set inside mtu "$3" up
    ip route add "$near" dev inside src "$1"
done
echo reno > /proc/sys/net/ipv4/tcp_congestion_control
echo 0 > /proc/sys/net/ipv4/tcp_slow_start_after_idle
tc qdisc add dev eth0 root tbf rate "$4" burst "$5" limit "$6"
shift 6
exec "$@"
"""


def main(hosts: int, rails: int, rate: str, burst_bytes: int, command: Sequence[str]) -> int:
    """Run a command for each rail of each host; return the first exit code that is not 0.

    Args:
        rails: Links of a host.
        rate: Of each link in each direction, as `tc` takes it (`100mbit`).
        burst_bytes: The link's bytes that may pass at once.
    """
    processes.die_with(os.getppid())
    _bridge("switch")
    link = [rate, str(burst_bytes), str(QUEUE_BYTES)]
    started = [_rail(number, rails, link, command) for number in range(hosts * rails)]
    for number, rail in enumerate(started):
        port = f"port{number}"
        _plug(port, "eth0", rail.pid, "switch")
        _do(
            "tc", "qdisc", "add", "dev", port, "root", "tbf", "rate", rate, "burst", link[1], "limit", link[2]
        )
        if rails > 1:
            host, place = divmod(number, rails)
            if place == 0:
                _bridge(f"host{host}")
            _plug(f"inside{number}", "inside", rail.pid, f"host{host}", "mtu", LONGEST_PACKET)
        assert rail.stdin is not None
        rail.stdin.write(b"\n")
        rail.stdin.flush()
    left = {rail.pid for rail in started}
    while left:
        pid, status = os.wait()
        left.discard(pid)
        if code := os.waitstatus_to_exitcode(status):
            return code if code > 0 else 128 - code  # the others end with this process
    return 0


def _rail(number: int, rails: int, link: Sequence[str], command: Sequence[str]) -> "subprocess.Popen[bytes]":
    """Start a process in a network namespace of its own; it waits for a line before it runs the command."""
    first = number - number % rails
    near = " ".join(_address(other) for other in range(first, first + rails) if other != number)
    words = ["sh", "-ec", RAIL, "sh", _address(number), near, LONGEST_PACKET, *link, *command]
    return subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        env={**os.environ, NODE: str(number), ADDRESS: _address(number)},
        preexec_fn=processes.with_me_in_a_new_network(),
    )


def _address(rail: int) -> str:
    return f"{NETWORK}.{rail + 1}"


def _bridge(name: str) -> None:
    _do("ip", "link", "add", name, "type", "bridge")
    _do("ip", "link", "set", name, "up")


def _plug(port: str, interface: str, pid: int, bridge: str, *more: str) -> None:
    """Join a process's network to a bridge, by an interface there and a port here."""
    _do("ip", "link", "add", port, "type", "veth", "peer", "name", interface, "netns", str(pid))
    _do("ip", "link", "set", port, *more, "master", bridge, "up")


def _do(*command: str) -> None:
    """Run a command; its message is printed, and this process ends, if it fails."""
    if code := subprocess.run(command).returncode:
        sys.exit(code)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5:]))
