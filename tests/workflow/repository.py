"""A copy of the repository to change and to run, in a folder of its own."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from overlayccl_core.digest import STAGES, Sources

ROOT = Path(__file__).resolve().parents[2]
PARTS = (
    *("Snakefile", "rules", "run_display", "workflow_scripts", "config", "profiles", "envs"),
    *("overlayccl_core", "tests", "examples"),
)


def copy_to(folder: Path) -> Path:
    """Copy what a run needs, with its bytecode; returns the copy's root."""
    _read_all()
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("*.pyc.*", "*.json.*"))
        else:
            shutil.copy(source, folder / part)
    for profile in (folder / "profiles").iterdir():
        if profile.name != "default":
            (folder / profile.name).symlink_to(profile.relative_to(folder))
    return folder


def outputs_of_rules() -> dict[str, list[str]]:
    """Rule -> the files that it writes, with its wildcards in braces, as Snakemake has them."""
    return {rule: of["outputs"] for rule, of in _parsed_rules().items()}


def inputs_of_rules() -> dict[str, list[str]]:
    """Rule -> the names of its inputs."""
    return {rule: of["inputs"] for rule, of in _parsed_rules().items()}


def logs_of_rules() -> dict[str, str]:
    """Rule -> the log of a job, with its wildcards in braces; empty without one."""
    return {rule: "".join(of["log"]) for rule, of in _parsed_rules().items()}


@cache
def _parsed_rules() -> dict[str, dict[str, list[str]]]:
    code = (
        "from workflow_scripts import dag;"
        "of = lambda rule: {'inputs': list(rule.input.keys()), 'outputs': [*map(str, rule.output)],"
        " 'log': [*map(str, rule.log)]};"
        "dag.answered(lambda: {rule.name: of(rule) for rule in dag.planned({}, 'all').rules})"
    )
    done = python(ROOT, "-c", code)
    assert done.returncode == 0, done.stderr
    constraint = re.compile(r"{(\w+),[^}]*}")
    return {
        rule: {part: [constraint.sub(r"{\1}", text) for text in texts] for part, texts in of.items()}
        for rule, of in json.loads(done.stdout).items()
    }


@cache
def _read_all() -> None:
    """So that what `digest` keeps beside the bytecode is there."""
    sources = Sources()
    for stage in (ROOT / STAGES).glob("*.py"):
        sources.closure(stage.stem)


def python(root: Path, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run Python in a copy, whose package comes before an installed one."""
    return _run([sys.executable, *arguments], root, text)


def snakemake(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Snakemake in a copy."""
    return _run([sys.executable, "-m", "snakemake", *arguments], root, "")


def _run(command: Sequence[str], root: Path, text: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run(command, cwd=root, env=environment, input=text, capture_output=True, text=True)
