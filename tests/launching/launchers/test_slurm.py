"""What Slurm's launcher asks of its commands, beside the contract. (tests/slurm runs it on a real Slurm.)"""

import os
import re
import tempfile
from pathlib import Path

import pytest

from overlayccl_core.configuration.profile import Profile
from overlayccl_core.launching.failures import LaunchError
from overlayccl_core.launching.launchers import slurm
from tests.timing.batches import two_nodes

TOWARDS = ("10.0.0.5", 4000)


def test_ranks_start_inside_of_a_job_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(slurm.JOB, raising=False)
    told = slurm.refuses_here(two_nodes())
    assert "in a job of Slurm" in told and "salloc" in told
    monkeypatch.setenv(slurm.JOB, "1")
    assert slurm.refuses_here(two_nodes()) == ""


def address(monkeypatch: pytest.MonkeyPatch, **nodes: str) -> str:
    """Of this host, in a job that has these nodes at these addresses."""
    line = "NodeName={0} Arch=x86_64 CoresPerSocket=32 NodeAddr={1} NodeHostName={0} Version=22.05\n"
    answers = {"squeue": "n[1-2]\n", "scontrol": "".join(line.format(*one) for one in nodes.items())}
    monkeypatch.setenv(slurm.JOB, "12")
    monkeypatch.setattr(slurm, "_said", lambda command: answers[command[0]])
    return slurm.address(two_nodes())


def test_nodes_find_this_host_where_it_reaches_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert address(monkeypatch, n1="127.0.0.1", n2="127.0.0.1") == "127.0.0.1"
    monkeypatch.setattr(slurm, "address_towards", lambda host: {"10.0.0.6": "10.0.0.5"}[host])
    assert address(monkeypatch, n1="10.0.0.5", n2="10.0.0.6") == "10.0.0.5"


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ({"n1": "127.0.0.1"}, r"1 nodes .*job 12 .*has 2"),
        ({"n1": "127.0.0.1", "n2": "nowhere.invalid"}, r"n2 .*nowhere\.invalid"),
    ],
)
def test_too_few_nodes_and_one_to_which_no_way_leads_are_told(
    nodes: dict[str, str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LaunchError, match=told):
        address(monkeypatch, **nodes)


def test_it_starts_an_agent_on_each_node_in_a_step_of_their_own_whatever_step_this_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`srun` takes from the environment what nobody says; what it and the agents print is kept."""
    srun = tmp_path / "srun"
    srun.write_text('#!/bin/sh\necho "$@"; env | grep "^S.*=" >&2\n')
    srun.chmod(0o755)
    step = {"SLURM_CPUS_PER_TASK": "2", "SRUN_CPUS_PER_TASK": "2", "SLURM_NTASKS": "1", "SLURM_EXACT": "1"}
    job = {"SLURM_JOB_ID": "12", "SLURM_CONF": "/etc/slurm.conf"}
    for name, value in (step | job | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}).items():
        monkeypatch.setenv(name, value)
    with tempfile.TemporaryFile() as printed:
        assert slurm.start(two_nodes(), TOWARDS, {"STOKEN": "secret"}, printed).wait() == 0
        said = os.pread(printed.fileno(), 2**16, 0).decode()
    asked_for, _, environment = said.partition("\n")
    assert "--nodes=2 --ntasks=2 --ntasks-per-node=1" in asked_for and "--overlap" in asked_for
    assert 'export OVERLAYCCL_NODE="$SLURM_NODEID"' in asked_for
    assert asked_for.endswith("overlayccl_core.launching.node_agent 10.0.0.5 4000")
    assert "secret" not in asked_for and "STOKEN=secret" in environment
    assert all(f"{name}={value}" in said for name, value in job.items())
    assert not [name for name in step if f"{name}=" in said]


PROFILE = Profile(name="trn1", overrides={}, partition="compute1", account="lab", gres="gpu:8")


def commands(folder: Path, monkeypatch: pytest.MonkeyPatch, **scripts: str) -> None:
    """Slurm's commands as scripts of a test; what they are called with is in the file `called`."""
    usual = {
        "sbatch": "",
        "squeue": "",
        "scontrol": "echo 'Slurmctld(primary) at head is UP'",
        "sinfo": "echo 'compute1*|2|idle'",
        "srun": """echo '["NeuronCores", true, "32 for 32 ranks"]'""",
    }
    for name, script in (usual | scripts).items():
        file = folder / name
        file.write_text(f'#!/bin/bash\necho "$0 $@" >> {folder}/called\n{script}\n')
        file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_the_doctor_asks_the_partition_and_a_node_of_the_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands(tmp_path, monkeypatch)
    rows = slurm.doctor(two_nodes(), PROFILE)
    assert [row.ok for row in rows] == [True] * 3
    assert rows[1] == ("partition compute1", True, "nodes: 2 idle")
    assert rows[2] == ("a node's NeuronCores", True, "32 for 32 ranks")
    called = (tmp_path / "called").read_text()
    assert "--partition=compute1 --account=lab --gres=gpu:8" in called and "-p compute1" in called
    assert f"{Path.cwd()}/.overlayccl-" in called and not list(Path.cwd().glob(".overlayccl-*"))


@pytest.mark.parametrize(
    ("scripts", "check", "told"),
    [
        ({"srun": "exec sleep 60"}, "a job on a node", "no job started"),
        ({"scontrol": "echo 'Slurmctld(primary) at head is DOWN'"}, "Slurm", "start slurmctld"),
        ({"sinfo": '[[ "$*" == *compute1* ]] || echo "cpu*"'}, "partition compute1", "slurm_partition .*cpu"),
        (
            {"sinfo": "echo 'compute1*|1|idle'; echo 'compute1*|1|drain'"},
            "partition compute1",
            "1 drain: 2 .*sinfo -R",
        ),
        ({"srun": "echo 'no such file' >&2; exit 1"}, "a job on a node", "no such file"),
        (
            {"srun": """echo '["EFA", false, "0 interfaces: set Efa: Enabled"]'"""},
            "a node's EFA",
            "set Efa: Enabled",
        ),
    ],
)
def test_what_is_missing_is_told_in_one_line_with_its_mend(
    scripts: dict[str, str], check: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands(tmp_path, monkeypatch, **scripts)
    monkeypatch.setattr(slurm, "ANSWER_S", 2.0)
    [row] = [row for row in slurm.doctor(two_nodes(), PROFILE) if not row.ok]
    assert row.name == check and re.search(told, row.detail) and "\n" not in row.detail
