"""A launch whose ranks are on several nodes: an agent on each of them starts and watches the node's ranks.

A launcher (`launchers/`) starts the agents (`node_agent.py`), once for all launches of this thread. Each tells how
its ranks are; what is said here is of all ranks, as if they were on one host. The folder of a launch must be one
that all nodes share; the first node is to be this host, where one's batch job runs, because rank 0 writes what this
process reads while ranks run.
"""

import os
import secrets
import select
import socket
import subprocess
import threading
import time
import weakref

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.backends import clock
from overlayccl_core.backends.launch import (
    POLL_S,
    REPORT_PATIENCE_S,
    Failure,
    Launch,
    LaunchError,
    Watch,
    no_watch,
    who,
)
from overlayccl_core.backends.launcher import launcher_of
from overlayccl_core.backends.lines import Lines, LostError, Message
from overlayccl_core.backends.parts import LOG_FILE, TOKEN
from overlayccl_core.backends.status import NO_JOB, Phase, Status
from overlayccl_core.configuration.deployment import Deployment

ANSWER_S = 300.0  # in which agents answer: a shared folder may be slow to give Python to all nodes
BACKLOG = 64  # for whoever else knocks at the port
INTRODUCTION_S = 5.0
SILENT_S = 30.0  # without a word from a node whose ranks run: it is lost
END_S = 15.0  # in which an agent that is told to end its ranks has done so
FIRST = (
    Failure.LAUNCHER,
    Failure.CRASHED,
    Failure.NOT_JOINED,
    Failure.RAISED,
    Failure.HUNG,
)  # what causes others


def run(deployment: Deployment, plan: Launch, watch: Watch = no_watch) -> float:
    """Run the ranks of a deployment on all its nodes: what it gives and raises is what `launch.run` does."""
    return _agents_of(deployment).run(plan, watch)


_OF_THREAD = threading.local()


def _agents_of(deployment: Deployment) -> "_Agents":
    """The agents that ran this thread's last launch, where they are those of the deployment and still there."""
    agents: _Agents | None = getattr(_OF_THREAD, "agents", None)
    wanted = (deployment, os.getcwd(), dict(os.environ))
    if agents is None or agents.made_for != wanted or not agents.there():
        if agents is not None:
            agents.end()
        agents = _OF_THREAD.agents = _Agents(deployment, wanted)
    return agents


class _Agents:
    """The agents of a deployment's nodes, connected."""

    def __init__(self, deployment: Deployment, made_for: object) -> None:
        self.made_for = made_for
        self.deployment = deployment
        self.launches = 0
        token = secrets.token_hex(16)
        with socket.create_server(("", 0), backlog=deployment.nodes + BACKLOG) as server:
            self.process = launcher_of(deployment).start(deployment, server.getsockname()[1], {TOKEN: token})
            weakref.finalize(self, _kill, self.process)
            try:
                self.lines, self.hosts = self._met(server, token)
            except BaseException:
                self.end()
                raise

    def _met(self, server: socket.socket, token: str) -> tuple[list[Lines], list[str]]:
        """The connections to the agents and the names of their hosts, by node."""
        met: dict[int, tuple[Lines, str]] = {}
        end = time.monotonic() + ANSWER_S
        while len(met) < self.deployment.nodes:
            if self.process.poll() is not None or time.monotonic() > end:
                raise LaunchError(
                    f"{len(met)} of {self.deployment.nodes} nodes answered, then what started them "
                    + ("ended" if self.process.poll() is not None else f"was silent for {ANSWER_S:.0f} s"),
                    kind=Failure.LAUNCHER,
                    ranks=(),
                )
            if select.select([server], [], [], POLL_S)[0]:
                lines = Lines(server.accept()[0])
                if (said := _introduced(lines, token)) is None:
                    lines.close()  # a stranger
                else:
                    met[int(said["node"])] = lines, said["host"]
        return [met[node][0] for node in sorted(met)], [met[node][1] for node in sorted(met)]

    def there(self) -> bool:
        """Whether what started them still runs."""
        return self.process.poll() is None

    def end(self) -> None:
        """End all of them."""
        for lines in getattr(self, "lines", ()):
            lines.close()
        _kill(self.process)

    def run(self, plan: Launch, watch: Watch) -> float:
        """One launch."""
        launched = _Launched(self, plan)
        try:
            launched.begin()
            while not launched.all_done():
                launched.look(POLL_S)
                watch(launched.rows)
            return launched.end()
        except BaseException:
            launched.break_off()
            raise


def _introduced(lines: Lines, token: str) -> Message | None:
    """What an agent says first; None of anybody else."""
    try:
        said = lines.receive(INTRODUCTION_S)
        known = isinstance(said, dict) and secrets.compare_digest(str(said.get("token", "")), token)
        return said if known else None
    except (LostError, ValueError):
        return None


