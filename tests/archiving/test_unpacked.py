"""In a folder that an archive was unpacked to nobody is asked, and no program runs, whom nobody there has typed."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from overlayccl_core import loader
from overlayccl_core.archiving.manifest import NAME
from overlayccl_core.archiving.unpacked import refuse_unnamed
from overlayccl_core.cli.main import main
from overlayccl_core.configuration.searches import load
from workflow_scripts import pipeline
from workflow_scripts.pipeline import prepare

ROOT = Path(__file__).resolve().parents[2]
SEARCHES = ROOT / "config/searches"
EVIL = "curl evil.example"


@pytest.mark.parametrize(
    ("search", "typed", "why"),
    [
        ("offline", {}, ""),
        ("replay", {}, ""),
        ("claude", {}, "proposer=claude"),
        ("claude", {"proposer": "command"}, "proposer=claude"),
        ("claude", {"proposer": "claude", "command": ""}, ""),
        ("claude+wide@3", {"proposer": "claude"}, ""),
        ("command", {}, "proposer=command"),
        ("command", {"proposer": "command"}, "runs 'curl evil.example'"),
        ("command", {"proposer": "command", "command": "python mine.py"}, "runs 'curl evil.example'"),
        ("command", {"proposer": "command", "command": EVIL}, ""),
    ],
)
def test_whoever_is_asked_was_typed(tmp_path: Path, search: str, typed: dict[str, Any], why: str) -> None:
    one = load(search, SEARCHES)
    one = one.changed(command=EVIL) if search == "command" else one
    refuse_unnamed(one, tmp_path, typed)  # one's own project
    (tmp_path / NAME).write_text("{}")
    if not why:
        refuse_unnamed(one, tmp_path, typed)
        return
    with pytest.raises(ValueError, match=why):
        refuse_unnamed(one, tmp_path, typed)


def test_what_an_archives_profile_configures_was_not_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("config", "profiles", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / NAME).write_text("{}")
    monkeypatch.chdir(tmp_path)
    given = {"deployment": "local", "proposer": "command", "command": "python examples/answer.py"}
    config = yaml.safe_load((ROOT / "config/config.yaml").read_text()) | given
    assert prepare(config, given, starts=False)  # a plan asks nobody
    assert prepare(config, given).typed == {key: given[key] for key in ("proposer", "command")}
    monkeypatch.setattr(pipeline, "of_profile", lambda root, profile: given)
    with pytest.raises(ValueError, match=r"command: .*an archive"):
        prepare(config, given)


@pytest.fixture
def unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a Problem of its own, which ends whoever imports it; an archive by its `archive.json`."""
    monkeypatch.setenv(loader.VARIABLE, "")  # so that what is put there is gone afterwards
    monkeypatch.delenv(loader.VARIABLE)
    (tmp_path / "config").symlink_to(ROOT / "config")
    (tmp_path / "plugins/problems").mkdir(parents=True)
    (tmp_path / "plugins/problems/evil.py").write_text("raise SystemExit('it ran')\n")
    (tmp_path / NAME).write_text("{}")
    return tmp_path


def test_an_archives_plug_ins_are_run_by_no_command_until_somebody_names_them(
    unpacked: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("problems", "--root", str(unpacked))
    assert main(command) == 0
    said = capsys.readouterr()
    plugins = unpacked / "plugins"
    assert "evil" not in said.out
    [line] = said.err.splitlines()
    assert str(unpacked / NAME) in line and line.endswith(f" {loader.VARIABLE}={plugins}")
    assert main(("verify", "nowhere.tar.zst", "--root", str(unpacked))) == 2  # nor by whoever verifies there
    assert loader.VARIABLE not in os.environ
    monkeypatch.setenv(loader.VARIABLE, str(plugins))
    with pytest.raises(SystemExit, match="it ran"):
        main(command)
    monkeypatch.delenv(loader.VARIABLE)
    (unpacked / NAME).unlink()  # one's own project
    with pytest.raises(SystemExit, match="it ran"):
        main(command)


def test_an_archives_snakefile_is_run_by_no_command_of_ours(
    unpacked: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *words, **more: pytest.fail("it ran"))
    assert main(("why", "--root", str(unpacked))) == 2
    assert "then type: snakemake" in capsys.readouterr().err
