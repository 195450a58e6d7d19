"""What one host cannot give is refused: by every launch, by the doctor and before any job, in the same words."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from overlayccl_core.backends.plan import LaunchPlan
from overlayccl_core.backends.torchdist import backend, node
from overlayccl_core.backends.trials import Trial
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.launching.failures import RefusedError
from overlayccl_core.launching.interface import INTERFACE
from overlayccl_core.launching.launch import Launch, no_watch
from overlayccl_core.stages import selftest
from tests.timing.batches import deployment, jobs, settings, two_nodes
from workflow_scripts.pipeline import prepare

ROOT = Path(__file__).parents[2]
TWO_NODES = two_nodes(launcher="here")
TOLD = "its 4 ranks are on 2 nodes, and launcher here starts ranks on this host only"
MEND = "set launcher to slurm, or ranks_per_node to 4 to measure this host"


def timed(where: Deployment, folder: Path) -> Any:
    plan = LaunchPlan.of(jobs(4)[:1], settings(), ranks=4)
    return backend.time_launch(where, folder, plan, no_watch)


def tried(where: Deployment, folder: Path) -> Any:
    return backend.run_once(where, folder, [Trial(job=jobs(4)[0], inputs={})])


def trained(where: Deployment, folder: Path) -> Any:
    return backend.train(where, Launch(worker="nobody", folder=folder, ranks=4), no_watch)


def checked(where: Deployment, folder: Path) -> Any:
    return selftest.run(where, folder / ".partial", progress=lambda _line: None)


@pytest.mark.parametrize("launch", [timed, tried, trained, checked])
def test_no_launch_starts_the_ranks_of_two_nodes_on_one(
    launch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: Any, **__: Any) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", started)
    with pytest.raises(RefusedError) as error:
        launch(TWO_NODES, tmp_path)
    assert TOLD in str(error.value) and MEND in str(error.value)


def test_the_doctor_says_the_same() -> None:
    [row] = [row for row in backend.doctor(TWO_NODES) if row.name == "ranks"]
    assert not row.ok and row.detail == backend.refuses(TWO_NODES)
    assert TOLD in row.detail
    [row] = [row for row in backend.doctor(deployment(4)) if row.name == "ranks"]
    assert row.ok and row.detail == "4 on this host"


@pytest.mark.parametrize(
    ("library", "gpus", "told"),
    [
        ("glooo", 8, "'glooo': .*gloo .*nccl"),
        ("nccl", 0, "sees no GPU.*to gloo"),
        ("nccl", 3, "sees 3: .*at most 3"),
        ("nccl", 4, ""),
        ("neuron", 0, "needs torch-neuronx "),
    ],
)
def test_a_library_that_is_unknown_or_lacks_gpus_is_refused(
    library: str, gpus: int, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "of_torch", lambda: node.Torch(built=True, gpus=gpus, usable=gpus > 0))
    where = deployment(4).changed(library=library)
    [row] = [row for row in backend.doctor(where) if row.name == "ranks"]
    assert row.ok is not bool(told)
    if told:
        assert re.search(told, row.detail) and row.detail == backend.refuses(where)
        with pytest.raises(RefusedError, match="deployment here: "):
            checked(where, tmp_path)


def test_no_gpus_are_counted_for_a_library_that_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(node, "of_torch")
    assert not backend.refuses(deployment(4))


def test_so_does_what_is_checked_before_any_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "config", tmp_path / "config")
    file = tmp_path / "config/deployments/local.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"ranks_per_node": 2}))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=TOLD):
        prepare(yaml.safe_load((tmp_path / "config/config.yaml").read_text()), ())


@pytest.mark.parametrize("told", ["eth9", "^lo,docker", "lo,eth9"])
@pytest.mark.parametrize("launch", [timed, tried, trained, checked])
def test_an_interface_that_is_not_here_is_named_with_its_variable(
    launch: Any, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(INTERFACE, told)
    with pytest.raises(RefusedError, match=rf"{INTERFACE}={re.escape(told)}: .* one of lo"):
        launch(deployment(), tmp_path)
    (row,) = (row for row in backend.doctor(deployment()) if row.name == "ranks")
    assert not row.ok and INTERFACE in row.detail
    with pytest.raises(RefusedError, match=INTERFACE):  # on another node
        backend.starter(deployment(), "192.0.2.1")


def test_interfaces_of_this_host_are_taken_and_where_none_is_named_torch_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for told in ("lo", "", "lo,lo"):
        monkeypatch.setenv(INTERFACE, told)
        assert backend.refuses(deployment()) == ""
