"""Two hosts with a shaped link on this machine: the wire is the cost, and nothing of it stays behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from overlayccl_core.backends.measured import Job
from overlayccl_core.backends.torchdist import backend
from overlayccl_core.cli.main import main
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.launching.failures import LaunchError
from overlayccl_core.launching.launchers import namespaces
from overlayccl_core.measuring.statistics import estimate
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.timing.batch import time_programs
from overlayccl_core.timing.selftest import Selftest
from tests.hosts import hosts_or_skip
from tests.on_ranks import here
from tests.small_problems import exchange, strategy
from tests.timing.batches import batch, jobs, settings, silent

DEPLOYMENTS = Path(__file__).parents[3] / "config/deployments"
KIB = 2**10
NEAR, FAR = [[0, 1], [2, 3]], [[0, 2], [1, 3]]
SUMS = {
    "flat": "all_reduce(x)",
    "hierarchical": f'all_gather(all_reduce(reduce_scatter(x, 0, {NEAR}), "sum", {FAR}), 0, {NEAR})',
}
WORDS = "all_gather, all_reduce, reduce_scatter"


@pytest.fixture
def slow() -> Deployment:
    """Two hosts of two ranks at 100 Mbit/s; skipped where nobody may make namespaces."""
    deployment = load(DEPLOYMENTS / "two-tier-slow.yaml").changed(largest_payload_bytes=2**20)
    return hosts_or_skip(deployment)


def of_sums(deployment: Deployment, *payloads: int) -> list[Job]:
    """All_reduces of x, flat and in two tiers: job `hierarchical of 256 KiB`."""
    made = []
    for payload in payloads:
        shape = (payload // 4,)
        problem = exchange(4, {"x": shape}, {"y": shape}, ranks_per_node=deployment.ranks_per_node)
        for name, way in SUMS.items():
            source = f'x = io.read("x")\nio.write("y", {way})'
            program = trace_source(strategy(source, WORDS), "tried", problem)
            key = f"{name} of {payload // KIB} KiB"
            made.append(Job(key=key, program=program, source=backend.emit(program)))
    return made


def flat_over_hierarchical(tmp_path: Path, deployment: Deployment, *payloads: int) -> list[float]:
    """The ratio of their times, at each payload, from one launch."""
    told = settings(minimum_rounds=6, maximum_rounds=10)
    timed = time_programs(
        batch(tmp_path, of_sums(deployment, *payloads), deployment=deployment, settings=told), silent
    )
    us = {one.key: estimate(one.samples_us).value for one in timed}
    return [us[f"flat of {p // KIB} KiB"] / us[f"hierarchical of {p // KIB} KiB"] for p in payloads]


@pytest.mark.ranks
def test_two_tiers_win_on_a_slow_link_and_lose_without_one(slow: Deployment, tmp_path: Path) -> None:
    """Flat sends 1.5 times the bytes over the link; on loopback two tiers only add copies."""
    for ratio in flat_over_hierarchical(tmp_path / "slow", slow, 256 * KIB, 1024 * KIB):
        assert ratio > 1.15
    loopback = here(4)
    assert flat_over_hierarchical(tmp_path / "loopback", loopback, 4096 * KIB)[0] < 0.9


@pytest.mark.ranks
def test_tiers_and_link_are_as_declared_and_others_are_refused(
    slow: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = Selftest(deployment=slow, backend=backend, folder=tmp_path, progress=silent)  # type: ignore[arg-type]
    assert (checks._tiers()["outcome"], checks._link()["outcome"]) == ("pass", "pass")
    monkeypatch.setattr(namespaces, "link_bytes_per_s", lambda _: 1e9 / 8)
    row = checks._link()
    assert row["outcome"] == "fail"
    assert "of 1000 Mbit/s in all_gather over 2, 2 ranks apart of 4 ranks" in row["detail"]


@pytest.mark.ranks
@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("name", ["four-hosts", "seven-hosts"])
def test_more_hosts_time_the_same_programs(name: str, tmp_path: Path) -> None:
    deployment = load(DEPLOYMENTS / f"{name}.yaml")
    of = jobs(deployment.ranks, ("reduce", "twice"))
    timed = time_programs(
        batch(tmp_path, of, deployment=deployment, settings=settings(maximum_rounds=2)), silent
    )
    assert [one.nodes.split()[0] for one in timed] == [str(deployment.nodes)] * 2
    assert all(one.oversubscribed for one in timed)


FOREVER = """
import sys
from pathlib import Path
from overlayccl_core.configuration.deployment import load
from overlayccl_core.launching import nodes
from overlayccl_core.launching.launch import Launch
from overlayccl_core.backends.rank import write_joining
deployment, folder = load(sys.argv[1]), Path(sys.argv[2])
write_joining(folder, deployment)
(folder / "todo").write_text("wait\\n" * 4)
nodes.run(deployment, Launch(worker="tests.launching.fork_worker", folder=folder, ranks=4))
"""


@pytest.mark.ranks
@pytest.mark.usefixtures("slow")
def test_a_requester_that_is_killed_leaves_no_process_and_so_no_network(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FOREVER, str(DEPLOYMENTS / "two-tier-slow.yaml"), str(tmp_path)]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(DEPLOYMENTS.parents[1])})
    wait_for(lambda: len(list(tmp_path.glob("pid-*"))) == 4)
    below = psutil.Process(process.pid).children(recursive=True)
    links = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True).stdout
    assert len(below) >= 4 and "port0" not in links  # they are in namespaces of these processes
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_for(lambda: not any(one.is_running() for one in below))


def wait_for(what: object, seconds: float = 60.0) -> None:
    """Until it holds."""
    end = time.monotonic() + seconds
    while not what():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.parametrize("rate", ["", "fast", "100", "0mbit"])
def test_a_rate_that_is_none_is_refused_with_the_mend(rate: str) -> None:
    deployment = load(DEPLOYMENTS / "two-tier.yaml").changed(launcher_options={"rate": rate})
    assert f"{rate!r} is no rate of a link: write 100mbit or 1gbit" in namespaces.refuses(deployment)


@pytest.mark.parametrize(
    ("command", "script", "said"),
    [
        ("unshare", "echo unshare failed: Operation not permitted >&2; exit 1", "as root with CAP_SYS_ADMIN"),
        (
            "tc",
            "echo Error: Specified qdisc kind is unknown. >&2; exit 2",
            "cannot shape a link to 1gbit.*sch_tbf",
        ),
        ("ip", 'case "$*" in *bridge) echo Unknown device type >&2; exit 2;; esac', "no bridge.*modprobe"),
    ],
)
def test_what_a_machine_lacks_is_told_in_a_line_with_the_mend(
    command: str, script: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking(command, script, tmp_path, monkeypatch)
    told = namespaces.refuses(load(DEPLOYMENTS / "two-tier.yaml"))
    with pytest.raises(ValueError, match=f"^deployment two-tier: .*{said}"):
        raise ValueError(told)
    assert "\n" not in told


@pytest.mark.ranks
def test_a_link_that_cannot_be_made_ends_the_launch_with_what_tc_said(
    slow: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not namespaces.refuses(slow)  # it was asked before tc is broken
    lacking("tc", "echo Error: no luck. >&2; exit 2", tmp_path, monkeypatch, forget=False)
    with pytest.raises(LaunchError, match=r"0 of 2 nodes answered.*no luck"):
        time_programs(batch(tmp_path / "batch", jobs(4), deployment=slow), silent)


def lacking(
    command: str, script: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *, forget: bool = True
) -> None:
    """Put a script in the place of a command."""
    (folder / command).write_text(f"#!/bin/sh\n{script}\n")
    (folder / command).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    if forget:
        monkeypatch.setattr(namespaces, "_tried", namespaces._tried.__wrapped__)


def test_the_doctor_counts_all_ranks_as_its_hosts_share_this_one(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", "--root", str(DEPLOYMENTS.parents[1]), "--deployment", "four-hosts"])
    cores = len(os.sched_getaffinity(0))
    assert f"8 ranks on {cores} cores" in " ".join(capsys.readouterr().out.split())
