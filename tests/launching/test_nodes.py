"""Launches over several nodes: the same figures, errors and clean ends as on one host."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from overlayccl_core.backends.rank import write_joining
from overlayccl_core.backends.torchdist.backend import run_once
from overlayccl_core.backends.trials import Trial
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.launching import nodes
from overlayccl_core.launching.failures import Failure, LaunchError
from overlayccl_core.launching.launch import Launch
from overlayccl_core.launching.launcher import AGENT
from overlayccl_core.launching.status import Phase, StatusFile
from overlayccl_core.timing.batch import time_programs
from tests.on_ranks import integer_inputs, meaning
from tests.timing import batches
from tests.timing.batches import batch, broken_job, jobs, settings, silent

pytestmark = pytest.mark.ranks
PLUGINS = Path(__file__).parents[1] / "plugins"


@pytest.fixture(autouse=True)
def launchers(plug_ins: None) -> Iterator[None]:
    """The launcher of tests; no process of a launch is left."""
    yield
    if (agents := getattr(nodes._OF_THREAD, "agents", None)) is not None:
        agents.end()
    end = time.monotonic() + 10
    while agents_here() and time.monotonic() < end:
        time.sleep(0.1)
    assert agents_here() == []


def agents_here() -> list[int]:
    """Agents and what starts ranks for them."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            found += [process.pid] if process.cmdline()[1:4] == ["-P", "-m", AGENT] else []
    return found


def two_nodes() -> Deployment:
    return batches.two_nodes(launcher="processes")


def test_values_come_from_all_nodes(tmp_path: Path) -> None:
    trials = []
    for job in jobs(4):
        inputs = integer_inputs(job.program, 1)
        trials.append(Trial(job=job, inputs=inputs))
    for trial, seen in zip(trials, run_once(two_nodes(), tmp_path, trials), strict=True):
        for port, want in meaning(trial.job.program, trial.inputs).items():
            assert (seen.outputs[port] == want).all()


@pytest.mark.parametrize(
    ("statement", "kind", "said"),
    [
        ("raise RuntimeError('no luck')", Failure.RAISED, "rank 3 of 4 .*no luck"),
        ("__import__('os').kill(__import__('os').getpid(), 9)", Failure.CRASHED, "rank 3 of 4 .*SIGKILL"),
        ("__import__('time').sleep(60)", Failure.HUNG, ", 3 of 4 .* 4 s"),
    ],
    ids=["raises", "dies", "hangs"],
)
def test_a_rank_of_the_second_node_that_fails_is_named_and_the_next_launch_runs(
    statement: str, kind: Failure, said: str, tmp_path: Path
) -> None:
    broken = broken_job(statement, 4, rank=3)
    begun = time.monotonic()
    with pytest.raises(LaunchError, match=said) as error:
        time_programs(
            batch(tmp_path, [broken], deployment=two_nodes(), settings=settings(program_timeout_s=4.0)),
            silent,
        )
    assert error.value.kind is kind and "the broken one" in str(error.value)
    assert time.monotonic() - begun < 60
    if kind is not Failure.CRASHED:
        return
    timed = time_programs(batch(tmp_path / "again", jobs(4), deployment=two_nodes()), silent)
    assert len(timed) == len(jobs(4))


def test_a_node_that_is_lost_is_named(tmp_path: Path) -> None:
    def watch(rows: Any) -> None:
        if (rows[:, StatusFile.PHASE] == Phase.JOINING).all():
            os.kill(max(agents_here()), 9)

    (tmp_path / "todo").write_text("\n".join(["rank"] * 4))
    launch = Launch(worker="tests.launching.fork_worker", folder=tmp_path, ranks=4)
    write_joining(tmp_path, two_nodes())
    with pytest.raises(LaunchError, match=r"lost.*ranks . to . of 4") as error:
        nodes.run(two_nodes(), launch, watch)
    assert error.value.kind is Failure.LAUNCHER


def test_a_folder_that_the_nodes_do_not_see_is_told_with_the_mend(tmp_path: Path) -> None:
    launch = Launch(worker="tests.launching.fork_worker", folder=tmp_path / "elsewhere", ranks=4)
    with pytest.raises(LaunchError, match=r"not see .*elsewhere: run") as error:
        nodes.run(two_nodes(), launch)
    assert error.value.kind is Failure.LAUNCHER
