"""The literal commands: every profile is found from the root, plans without its machine, and says what is
missing."""

import ast
import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from snakemake.cli import args_to_api
from snakemake.settings.types import ConfigSettings

from overlayccl_core.tables.remake import PROFILE, run_command
from tests.workflow.repository import ROOT, copy_to
from workflow_scripts.command_line import WITHOUT_JOBS, lay_profile, name_profile, starts_jobs

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


@pytest.mark.parametrize(
    ("arguments", "deployment"),
    [
        (["--profile=slurm-cpu", "all", "--config", "preset=smoke"], "slurm-cpu-smoke"),
        (["--profile", "profiles/trn1", "all", "--config", "problems=grad_ar"], "trn1"),
        (["--profile", "trn1", "all", "--config", "deployment=trn1-3n", "problems=grad_ar"], "trn1-3n"),
        (["--profile", "local", "all", "--config", "deployment=nccl-8", "problems=grad_ar"], "nccl-8"),
        (["--profile", "local", "all", "--config", "deployment=trn2", "problems=grad_ar"], "trn2"),
    ],
)
def test_keys_on_the_command_line_come_on_top_of_the_profile(
    arguments: list[str], deployment: str, root: Path, without_slurm: str
) -> None:
    done = snakemake(root, without_slurm, "-n", *arguments)
    assert done.returncode == 0, done.stderr
    assert f"Checking the ranks of {deployment} and" in done.stdout


@pytest.mark.parametrize(
    ("profile", "ranks", "asked"),
    [
        (
            "slurm-cpu",
            4,
            "-p cpu -t 60 --nodes=2 --ntasks=2 --cpus-per-task=2 --ntasks-per-node=1 --exclusive",
        ),
        (
            "slurm-gpu",
            16,
            "-p gpu -t 120 --nodes=2 --ntasks=2 --cpus-per-task=8 --ntasks-per-node=1 --exclusive",
        ),
        ("slurm-gpu", 8, "-p gpu -t 120 --nodes=1 --cpus-per-task=8 --exclusive"),
    ],
)
def test_a_job_asks_slurm_for_whole_nodes_and_their_gpus(
    profile: str, ranks: int, asked: str, root: Path, without_slurm: str, tmp_path: Path
) -> None:
    """The line that Snakemake's plug-in makes of a profile and a deployment, kept by a stand-in of sbatch."""
    for command in (*SLURM, "sacct"):  # the plug-in asks it for an account
        (tmp_path / command).write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked-{command}\nexit 1\n')
        (tmp_path / command).chmod(0o755)
    file = root / "config/deployments" / f"{profile}.yaml"
    (file.parent / "sized.yaml").write_text(f"inherits: {profile}\nranks: {ranks}\n")
    at_once = ["--latency-wait", "0", "--slurm-init-seconds-before-status-checks", "1"]
    sized = ["results/sized/selftest.parquet", "--config", "deployment=sized", *at_once]
    done = snakemake(root, f"{tmp_path}:{without_slurm}", "--profile", profile, *sized)
    assert done.returncode != 0 and "sbatch failed" in done.stderr
    line = (tmp_path / "asked-sbatch").read_text().partition(" --wrap=")[0]
    gpus = "--gres=gpu:8" if profile == "slurm-gpu" else ""
    got = line[line.index("-p ") :].split()
    at = got.index("-D")  # the folder
    assert got[:at] + got[at + 2 :] == [*asked.split(), *gpus.split()]
    shutil.rmtree(root / "results")


def test_jobs_are_given_what_the_profile_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    config: dict[str, Any] = {"deployment": "local", "heldout_seed": 3}
    given = ConfigSettings(config={"heldout_seed": 3}, config_args=["heldout_seed=3"])  # type: ignore[arg-type]
    for argv in (
        ["snakemake", "all", "--profile=trn1"],
        ["snakemake", "all"],
    ):  # the command, then a job of it
        monkeypatch.setattr(sys, "argv", argv)
        lay_profile(config, given)
        assert config == given.config | {"deployment": "trn1"} == {"deployment": "trn1", "heldout_seed": 3}
        assert given.config_args == ["deployment=trn1", "heldout_seed=3"]


def test_the_profile_in_use_is_named_however_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROFILE, "local")
    for words in (["--profile", "trn1"], ["--profile=trn1"]):
        monkeypatch.setattr(sys, "argv", ["snakemake", *words, "all"])
        monkeypatch.delenv(PROFILE)
        name_profile()
        assert "--profile trn1 all" in run_command("results/trn1")


@pytest.mark.parametrize(
    "asked",
    [
        *(
            "--unlock",
            "--report page.html",
            "--report=page.html",
            "--reporter html",
            "--summary",
            "-S",
            "-kS",
        ),
        *(
            "-D",
            "-t",
            "-l",
            "--list",
            "--list-rules",
            "--lt",
            "--list-target-rules",
            "--dag",
            "--rulegraph dot",
        ),
        *(
            "--lp",
            "--list-params-changes",
            "--lc code",
            "--list-changes code",
            "--li",
            "--list-input-changes",
        ),
        *("--list-in", "--lu", "--list-untracked", "--list-conda-envs", "--cm a", "--conda-create-envs-only"),
    ],
)
def test_what_starts_no_job_needs_no_cluster(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["snakemake", "--profile", "trn1", *asked.split()])
    assert not starts_jobs(dryrun=False)


@pytest.mark.parametrize(
    "more", ["", "-k", "--config archive=1", "--report a.html --report-after-run", "-- lint"]
)
def test_a_run_starts_jobs_whatever_it_is_told(more: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["snakemake", "--profile", "trn1", "all", *more.split()])
    assert starts_jobs(dryrun=False) and not starts_jobs(dryrun=True)


def test_all_that_snakemake_does_in_place_of_a_run_is_known() -> None:
    """Of the pinned version: each branch beside that which executes the workflow."""
    tree = ast.parse(inspect.getsource(args_to_api))
    branches = [node for node in ast.walk(tree) if isinstance(node, ast.If) and len(node.body) == 1]
    instead = {
        name.attr
        for branch in branches
        if re.search(r"(workflow|dag)_api\.\w+\(", ast.unparse(branch.body[0]))
        for name in ast.walk(branch.test)
        if isinstance(name, ast.Attribute) and ast.unparse(name.value) == "args"
    }
    instead -= {"report_after_run"}  # which is asked for with a run
    assert len(instead) > 20 and instead <= set(WITHOUT_JOBS)


@pytest.mark.parametrize("target", ["longrun", "results/trn1/longrun/losses.parquet"])
def test_a_long_run_of_no_model_is_refused_before_any_job(
    target: str, root: Path, without_slurm: str
) -> None:
    done = snakemake(root, without_slurm, "--profile", "trn1", "-n", target)
    assert done.returncode != 0 and "Traceback" not in done.stderr
    assert re.match("error: longrun: .*trn1", done.stderr.splitlines()[-1])


@pytest.mark.parametrize("profile", [name for name in PROFILES if name != "local"])
def test_without_slurm_a_run_says_what_is_missing_and_what_works_here(
    profile: str, root: Path, without_slurm: str
) -> None:
    done = snakemake(root, without_slurm, "--profile", profile, "all")
    told = [line for line in done.stderr.splitlines() if line]
    assert done.returncode != 0 and "Traceback" not in done.stderr
    said = " ".join(told[next(i for i, line in enumerate(told) if line.startswith("error: ")) :])
    assert "no sbatch" in said and "--profile local all`" in said
    assert len(said) < 5 * 100
    assert not (root / "results").exists()
