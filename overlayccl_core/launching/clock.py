"""One clock for the hosts of a launch: the offset of a host's CLOCK_MONOTONIC from the requester's.

As in NTP, the fastest of many round trips bounds the offset to half its duration. Clocks drift apart, so a host
keeps asking while its ranks run.
"""

import os
import socket
import struct
import threading
import time
from pathlib import Path

BOOT = Path("/proc/sys/kernel/random/boot_id")
NAMESPACE = Path("/proc/self/ns/time")  # since Linux 5.6; a container may have one with a clock of its own
QUESTIONS = 100  # before a launch
DRIFT = 500e-6  # at most, of a clock steered by Linux (include/linux/timex.h: MAXFREQ)
PATIENCE_S = 0.2  # with an answer: datagrams get lost
_STAMP = struct.Struct("!q")


def boot() -> str:
    """Identify this boot of this machine and the time namespace: equal ones share CLOCK_MONOTONIC."""
    namespace = os.readlink(NAMESPACE) if NAMESPACE.exists() else ""
    return f"{BOOT.read_text().strip()} {namespace}".strip()


class ClockServer:
    """Answers datagrams at `port` with this process's CLOCK_MONOTONIC, until closed."""

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
        self._socket.close()


class Followed:
    """The clock of a `ClockServer`, asked repeatedly.

    Attributes:
        offset_ns: Server's CLOCK_MONOTONIC minus this host's.
        off_by_ns: Largest possible error of the offset until the last answer.
    """

    def __init__(self, address: str, port: int) -> None:
        """Ask for the first offset; OSError if nothing answers."""
        self._where = address, port
        self._asked_ns = time.monotonic_ns()
        self.offset_ns, self.off_by_ns = offset_ns(address, port, QUESTIONS)
        self._within_ns = self.off_by_ns

    def ask(self) -> None:
        """Ask once more.

        A slow answer changes nothing: the known offset holds, within its possible drift since.
        """
        asked_ns = time.monotonic_ns()
        try:
            told, told_within = offset_ns(*self._where, 1)
        except OSError:  # lost on its way, or the launch is over
            return
        known_within = self._within_ns + round((asked_ns - self._asked_ns) * DRIFT)
        low = max(self.offset_ns - known_within, told - told_within)
        high = min(self.offset_ns + known_within, told + told_within)
        if low > high:  # a clock drifts faster, or was set: the new answer is right
            low, high = told - told_within, told + told_within
        offset, self._within_ns, self._asked_ns = (low + high) // 2, (high - low + 1) // 2, asked_ns
        self.off_by_ns = max(self.off_by_ns, abs(offset - self.offset_ns) + self._within_ns)
        self.offset_ns = offset


def offset_ns(address: str, port: int, questions: int) -> tuple[int, int]:
    """Return (server's CLOCK_MONOTONIC minus this host's, its largest error) in ns.

    Raises:
        OSError: Nothing answers.
    """
    best: tuple[int, int] | None = None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(PATIENCE_S)
        asking.connect((address, port))
        for number in range(questions):
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