class _Launched:
    """A launch on its way: status of all ranks, as the agents told it."""

    def __init__(self, agents: _Agents, plan: Launch) -> None:
        self.agents = agents
        self.plan = plan
        self.per_node = plan.ranks // len(agents.lines)
        self.rows: NDArray[np.int64] = np.zeros((plan.ranks, 6), np.int64)
        self.rows[:, Status.JOB] = NO_JOB
        self.ports: dict[int, int] = {}
        self.clock_off_by_ns = 0
        self.shares: dict[int, float] = {}
        self.failed: dict[int, LaunchError] = {}
        self.begun: set[int] = set()
        self.heard_at: dict[int, float] = {}
        agents.launches += 1
        self.number = agents.launches

    def begin(self) -> None:
        """Start the ranks of the first node, where the store is made, then all others."""
        self.clock = clock.ClockServer("")
        self._ask(0, port=0)
        while 0 not in self.ports:
            self.look(POLL_S)
        for node in range(1, len(self.agents.lines)):
            self._ask(node, port=self.ports[0])

    def _ask(self, node: int, port: int) -> None:
        part = {
            "first": node * self.per_node,
            "count": self.per_node,
            "ranks": self.plan.ranks,
            "address": self._store_address(),
            "port": port,
        }
        self._tell(
            node,
            {
                "number": self.number,
                "launch": self.plan.to_json(),
                "part": part,
                "log": LOG_FILE if node == 0 else LOG_FILE.replace(".", f"-{node}."),
                "deployment": self.agents.deployment.to_json(),
                "boot": clock.boot(),
                "clock": self.clock.port,
            },
        )
        self.begun.add(node)

    def _tell(self, node: int, message: Message) -> None:
        """Say something to an agent, which may be gone."""
        try:
            self.agents.lines[node].send(message)
        except LostError:
            self.failed[node] = self._lost(node)

    def _lost(self, node: int) -> LaunchError:
        return LaunchError(
            f"node {self.agents.hosts[node]} was lost, with ranks {node * self.per_node} to "
            f"{(node + 1) * self.per_node - 1} of {self.plan.ranks}",
            kind=Failure.LAUNCHER,
            ranks=(),
        )

    def _store_address(self) -> str:
        """Where all nodes find the first one: the address from which it came, or that of this host."""
        first = self.agents.lines[0]
        others = [lines.connection.getsockname()[0] for lines in self.agents.lines[1:]]
        return others[0] if first.peer.startswith("127.") and others else first.peer

    def look(self, seconds: float) -> None:
        """Take in what agents say within some seconds; LaunchError if ranks failed."""
        self._listen(seconds)
        if self.failed:
            end = time.monotonic() + REPORT_PATIENCE_S
            while len(self.failed) < len(self.begun) and time.monotonic() < end:
                self._listen(POLL_S)
            raise self._first_failed()

    def _listen(self, seconds: float) -> None:
        waiting = [one for node, one in enumerate(self.agents.lines) if node not in self.failed]
        ready, _, _ = select.select([lines.connection for lines in waiting], [], [], seconds)
        for node, lines in enumerate(self.agents.lines):
            if lines.connection not in ready:
                continue
            try:
                while (message := lines.receive(0.0)) is not None:
                    self._take(node, message)
            except LostError:
                self.failed[node] = self._lost(node)
        for node in set(self.ports) - set(self.failed) - set(self.shares):
            if time.monotonic() - self.heard_at[node] > SILENT_S:
                self.failed[node] = self._lost(node)

    def _take(self, node: int, message: Message) -> None:
        if message["number"] != self.number:
            return  # late, of a launch before
        self.heard_at[node] = time.monotonic()
        for row, values in message.get("rows", ()):
            self.rows[node * self.per_node + row] = values
        if "port" in message:
            self.ports[node] = message["port"]
            self.clock_off_by_ns = max(self.clock_off_by_ns, message["clock_off_by_ns"])
        if "ended" in message:
            self.shares[node] = message["ended"]
        if "failed" in message:
            self.failed[node] = LaunchError.from_json(message["failed"])

    def _first_failed(self) -> LaunchError:
        """Which failure began it: others break off because of it."""
        first = min(self.failed.values(), key=lambda error: (FIRST.index(error.kind), error.at_ns))
        return self._hung() if first.kind is Failure.HUNG else first

    def _hung(self) -> LaunchError:
        """The ranks of all nodes that took the fewest steps hold up the others."""
        hung = [error for error in self.failed.values() if error.kind is Failure.HUNG]
        steps = self.rows[:, Status.STEPS]
        fewest = min(steps[list(error.ranks)].min() for error in hung)
        behind = [error for error in hung if steps[list(error.ranks)].min() == fewest]
        ranks = tuple(sorted(rank for error in behind for rank in error.ranks))
        return LaunchError(
            f"{who(ranks)} of {behind[0].said.partition(' of ')[2]}",
            kind=Failure.HUNG,
            ranks=ranks,
            job=behind[0].job,
        )

    def all_done(self) -> bool:
        """Whether every rank has said so."""
        return bool((self.rows[:, Status.PHASE] == Phase.DONE).all())

    def end(self) -> float:
        """Let the ranks go. The share of the CPU that others took, on the node where that was most."""
        nodes = range(len(self.agents.lines))
        for node in nodes:
            self._tell(node, {"all done": True})
        end = time.monotonic() + END_S
        while len(self.shares) < len(nodes):
            self.look(POLL_S)
            if time.monotonic() > end:
                self.failed |= {node: self._lost(node) for node in nodes if node not in self.shares}
        self.clock.close()
        return max(self.shares.values())

    def break_off(self) -> None:
        """End the ranks of every node; agents that do not answer are ended themselves."""
        self.clock.close()
        for node in self.begun - set(self.failed):
            self._tell(node, {"break off": True})
        end = time.monotonic() + END_S
        while set(self.shares) | set(self.failed) < self.begun and time.monotonic() < end:
            self._listen(POLL_S)
        if set(self.shares) | set(self.failed) < self.begun or any(
            error.kind is Failure.LAUNCHER for error in self.failed.values()
        ):
            self.agents.end()


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """End what started the agents; they end when nobody is connected any more."""
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
