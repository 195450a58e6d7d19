"""Lines of JSON over a socket, between the requester of a launch and the agents of its nodes."""

import json
import select
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Where = tuple[str, int]
"""An address with its port, or the path of a socket file with 0: hosts of one machine reach it across networks."""
SOCKET_FILE = "agents"
Message = dict[str, Any]


class LostError(ConnectionError):
    """The other end is gone."""


@contextmanager
def listening(address: str, backlog: int) -> Iterator[tuple[socket.socket, Where]]:
    """Give a listening socket at an address (empty: at a new socket file), and where it is found."""
    if address:
        with socket.create_server((address, 0), backlog=backlog) as server:
            yield server, (address, server.getsockname()[1])
        return
    with (
        tempfile.TemporaryDirectory(prefix="overlayccl-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server,
    ):
        server.bind(path := str(Path(folder, SOCKET_FILE)))
        server.listen(backlog)
        yield server, (path, 0)


def connected(where: Where, timeout_s: float = 60.0) -> "Lines":
    """Return a connection to where somebody is `listening`; OSError if nobody is."""
    address, port = where
    if port:
        connection = socket.create_connection(where, timeout=timeout_s)
        connection.settimeout(None)
    else:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(address)
    return Lines(connection)


class Lines:
    """One end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._rest = b""

    @property
    def peer(self) -> str:
        """The other end's address; empty at a socket file."""
        return str((self.connection.getpeername() or ("",))[0])

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message; LostError if the other end is gone."""
        try:
            self.connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise LostError(str(error)) from error

    def receive(self, seconds: float | None = 0.0) -> Message | None:
        """Return the next message; None after `seconds` (None: never) without one. LostError at the other's end."""
        end = None if seconds is None else time.monotonic() + seconds
        while b"\n" not in self._rest:
            left = None if end is None else max(end - time.monotonic(), 0.0)
            if not select.select([self.connection], [], [], left)[0]:
                return None
            try:
                more = self.connection.recv(2**16)
            except OSError as error:
                raise LostError(str(error)) from error
            if not more:
                raise LostError("the connection was closed")
            self._rest += more
            if end is not None and b"\n" not in more and time.monotonic() > end:
                return None  # a line without an end must not take for ever
        line, _, self._rest = self._rest.partition(b"\n")
        message: Message = json.loads(line)
        return message

    def close(self) -> None:
        self.connection.close()
