"""Which network interface and address of this host lead to another."""

import fcntl
import socket
import struct

from overlayccl_core.backends.parts import LOOPBACK

SIOCGIFADDR = 0x8915  # linux/sockios.h
_REQUEST = struct.Struct("256s")
_ADDRESS = slice(20, 24)  # of a sockaddr_in in a struct ifreq


def interface_towards(address: str) -> str:
    """The name of the interface from which datagrams to an address leave. OSError where none does."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect((address, 9))  # nothing is sent
        here = asking.getsockname()[0]
        for _, name in socket.if_nameindex():
            if _address(asking, name) == here:
                return name
    raise OSError(f"no network interface of this host has the address {here}, which leads to {address}")


def address_towards(host: str) -> str:
    """This host's address from which datagrams to another leave; of the loopback where that is this host. OSError
    where none does."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect((host, 9))  # nothing is sent
        here, there = asking.getsockname()[0], asking.getpeername()[0]
    return LOOPBACK if here == there else str(here)


def _address(asking: socket.socket, name: str) -> str | None:
    """The IPv4 address of an interface, None if it has none."""
    try:
        told = fcntl.ioctl(asking.fileno(), SIOCGIFADDR, _REQUEST.pack(name.encode()))
    except OSError:
        return None
    return socket.inet_ntoa(told[_ADDRESS])
