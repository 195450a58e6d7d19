"""What Slurm's launcher asks for, and what it says where there is no Slurm. (tests/slurm runs it on a real one.)"""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from overlayccl_core.backends.launchers import here, slurm
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
