"""Launches with ranks on several nodes, or on another one: an agent on each starts and watches the node's ranks.

A launcher (`launchers/`) starts the agents (`node_agent.py`), once for all launches of this thread. Each agent
reports its own ranks; here they are put together, as if all were on one host. All nodes must share the launch's
folder. The first node should be this host, the batch job's: rank 0 writes files for this process while ranks run.
"""

import os
import select
import threading
import time
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.launching import clock, processes
from overlayccl_core.launching.agents import ANSWER_S, Agents
from overlayccl_core.launching.failures import Failure, LaunchError
from overlayccl_core.launching.foreign_cpu import ForeignCpu
from overlayccl_core.launching.launch import POLL_S, REPORT_PATIENCE_S, Launch, Watch, no_watch, who
from overlayccl_core.launching.launcher import launcher_of
from overlayccl_core.launching.lines import LostError, Message
from overlayccl_core.launching.local_ranks import LOOPBACK, log_of
from overlayccl_core.launching.node_report import NodeReport, nodes_text
from overlayccl_core.launching.processes import KILLED_S
from overlayccl_core.launching.status import NO_JOB, WIDTH, Phase, StatusFile
from overlayccl_core.tables.plain import of_data, plain

SILENT_S = END_S = KILLED_S + 30.0  # of silence: a node is lost; agents are silent while they end their ranks
FIRST = (
    Failure.DISK,
    Failure.LAUNCHER,
    Failure.CRASHED,
    Failure.NOT_JOINED,
    Failure.RAISED,
    Failure.HUNG,
)  # causes first, then effects


def run(deployment: Deployment, plan: Launch, watch: Watch = no_watch) -> float:
    """Run the ranks of a deployment on all its nodes; returns and raises like `launch.run`."""
    agents = _agents_of(deployment, plan)
    launched = _Launched(agents, plan)
    try:
        launched.begin()
        while not launched.all_done():
            launched.look(POLL_S)
            watch(launched.rows)
        return launched.end()
    except BaseException:
        launched.break_off()
        agents.keep_printed(plan.folder)
        raise


_OF_THREAD = threading.local()


def _agents_of(deployment: Deployment, plan: Launch) -> Agents:
    """Return the agents of this thread's last launch if they fit the deployment and still run, else new ones."""
    agents: Agents | None = getattr(_OF_THREAD, "agents", None)
    wanted = (deployment, os.getcwd(), dict(os.environ))
    if agents is None or agents.made_for != wanted or not agents.there():
        if agents is not None:
            agents.end()
        agents = _OF_THREAD.agents = Agents(deployment, wanted, plan.folder)
    return agents


def first_of(failures: Iterable[LaunchError]) -> LaunchError:
    """Return the first of the failures on several nodes; it made the others break off.

    A rank that raises after ranks elsewhere were found to hang does so because those are ended.
    """
    failures = tuple(failures)
    found_ns = min((error.at_ns for error in failures if error.kind is Failure.HUNG), default=None)
    causes = (
        error
        for error in failures
        if found_ns is None or error.kind is not Failure.RAISED or error.at_ns < found_ns
    )
    return min(causes, key=lambda error: (FIRST.index(error.kind), error.at_ns))


def _on_node(error: LaunchError, host: str, log: str) -> LaunchError:
    return replace(error, said=f"node {host}: {error.said}", log=log)


