"""The DAG on a real Slurm: ranks on two nodes, a job that is killed, a node that is drained, and nothing lost.

`make slurm-up` starts it (tests/slurm/cluster.sh), `make test-slurm` runs this.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import polars as pl
import psutil
import pytest
import yaml

from overlayccl_core.launching.fingerprint import part
from overlayccl_core.launching.launcher import AGENT
from overlayccl_core.loader import SAFE_PATH
from tests.workflow.repository import copy_to
from tests.workflow.small import SMALL, TINY

WANTED = "OVERLAYCCL_SLURM"  # set by `make test-slurm`
pytestmark = [
    pytest.mark.slurm,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(WANTED not in os.environ, reason="needs a Slurm of this machine: `make test-slurm`"),
]
RESULTS = Path("results/slurm-cpu")
DRAINED = "n1"
SLOTS = 32  # of a node: cluster.sh
STRATEGY = """from overlayccl_core.program.language import all_to_all


def exchange(io, p):
    io.write("received", all_to_all(io.read("send")))
"""


def slurm(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


class Run:
    """A run of the pipeline in a copy of the repository, beside the test."""

    def __init__(self, root: Path, *asked: str, profile: str = "slurm-cpu") -> None:
        self.root = root
        self.log = root / f"run-{len(list(root.glob('run-*')))}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "snakemake", "--profile", profile, *(asked or ["all"])],
                cwd=root,
                env={**os.environ, "PYTHONPATH": str(root)},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def until(self, holds: Callable[[], bool], seconds: float) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            assert time.monotonic() < end, self.log.read_text()[-3000:]
            time.sleep(0.2)

    def ended(self, seconds: float) -> int:
        return self.process.wait(seconds)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy with as little to do as it gets; what is left of its jobs is cancelled."""
    root = copy_to(tmp_path_factory.mktemp("slurm"))
    file = root / "config" / "config.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | SMALL))
    (root / "config" / "models" / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    yield root
    if left := jobs(root):
        subprocess.run(["scancel", *left], check=False)
    subprocess.run(["scontrol", "update", f"nodename={DRAINED}", "state=resume"], check=False)


def environments() -> list[dict[str, str]]:
    """Of the agents of a launch."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, IndexError):
            if process.cmdline()[1:4] == ["-P", "-m", AGENT]:
                found.append(process.environ())
    return found


def nodes_of_agents() -> dict[str, int]:
    """The nodes, as Slurm names them, on which agents of a launch run -> how many CPUs of it they may use."""
    return {
        told["SLURMD_NODENAME"]: int(told["SLURM_CPUS_ON_NODE"])
        for told in environments()
        if "SLURMD_NODENAME" in told
    }


def jobs(root: Path) -> list[str]:
    """Those that this test's runs have made, and no others."""
    told = slurm("squeue", "-h", "-o", "%i %Z").splitlines()
    return [job for job, _, folder in (line.partition(" ") for line in told) if folder == str(root)]


def has_samples(root: Path) -> bool:
    """Whether the probe's launch at work has written down a round."""
    stamps = root.glob(f"{RESULTS}/.partial/probe-*/launch-*/stamps.bin")
    return any(any(path.read_bytes()[:4096]) for path in stamps)


def tables(root: Path) -> dict[Path, bytes]:
    """What finished rules have written."""
    found = (root / RESULTS).rglob("*.parquet")
    return {path: path.read_bytes() for path in found if ".partial" not in path.parts}


def test_a_run_whose_job_is_killed_and_whose_node_is_drained_goes_on_and_loses_nothing(root: Path) -> None:
    run = Run(root)
    run.until(lambda: len(nodes_of_agents()) == 2, 180)
    assert set(nodes_of_agents().values()) == {SLOTS}, "agents may not use all of their nodes"
    # the job's own Snakemake began in this folder, and imported nothing of it
    assert {told.get(SAFE_PATH) for told in environments()} == {"1"}
    run.until(lambda: has_samples(root), 300)
    [job] = jobs(root)
    before = tables(root)
    assert root / RESULTS / "selftest.parquet" in before
    slurm("scontrol", "update", f"nodename={DRAINED}", "state=drain", "reason=test")
    slurm("scancel", job)
    assert run.ended(180) != 0
    assert "probe failed" in run.log.read_text()
    launches = list((root / RESULTS / ".partial").glob("probe-*"))
    assert launches, "what was measured is kept"

    again = Run(root)
    again.until(lambda: len(nodes_of_agents()) == 2, 180)
    assert DRAINED not in nodes_of_agents()
    assert again.ended(1500) == 0, again.log.read_text()[-3000:]
    said = (root / RESULTS / "logs" / "probe.log").read_text()
    assert (
        "continuing a batch that was cut off" in said or "using the samples of a run that was cut off" in said
    )
    assert all(path.read_bytes() == held for path, held in before.items()), "a finished table was made again"
    assert not list((root / RESULTS / ".partial").glob("probe-*"))


def test_its_figures_are_of_ranks_on_two_nodes(root: Path) -> None:
    for table in ("selftest", "probes", "problems/tp_mlp/bench", "train/tiny/steps"):
        [told] = pl.read_parquet(root / RESULTS / f"{table}.parquet")["fingerprint"].unique().to_list()
        assert part(told, "nodes") == "2 of CPU node" and part(told, "launcher") == "slurm"
    for table in ("probes", "problems/tp_mlp/bench", "train/tiny/steps"):
        [nodes] = pl.read_parquet(root / RESULTS / f"{table}.parquet")["nodes"].unique().to_list()
        assert nodes.startswith("2 alike: cpu ")
    tiers = pl.read_parquet(root / RESULTS / "selftest.parquet").filter(
        pl.col("check") == "nearer ranks are not slower"
    )
    # Which of the two is faster says nothing: both nodes are this host. That both were timed, on whose ranks, does.
    timed = r"node: \d+ us for \d+ bytes over 2 ranks, network: \d+ us for \d+ bytes over 2 ranks"
    assert re.fullmatch(timed, tiers["detail"].item())


def test_a_finished_run_has_nothing_to_do(root: Path) -> None:
    run = Run(root)
    assert run.ended(120) == 0
    assert "Nothing to be done" in run.log.read_text()
    assert jobs(root) == []


def test_ranks_may_use_all_of_a_node_though_the_step_around_the_command_may_not(root: Path) -> None:
    """As Snakemake starts a rule of one node: in a step that has the CPUs of the rule's threads.

    What is tried works in a folder below the results, which all nodes share.
    """
    one = yaml.safe_load((root / "config/deployments/slurm-cpu.yaml").read_text()) | {"ranks": 2}
    (root / "config/deployments/slurm-one.yaml").write_text(yaml.safe_dump(one))
    (root / "mine.py").write_text(STRATEGY)
    tried = f"try {root}/mine.py::exchange --problem uniform_a2a --deployment slurm-one --seconds 4"
    log = root / "try.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [
                *("salloc", "--quiet", "--nodes=1", "--ntasks=1", "--exclusive", f"--chdir={root}"),
                *("srun", "--ntasks=1", "--cpu-bind=q", "--cpus-per-task=1"),
                *(sys.executable, "-m", "overlayccl_core.cli.main", *tried.split()),
            ],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root), "SRUN_CPUS_PER_TASK": "1"},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    seen: dict[str, int] = {}
    folders: set[str] = set()
    while process.poll() is None:
        seen |= nodes_of_agents()
        folders |= {path.name[:4] for path in root.glob("results/slurm-one/.partial/*")}
        time.sleep(0.1)
    assert process.returncode == 0, log.read_text()
    assert list(seen.values()) == [SLOTS] and folders == {"try-"}
    assert not (root / "results/slurm-one").exists()


