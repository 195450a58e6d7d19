"""Agents of a deployment's nodes: started by its launcher, known by a token, connected to this process."""

import os
import secrets
import select
import socket
import subprocess
import tempfile
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.launching.failures import Failure, LaunchError
from overlayccl_core.launching.launch import POLL_S
from overlayccl_core.launching.launcher import launcher_of
from overlayccl_core.launching.lines import Lines, LostError, Message, listening
from overlayccl_core.launching.local_ranks import NODES_LOG, TOKEN

ANSWER_S = 300.0  # for agents to answer: a shared folder may be slow to give Python to all nodes
BACKLOG = 64  # for strangers at the port
INTRODUCTION_S = 5.0
END_S = 15.0  # for a process to end when told to


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """The agent of a node, or of one of its rails.

    Attributes:
        address: Other nodes find the node there.
        parts: Fingerprint parts of the node.
    """

    lines: Lines
    address: str
    host: str
    parts: Mapping[str, str]


class Agents:
    """The agents of a deployment's nodes; they serve launches, one after another, until `end`.

    Attributes:
        rails: Agents of a node.
        made_for: Their settings; a launch with others needs new agents.
        address: Address of this host for the agents; empty: they came by a socket file.

    Raises:
        LaunchError: Some agents did not come; the output so far is in `folder` then.
    """

    def __init__(self, deployment: Deployment, made_for: object, folder: Path) -> None:
        self.made_for = made_for
        self.deployment = deployment
        self.launches = 0
        self._met: dict[int, Agent] = {}
        launcher, token = launcher_of(deployment), secrets.token_hex(16)
        self.rails = launcher.rails(deployment)
        self.address = launcher.address(deployment)
        self._printed: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115  (as long as the process)
        with listening(self.address, self._wanted + BACKLOG) as (server, where):
            self.process = launcher.start(deployment, where, {TOKEN: token}, self._printed)
            weakref.finalize(self, _end, self.process, self._printed)
            try:
                self._meet(server, token)
            except BaseException:
                self.end()
                self.keep_printed(folder)
                raise

    @property
    def _wanted(self) -> int:
        return self.deployment.nodes * self.rails

    def _meet(self, server: socket.socket, token: str) -> None:
        """Wait until all have come. A stranger has INTRODUCTION_S to introduce itself."""
        strangers: dict[socket.socket, tuple[Lines, float]] = {}
        end = time.monotonic() + ANSWER_S
        try:
            while len(self._met) < self._wanted:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise self._not_all()
                for ready in select.select([server, *strangers], [], [], POLL_S)[0]:
                    if ready is server:
                        lines = Lines(server.accept()[0])
                        strangers[lines.connection] = lines, time.monotonic() + INTRODUCTION_S
                    elif (said := _introduced(strangers[ready][0], token)) != {}:
                        self._sort(strangers.pop(ready)[0], said)
                for late in [one for one, (_, until) in strangers.items() if time.monotonic() > until]:
                    self._sort(strangers.pop(late)[0], None)
        finally:
            for lines, _ in strangers.values():
                lines.close()

    def _sort(self, lines: Lines, said: Message | None) -> None:
        """Keep an agent with its introduction; send strangers away."""
        if said is None:
            lines.close()
        else:
            self._met[int(said["node"])] = Agent(
                lines=lines, address=said["address"] or lines.peer, host=said["host"], parts=said["parts"]
            )

    def _not_all(self) -> LaunchError:
        ended, parts = self.process.poll() is not None, "nodes" if self.rails == 1 else "rails"
        words = self._all_printed().decode(errors="replace").strip().splitlines()
        last = f" (the last it printed: {words[-1]})" if words else ""
        return LaunchError(
            f"{len(self._met)} of {self._wanted} {parts} answered, then what started them "
            + ("ended" if ended else f"was silent for {ANSWER_S:.0f} s")
            + last,
            kind=Failure.LAUNCHER,
            log=NODES_LOG,
        )

    @property
    def nodes(self) -> list[Agent]:
        """The agents in order of their ranks."""
        return [self._met[node] for node in sorted(self._met)]

    def there(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        for agent in self.nodes:
            agent.lines.close()
        _kill(self.process)

    def keep_printed(self, folder: Path) -> None:
        """Copy the output of agents and launcher so far into the folder of a failed launch."""
        if (printed := self._all_printed()) and folder.is_dir():
            (folder / NODES_LOG).write_bytes(printed)

    def _all_printed(self) -> bytes:
        """Read all output without moving the writers' position."""
        file = self._printed.fileno()
        return os.pread(file, os.fstat(file).st_size, 0)


def _introduced(lines: Lines, token: str) -> Message | None:
    """Return an agent's first message; {} while it is incomplete, None for a stranger."""
    try:
        said = lines.receive(0.0)
    except (LostError, ValueError, RecursionError):  # the last two: json's errors for a stranger's words
        return None
    if said is None:
        return {}
    known = isinstance(said, dict) and secrets.compare_digest(str(said.get("token")).encode(), token.encode())
    return said if known else None


def _end(process: "subprocess.Popen[bytes]", printed: BinaryIO) -> None:
    _kill(process)
    printed.close()


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """End the launcher's process; agents end once they lose their connection."""
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
