"""Snakemake does nothing while jobs run: seen at a workflow of jobs that wait for one another."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflow.repository import ROOT

JOBS = """
from workflow_scripts.quiet import be_quiet
{be_quiet}
rule all:
    input: "1.txt", "2.txt"
rule one:
    output: "{{n}}.txt"
    resources: machine=1
    shell: "sleep 2; touch {{output}}"
"""


@pytest.mark.parametrize("quiet", [True, False])
def test_the_plan_is_solved_when_a_job_ends_and_not_every_second(tmp_path: Path, *, quiet: bool) -> None:
    (tmp_path / "Snakefile").write_text(JOBS.format(be_quiet="be_quiet()" if quiet else ""))
    told = subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "2", "--resources", "machine=1", "--verbose"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    solved = told.count("Ready jobs: ")
    assert solved == 3 if quiet else solved > 3  # as the run begins, and as each of the first two jobs ends


def test_no_rule_has_its_memory_read() -> None:
    files = [ROOT / "Snakefile", *(ROOT / "rules").glob("*.smk")]
    assert not [file.name for file in files if "benchmark:" in file.read_text()]


def test_the_pipeline_is_quiet() -> None:
    plan = """
import contextlib
from snakemake.cli import main
from workflow_scripts import quiet
with contextlib.suppress(SystemExit):
    main(["--profile", "local", "--dry-run", "--quiet", "all", "--", "results/local/capabilities.parquet"])
print(quiet.JobScheduler.__init__ is quiet._without_limit)
"""
    done = subprocess.run([sys.executable, "-c", plan], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "True"