class _Launched:
    """A launch on its way: status of all ranks, as reported by the agents."""

    def __init__(self, agents: Agents, plan: Launch) -> None:
        self.agents = agents
        self.nodes = agents.nodes
        self.plan = plan
        self.per_node = plan.ranks // len(agents.nodes)
        self.rows: NDArray[np.int64] = np.zeros((plan.ranks, WIDTH), np.int64)
        self.rows[:, StatusFile.JOB] = NO_JOB
        self.ports: dict[int, int] = {}
        self.clocks_off_by_ns = [0] * len(agents.nodes)
        self.shares: dict[int, float] = {}
        self.failed: dict[int, LaunchError] = {}
        self.begun: set[int] = set()
        self.heard_at: dict[int, float] = {}
        self.clock = clock.ClockServer(agents.address or LOOPBACK)
        self.on_this_host = launcher_of(agents.deployment).this_host
        self.foreign_cpu = ForeignCpu()
        agents.launches += 1
        self.number = agents.launches

    def begin(self) -> None:
        """Start the ranks of the first node with the store, then all others."""
        self._keep_told()
        self._ask(0, port=0)
        while 0 not in self.ports:
            self.look(POLL_S)
        for node in range(1, len(self.nodes)):
            self._ask(node, port=self.ports[0])

    def _ask(self, node: int, port: int) -> None:
        part = {
            "first": node * self.per_node,
            "count": self.per_node,
            "ranks": self.plan.ranks,
            "address": self.nodes[0].address,
            "port": port,
        }
        self._tell(
            node,
            {
                "number": self.number,
                "launch": plain(self.plan),
                "part": part,
                "log": log_of(node),
                "deployment": self.agents.deployment.to_json(),
                "boot": clock.boot(),
                "clock": self.clock.port,
            },
        )
        self.begun.add(node)
        self.heard_at[node] = time.monotonic()

    def _tell(self, node: int, message: Message) -> None:
        """Send a message to an agent; count it as lost if it is gone."""
        try:
            self.nodes[node].lines.send(message)
        except LostError:
            self.failed[node] = self._lost(node)

    def _lost(self, node: int) -> LaunchError:
        ranks = f"ranks {node * self.per_node} to {(node + 1) * self.per_node - 1} of {self.plan.ranks}"
        return LaunchError(
            f"node {self.nodes[node].host} was lost, with {ranks}",
            kind=Failure.LAUNCHER,
            log=log_of(node),
        )

    def look(self, seconds: float) -> None:
        """Take in the agents' messages of some seconds; LaunchError if ranks failed."""
        self._listen(seconds)
        if self.on_this_host and (self.rows[:, StatusFile.PHASE] == Phase.TIMING).all():
            self.foreign_cpu.look(lambda: processes.tree(self.agents.process.pid))
        if self.failed:
            end = time.monotonic() + REPORT_PATIENCE_S
            while len(self.failed) < len(self.begun) and time.monotonic() < end:
                self._listen(POLL_S)
            raise self._first_failed()

    def _listen(self, seconds: float) -> None:
        listened = {
            agent.lines.connection: node for node, agent in enumerate(self.nodes) if node not in self.failed
        }
        for connection in select.select([*listened], [], [], seconds)[0]:
            node = listened[connection]
            try:
                while (message := self.nodes[node].lines.receive(0.0)) is not None:
                    self._take(node, message)
            except LostError:
                self.failed[node] = self._lost(node)
        for node in self.begun - set(self.failed) - set(self.shares):
            silent_s = time.monotonic() - self.heard_at[node]
            if silent_s > (SILENT_S if node in self.ports else ANSWER_S):
                self.failed[node] = self._lost(node)

    def _take(self, node: int, message: Message) -> None:
        if message["number"] != self.number:
            return  # late, of an earlier launch
        self.heard_at[node] = time.monotonic()
        for row, values in message.get("rows", ()):
            self.rows[node * self.per_node + row] = values
        if message["clock_off_by_ns"] > self.clocks_off_by_ns[node]:
            self.clocks_off_by_ns[node] = message["clock_off_by_ns"]
            self._keep_told()
        if "port" in message:
            self.ports[node] = message["port"]
        if "ended" in message:
            self.shares[node] = message["ended"]
        if "failed" in message:
            error = of_data(LaunchError, message["failed"])
            self.failed[node] = _on_node(error, self.nodes[node].host, log_of(node))

    def _keep_told(self) -> None:
        """Write down the nodes, and how much two clocks may have differed so far."""
        told = NodeReport(
            nodes=nodes_text([(agent.host, agent.parts) for agent in self.nodes[:: self.agents.rails]]),
            clock_off_by_ns=sum(sorted(self.clocks_off_by_ns)[-2:]),
            fewest_cores=min(int(agent.parts["cores"]) for agent in self.nodes)
            / (self.agents.deployment.nodes if self.on_this_host else 1),
        )
        if self.plan.folder.is_dir():
            told.write(self.plan.folder)

    def _first_failed(self) -> LaunchError:
        """Return the first failure; a hang is judged over all nodes."""
        first = first_of(self.failed.values())
        return self._hung() if first.kind is Failure.HUNG else first

    def _hung(self) -> LaunchError:
        """Blame the hanging ranks with the fewest steps of all nodes: they hold up the others."""
        hung = [error for error in self.failed.values() if error.kind is Failure.HUNG]
        steps = self.rows[:, StatusFile.STEPS]
        fewest = min(steps[list(error.ranks)].min() for error in hung)
        behind = [error for error in hung if steps[list(error.ranks)].min() == fewest]
        ranks = tuple(sorted(rank for error in behind for rank in error.ranks))
        hosts = dict.fromkeys(self.nodes[rank // self.per_node].host for rank in ranks)
        said = f"{who(ranks)} of {behind[0].said.partition(' of ')[2]}"
        return _on_node(replace(behind[0], said=said, ranks=ranks), ", ".join(hosts), behind[0].log)

    def all_done(self) -> bool:
        return bool((self.rows[:, StatusFile.PHASE] == Phase.DONE).all())

    def end(self) -> float:
        """Let the ranks go; return the highest of the nodes' CPU shares taken by others.

        Nodes of one host would take each other for others: there it is what this process sees.
        """
        nodes = range(len(self.nodes))
        for node in nodes:
            self._tell(node, {"all done": True})
        end = time.monotonic() + END_S
        while len(self.shares) < len(nodes):
            self.look(POLL_S)
            if time.monotonic() > end:
                self.failed |= {node: self._lost(node) for node in nodes if node not in self.shares}
        self.clock.close()
        return self.foreign_cpu.share if self.on_this_host else max(self.shares.values())

    def break_off(self) -> None:
        """End the ranks of every node, and the agents if one does not answer or failed as `Failure.LAUNCHER`."""
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
