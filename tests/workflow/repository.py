"""A copy of the repository to change and to run, in a folder of its own."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = (
    *("Snakefile", "rules", "run_display", "workflow_scripts", "config", "profiles", "envs"),
    *("overlayccl_core", "tests", "examples"),
)


def copy_to(folder: Path) -> Path:
    """Copy what a run needs; returns the copy's root."""
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / part)
    for profile in (folder / "profiles").iterdir():
        if profile.name != "default":
            (folder / profile.name).symlink_to(profile.relative_to(folder))
    return folder


def python(root: Path, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run Python in a copy, whose package comes before an installed one."""
    return _run([sys.executable, *arguments], root, text)


def snakemake(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Snakemake in a copy."""
    return _run([sys.executable, "-m", "snakemake", *arguments], root, "")


def _run(command: Sequence[str], root: Path, text: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run(command, cwd=root, env=environment, input=text, capture_output=True, text=True)
