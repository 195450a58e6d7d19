"""Commands in a project of one's own, which has no Makefile."""

import shutil
import subprocess
from pathlib import Path

import pytest

from overlayccl_core.backends.torchdist import node
from overlayccl_core.cli.main import main
from tests.cli.repository import Call


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project, laid down by the command."""
    folder = tmp_path_factory.mktemp("somewhere") / "project"
    assert main(["init", str(folder)]) == 0
    return folder


def test_what_was_laid_down_is_said(call: Call, tmp_path: Path) -> None:
    done = call("init", str(tmp_path / "new"))
    assert done.code == 0, done.err
    said = "".join(done.out.split())
    assert "yourstochange:" in said and "Snakefileandrules/" in said
    for name in ("config/config.yaml", "config/deployments", "plugins/strategies"):
        assert f"{tmp_path}/new/{name}" in said


def test_what_a_run_would_do_is_said_for_the_tree_that_is_meant(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target = "results/local-2-smoke/theta.parquet"
    asked = (
        "--deployment",
        "local-2",
        "--preset",
        "smoke",
        "--config",
        "problems=tp_mlp",
        "models=nano-small",
    )
    assert main(["--root", str(root), "why", target, *asked]) == 0
    said = capfd.readouterr().out
    assert "selftest: not there: " in said and "fit: not there: " in said
    assert "bench" not in said
    assert not (root / "results").exists()


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


def test_what_is_wrong_with_what_is_asked_is_shown(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(root), "why", "--config", "presett=smoke"]) == 2
    said = capfd.readouterr()
    assert not said.out and "presett: " in said.err and "'preset'" in said.err


def test_doctor_makes_the_link_by_which_a_profile_is_found(call: Call, root: Path) -> None:
    shutil.copytree(root / "profiles/local", root / "profiles/mine")
    done = call("doctor", "--profile", "mine")
    assert done.code == 1 and "--profile mine --mend`" in done.words and not (root / "mine").exists()
    for _ in range(2):
        assert call("doctor", "--profile", "mine", "--mend").code == 0
    assert (root / "mine/profile.yaml").samefile(root / "profiles/mine/profile.yaml")
    assert (root / "mine").readlink() == Path("profiles/mine")
    shutil.copytree(root / "profiles/local", root / "profiles/rules")
    message = call("doctor", "--profile", "rules", "--mend").message(2)
    assert "rules is something else" in message and "another name" in message


def test_doctor_tells_a_lack_once(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "of_torch", lambda: node.Torch())
    done = call("doctor", "--deployment", "nccl-8")
    assert done.code == 1 and done.words.count("built without CUDA, and so without nccl:") == 1


def test_doctor_names_the_rules_that_are_not_the_packages(call: Call, root: Path) -> None:
    assert "rules/train.smk" not in call("doctor").words
    rules = root / "rules/train.smk"
    rules.write_text(rules.read_text() + "# of another release\n")
    done = call("doctor")
    assert done.code == 0
    assert "rules/train.smk: " in done.words and "`overlayccl init`" in done.words
