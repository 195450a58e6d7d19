"""One clock for the hosts of a launch: how far a host's CLOCK_MONOTONIC is from that of who asked for it.

As NTP does it: of many questions and answers the quickest bounds the difference by half the time that it took.
"""

import socket
import struct
import threading
import time
from pathlib import Path

BOOT = Path("/proc/sys/kernel/random/boot_id")
QUESTIONS = 100
PATIENCE_S = 0.2  # with an answer: datagrams get lost
_STAMP = struct.Struct("!q")


def boot() -> str:
    """Which start of which machine this is: where it is the same, CLOCK_MONOTONIC is."""
    return BOOT.read_text().strip()


class ClockServer:
    """Tells this process's CLOCK_MONOTONIC to whoever asks, until it is closed. port: where."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((address, 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()

    def _answer(self) -> None:
        while True:
            try:
                question, asker = self._socket.recvfrom(64)
                self._socket.sendto(question + _STAMP.pack(time.monotonic_ns()), asker)
            except OSError:  # closed
                return

    def close(self) -> None:
        """Answer no more."""
        self._socket.close()


def offset_ns(address: str, port: int) -> tuple[int, int]:
    """(what to add to this host's CLOCK_MONOTONIC to have the server's, at most so far off) in ns.

    OSError where nothing answers.
    """
    best: tuple[int, int] | None = None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(PATIENCE_S)
        asking.connect((address, port))
        for number in range(QUESTIONS):
            sent = time.monotonic_ns()
            try:
                asking.send(_STAMP.pack(number))
                answer = asking.recv(64)
            except TimeoutError:
                continue
            received = time.monotonic_ns()
            told_number, told = (_STAMP.unpack_from(answer, place)[0] for place in (0, _STAMP.size))
            if told_number == number and (best is None or received - sent < 2 * best[1]):
                best = told - (sent + received) // 2, (received - sent) // 2
    if best is None:
        raise TimeoutError(f"nothing at {address}:{port} tells the time")
    return best
