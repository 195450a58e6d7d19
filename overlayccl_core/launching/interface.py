"""Network interfaces of this host; its interface and its address towards another host."""

import socket
from collections.abc import Mapping

import psutil

from overlayccl_core.launching.local_ranks import LOOPBACK

INTERFACE = "GLOO_SOCKET_IFNAME"  # for the ranks' rendezvous, of any library


def interface_towards(address: str) -> str:
    """Return the name of the interface towards an address; OSError without one."""
    here = _address_towards(address)[0]
    for name, addresses in _addresses().items():
        if here in addresses:
            return name
    raise OSError(f"no network interface of this host has the address {here}, which leads to {address}")


def address_towards(host: str) -> str:
    """Return this host's address towards another host, the loopback's for this host itself; OSError without one."""
    here, there = _address_towards(host)
    return LOOPBACK if here == there else here


def refused(environment: Mapping[str, str]) -> str:
    """Return why ranks with this environment cannot meet on this host, with the mend; empty if they can.

    gloo takes names with commas between them, and none of NCCL's signs (`^docker`, `=eth0`).
    """
    told, here = environment.get(INTERFACE, ""), _addresses()
    absent = [name for name in told.split(",") if name not in here]
    if not told or not absent:
        return ""
    return (
        f"{INTERFACE}={told}: this host has no network interface {' and no '.join(absent)} with an address: "
        f"unset it, or name one of {', '.join(here)}"
    )


def _addresses() -> dict[str, tuple[str, ...]]:
    """Return name -> IP addresses, of interfaces with an address."""
    families = (socket.AF_INET, socket.AF_INET6)
    told = {
        name: tuple(one.address for one in addresses if one.family in families)
        for name, addresses in psutil.net_if_addrs().items()
    }
    return {name: addresses for name, addresses in told.items() if addresses}


def _address_towards(host: str) -> tuple[str, str]:
    """Return (this host's address in datagrams to another, the other's)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect((host, 9))  # nothing is sent
        return asking.getsockname()[0], asking.getpeername()[0]