def test_the_gpus_that_a_profile_asks_for_reach_the_agents_on_all_nodes(root: Path) -> None:
    """Ranks are gloo's, as the GPUs are none. A job that does not ask has none, though its nodes are its alone."""
    (root / "config/deployments/gpus.yaml").write_text("inherits: slurm-cpu\n")
    asked = ("results/gpus/selftest.parquet", "--config", "deployment=gpus")
    run = Run(root, *asked, profile="slurm-gpu")
    run.until(lambda: len(nodes_of_agents()) == 2, 180)
    assert {told["CUDA_VISIBLE_DEVICES"] for told in environments()} == {"0,1,2,3,4,5,6,7"}
    assert run.ended(300) == 0, run.log.read_text()[-3000:]


def doctor(root: Path, profile: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "overlayccl_core.cli.main", "doctor", "--profile", profile]
    environment = {**os.environ, "PYTHONPATH": str(root), "COLUMNS": "300"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_the_doctor_looks_at_a_node_through_a_job(root: Path) -> None:
    code, said = doctor(root, "slurm-cpu")
    assert code == 0, said
    assert "partition cpu" in said and "a node's cores" in said
    code, said = doctor(root, "slurm-gpu")
    assert code == 1 and "partition gpu" in said
    assert re.search("a node's gpus +missing +this torch is built without CUDA", said), said
