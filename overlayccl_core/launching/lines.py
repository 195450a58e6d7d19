"""Lines of JSON over a socket, between the requester of a launch and the agents of its nodes."""

import json
import select
import socket
import time
from collections.abc import Mapping
from typing import Any

Message = dict[str, Any]


class LostError(ConnectionError):
    """The other end is gone."""


class Lines:
    """One end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._rest = b""

    @property
    def peer(self) -> str:
        return str(self.connection.getpeername()[0])

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
