"""The literal commands: every profile is found from the root, plans without its machine, and says what is
missing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflow.repository import ROOT, copy_to

PROFILES = sorted(path.name for path in (ROOT / "profiles").iterdir() if path.name != "default")
SLURM = ("sbatch", "srun", "squeue")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_to(tmp_path_factory.mktemp("repository"))


@pytest.fixture(scope="module")
def without_slurm(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH on which Slurm's commands are not."""
    folder = tmp_path_factory.mktemp("bin")
    for home in map(Path, os.get_exec_path()):
        for command in home.iterdir() if home.is_dir() else ():
            if command.name not in SLURM and not (folder / command.name).exists():
                (folder / command.name).symlink_to(command)
    return str(folder)


def snakemake(root: Path, path: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "snakemake", *arguments]
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(root)}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)


def test_every_profile_has_a_link_in_the_root() -> None:
    for name in PROFILES:
        assert (ROOT / name).is_symlink() and (ROOT / name / "profile.yaml").samefile(
            ROOT / "profiles" / name / "profile.yaml"
        )


@pytest.mark.parametrize("profile", PROFILES)
def test_a_plan_needs_neither_cluster_nor_library(profile: str, root: Path, without_slurm: str) -> None:
    done = snakemake(root, without_slurm, "--profile", profile, "-n", "all")
    assert done.returncode == 0, done.stderr
    assert "confirm" in done.stdout


@pytest.mark.parametrize("profile", [name for name in PROFILES if name != "local"])
def test_without_slurm_a_run_says_what_is_missing_and_what_works_here(
    profile: str, root: Path, without_slurm: str
) -> None:
    done = snakemake(root, without_slurm, "--profile", profile, "all")
    told = [line for line in done.stderr.splitlines() if line]
    assert done.returncode != 0 and "Traceback" not in done.stderr
    said = " ".join(told[next(i for i, line in enumerate(told) if line.startswith("error: ")) :])
    assert "no sbatch" in said and "`snakemake --profile local all`" in said
    assert len(said) < 5 * 100
    assert not (root / "results").exists()
