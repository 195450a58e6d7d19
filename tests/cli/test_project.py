"""Commands in a project of one's own, which has no Makefile."""

import subprocess
from pathlib import Path

import pytest

from overlayccl_core.cli.main import main
from tests.cli.test_commands import overlayccl


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("somewhere") / "project"
    done = overlayccl(folder, "init", str(folder))
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert "yours to change" in said[0]
    assert [Path(line.strip()).relative_to(folder).as_posix() for line in said[1:4]] == [
        *("config/config.yaml", "config/deployments", "plugins/strategies")
    ]
    assert "Snakefile and rules/" in said[4]
    return folder


def test_what_a_run_would_do_is_said_for_the_tree_that_is_meant(project: Path) -> None:
    asked = ("--preset", "smoke", "--config", "problems=tp_mlp", "models=nano-small")
    done = overlayccl(
        project, "why", "results/local-2-smoke/theta.parquet", "--deployment", "local-2", *asked
    )
    assert done.returncode == 0, done.stderr
    assert "selftest: not there: " in done.stdout and "fit: not there: " in done.stdout
    assert "bench" not in done.stdout
    assert not (project / "results").exists()


def test_the_run_that_is_meant_is_the_one_that_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[list[str], Path]] = []

    def planned(words: list[str], cwd: Path) -> "subprocess.CompletedProcess[str]":
        asked.append((words[1:], cwd))
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(subprocess, "run", planned)
    place = ("--root", str(tmp_path), "--profile", "trn1", "--deployment", "trn1-1n")
    assert main([*place, "why", "longrun", "--preset", "smoke", "--config", "problems=tp_mlp"]) == 0
    assert main(["why"]) == 0
    script = ["-P", "-m", "workflow_scripts.why"]
    config = ["--config", "problems=tp_mlp", "deployment=trn1-1n", "preset=smoke"]
    assert asked == [
        ([*script, "longrun", *config, "--profile", "trn1"], tmp_path),
        ([*script, "all"], Path()),
    ]


def test_what_is_wrong_with_what_is_asked_is_shown(project: Path) -> None:
    done = overlayccl(project, "why", "--config", "presett=smoke")
    assert done.returncode == 2 and not done.stdout
    assert "presett: " in done.stderr and "'preset'" in done.stderr


def test_doctor_names_the_rules_that_are_not_the_packages(project: Path) -> None:
    assert "rules/train.smk" not in overlayccl(project, "doctor").stdout
    rules = project / "rules/train.smk"
    text = rules.read_text()
    rules.write_text(text + "# of another release\n")
    done = overlayccl(project, "doctor")
    rules.write_text(text)
    assert done.returncode == 0
    assert "rules/train.smk: " in done.stdout
    assert "`overlayccl init`" in done.stdout
