"""The contract of launchers (`launching/launcher.py`), for all that the loader finds: a new one adds its row."""

import inspect
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from overlayccl_core import loader
from overlayccl_core.backends.torchdist import backend
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.launching.fingerprint import one_machine, part
from overlayccl_core.launching.launcher import FOLDER, Launcher, launcher_of
from overlayccl_core.launching.local_ranks import LOOPBACK
from overlayccl_core.timing.batch import time_programs
from tests.backends.test_protocol import declared
from tests.launching.test_nodes import launchers
from tests.timing.batches import batch, deployment, jobs, silent, two_nodes

__all__ = ["launchers"]  # the plug-ins of tests; no process of a launch is left


@dataclass(frozen=True, kw_only=True)
class Row:
    """A launcher.

    Attributes:
        on: A deployment that it starts on this host, with its `options`, `commands` and `variables`. If it binds
            its agents, to one core.
        refuses: One that it refuses where no command is found; None: it refuses none.
        reason: Words of the refusal.
        commands: Scripts in place of commands that this host may not have.
    """

    launcher: str
    on: Deployment
    options: Mapping[str, str] = field(default_factory=dict)
    refuses: Deployment | None = None
    reason: tuple[str, ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def starts(self) -> Deployment:
        return self.on.changed(launcher=self.launcher, launcher_options=dict(self.options))


OF_SLURM = {  # srun: the last three words are the shell of a task
    "srun": 'for node in 0 1; do SLURM_NODEID=$node "${@: -3}" & done; wait',
    "squeue": "echo 'n[1-2]'",
    "scontrol": "for node in n1 n2; do echo NodeName=$node Arch=x86_64 NodeAddr=127.0.0.1; done",
    "sbatch": "",
}
TWO_NODES = two_nodes(launcher="here")
ROWS = (
    Row(
        launcher="here",
        on=deployment(),
        refuses=TWO_NODES,
        reason=("its 4 ranks are on 2 nodes", "set launcher to slurm"),
    ),
    Row(launcher="processes", on=TWO_NODES),
    Row(
        launcher="namespaces",
        on=TWO_NODES,
        options={"rate": "1gbit"},
        refuses=TWO_NODES.changed(launcher_options={"rate": "1gbit"}),
        reason=("its 2 nodes are network namespaces", "no ip", "install iproute2"),
    ),
    Row(
        launcher="slurm",
        on=TWO_NODES,
        refuses=TWO_NODES,
        reason=("4 ranks run on 2 nodes", "no sbatch and no srun and no squeue", "--profile local"),
        commands=OF_SLURM,
        variables={"SLURM_JOB_ID": "1"},
    ),
)
of_each = pytest.mark.parametrize("row", [pytest.param(row, id=row.launcher) for row in ROWS])


@pytest.fixture
def launcher(row: Row, launchers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launcher:
    """The launcher of a row, on a host that has what it needs."""
    commands = tmp_path / "commands"
    commands.mkdir()
    for name, script in row.commands.items():
        (commands / name).write_text(f"#!/bin/bash\n{script}\n")
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    for name, value in row.variables.items():
        monkeypatch.setenv(name, value)
    return launcher_of(row.starts)


@pytest.mark.usefixtures("plug_ins")
def test_each_launcher_has_its_row() -> None:
    assert sorted(row.launcher for row in ROWS) == list(loader.names(FOLDER))


@of_each
def test_it_defines_all_members_with_the_same_arguments(launcher: Launcher) -> None:
    for member, wanted in declared(Launcher).items():
        there = inspect.signature(getattr(launcher, member)).parameters.values()
        kinds = [(one.kind, one.default) for one in wanted.parameters.values()]
        assert [(one.kind, one.default) for one in there] == kinds, member


@of_each
def test_it_refuses_what_it_cannot_start_with_the_reason(
    row: Row, launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert launcher.refuses(row.starts) == launcher.refuses_here(row.starts) == ""
    if row.refuses is None:
        return
    monkeypatch.setenv("PATH", str(tmp_path))
    told = launcher.refuses(row.refuses.changed(launcher=row.launcher))
    assert told.startswith(f"deployment {row.refuses.name}: ")
    assert [words for words in row.reason if words not in told] == [], told


@of_each
def test_it_knows_its_options_alone_and_each_makes_another_machine(row: Row, launcher: Launcher) -> None:
    unknown = row.starts.changed(launcher_options={"no_such": "1"})
    known = ", ".join(launcher.options) or "none"
    with pytest.raises(ValueError, match=rf"{row.launcher} knows no 'no_such': .*\({known}\)"):
        launcher_of(unknown)
    for name in launcher.options:
        one, other = (
            backend.fingerprint(row.starts.changed(launcher_options={name: value})) for value in ("1", "2")
        )
        assert f"launcher options {name}=1" in one and not one_machine(one, other)


@of_each
def test_its_machine_is_this_host_or_the_nodes_of_jobs(row: Row, launcher: Launcher) -> None:
    told = backend.fingerprint(row.starts)
    assert part(told, "launcher") == (row.launcher if launcher.agents else None)
    assert (part(told, "cpu") is not None) is launcher.this_host
    assert bool(launcher.job_resources(row.starts)) is not launcher.this_host
    if launcher.this_host:
        assert all(check.ok for check in launcher.doctor(row.starts, None))
    if launcher.agents:
        assert launcher.address(row.starts) in (LOOPBACK, "")  # empty: a socket file
    else:
        with pytest.raises(ValueError):
            launcher.address(row.starts)


@pytest.mark.ranks
@of_each
def test_its_ranks_are_timed_and_share_the_cores_of_their_agents(
    row: Row, launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents are bound to one core, whatever this process has; ranks without agents have its cores."""
    if launcher.agents:
        monkeypatch.setattr(launcher, "start", on_one_core(launcher))
    ranks, cores = row.starts.ranks, 1 if launcher.agents else len(os.sched_getaffinity(0))
    timed = time_programs(batch(tmp_path, jobs(ranks), deployment=row.starts), silent)
    assert [one.key for one in timed] == [job.key for job in jobs(ranks)]
    for one in timed:
        assert one.rounds >= 2 and min(one.samples_us) > 0 and set(one.slowest_rank) <= set(range(ranks))
        assert part(one.nodes, "cores") == (str(cores) if launcher.agents else None)
        assert one.oversubscribed is (row.starts.ranks_per_node > cores)


def on_one_core(launcher: Launcher) -> object:
    """Its `start`, for agents on one core."""
    start = launcher.start

    def bound(*told: object) -> object:
        mine = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(mine)})
        try:
            return start(*told)  # type: ignore[arg-type]
        finally:
            os.sched_setaffinity(0, mine)

    return bound
