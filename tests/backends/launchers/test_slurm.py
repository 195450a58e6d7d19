"""What Slurm's launcher asks for, and what it says where there is no Slurm. (tests/slurm runs it on a real one.)"""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from overlayccl_core.backends.launchers import here, slurm
from overlayccl_core.configuration.profile import Profile
from tests.backends.batches import deployment


def two_nodes() -> Any:
    fields = deployment(4).model_dump(exclude={"tiers", "memory_budget_bytes"})
    return type(deployment(4))(**fields | {"ranks_per_node": 2, "launcher": "slurm"}, memory_budget="1GiB")


def test_without_its_commands_it_is_refused_with_what_works_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    told = slurm.refuses(two_nodes())
    assert "4 ranks run on 2 nodes" in told and "no sbatch and no srun and no squeue" in told
    assert "snakemake --profile local all" in told
    for command in ("sbatch", "srun", "squeue"):
        (tmp_path / command).touch(0o755)
    assert slurm.refuses(two_nodes()) == ""


def test_ranks_start_inside_of_a_job_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(slurm.JOB, raising=False)
    told = slurm.refuses_here(two_nodes())
    assert "its ranks start in a job of Slurm, and this is none" in told and "salloc" in told
    monkeypatch.setenv(slurm.JOB, "1")
    assert slurm.refuses_here(two_nodes()) == ""


def test_it_starts_an_agent_on_each_node_and_tells_it_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def popen(command: list[str], **options: Any) -> None:
        asked.update(command=command, **options)

    monkeypatch.setattr(subprocess, "Popen", popen)
    slurm.start(two_nodes(), 4711, {"TOKEN": "secret"})
    command = asked["command"]
    assert command[0] == "srun" and {"--nodes=2", "--ntasks=2", "--ntasks-per-node=1"} <= set(command)
    assert "secret" not in " ".join(command) and asked["env"]["TOKEN"] == "secret"
    assert command[-1].endswith('overlayccl_core.backends.node_agent "$SLURM_LAUNCH_NODE_IPADDR" 4711')
    assert 'export OVERLAYCCL_NODE="$SLURM_NODEID"' in command[-1]


def test_no_launcher_takes_no_second_node() -> None:
    refused = two_nodes().changed(launcher="here")
    assert "are on 2 nodes" in here.refuses(refused) and "set launcher to slurm" in here.refuses(refused)
    with pytest.raises(ValueError, match="are on 2 nodes"):
        here.start(refused, 1, {})
    assert here.refuses(deployment(4)) == ""


PROFILE = Profile(name="trn1", overrides={}, partition="compute1", account="lab")


def commands(folder: Path, monkeypatch: pytest.MonkeyPatch, **scripts: str) -> None:
    """Slurm's commands as scripts of a test; what they are called with is in the file `called`."""
    usual = {
        "sbatch": "",
        "squeue": "",
        "scontrol": "echo 'Slurmctld(primary) at head is UP'",
        "sinfo": "echo 'compute1*|2|idle'",
        "srun": """echo '{"check": "NeuronCores", "ok": true, "detail": "32 for 32 ranks"}'""",
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
    assert [row["ok"] for row in rows] == [True] * 3
    assert rows[1] == {"check": "partition compute1", "ok": True, "detail": "nodes: 2 idle"}
    assert rows[2] == {"check": "a node's NeuronCores", "ok": True, "detail": "32 for 32 ranks"}
    called = (tmp_path / "called").read_text()
    assert "--partition=compute1 --account=lab" in called and "-p compute1" in called


@pytest.mark.parametrize(
    ("scripts", "check", "told"),
    [
        ({"scontrol": "echo 'Slurmctld(primary) at head is DOWN'"}, "Slurm", "start slurmctld"),
        (
            {"sinfo": '[[ "$*" == *compute1* ]] || echo "cpu*"'},
            "partition compute1",
            "set slurm_partition in profiles/trn1/profile.yaml to one of cpu",
        ),
        (
            {"sinfo": "echo 'compute1*|1|idle'; echo 'compute1*|1|drain'"},
            "partition compute1",
            "nodes: 1 idle, 1 drain: 2 are needed: resume them (`sinfo -R`), or take fewer nodes",
        ),
        ({"srun": "echo 'no such file' >&2; exit 1"}, "a job on a node", "failed (no such file): "),
        (
            {"srun": """echo '{"check": "EFA", "ok": false, "detail": "0 interfaces: set Efa: Enabled"}'"""},
            "a node's EFA",
            "set Efa: Enabled",
        ),
    ],
)
def test_what_is_missing_is_told_in_one_line_with_its_mend(
    scripts: dict[str, str], check: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands(tmp_path, monkeypatch, **scripts)
    [row] = [row for row in slurm.doctor(two_nodes(), PROFILE) if not row["ok"]]
    assert row["check"] == check and told in row["detail"] and "\n" not in row["detail"]


def test_a_job_that_does_not_start_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands(tmp_path, monkeypatch, srun="exec sleep 60")
    monkeypatch.setattr(slurm, "ANSWER_S", 0.5)
    [row] = [row for row in slurm.doctor(two_nodes(), PROFILE) if not row["ok"]]
    assert "no job started" in row["detail"]
