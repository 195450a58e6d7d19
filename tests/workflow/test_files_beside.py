"""Files of people's own beside the Snakefile: they are not imported in place of Python's modules of that name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from overlayccl_core import project

NAMES = ("queue", "random", "secrets", "statistics", "tempfile")
TABLES = ("results/local-smoke/problems/grad_ar/cases.parquet", "results/local-smoke/selftest.parquet")


@pytest.mark.ranks
def test_a_file_named_like_a_module_of_python_is_run_by_no_rule_and_no_rank(tmp_path: Path) -> None:
    root = tmp_path / "project"
    project.lay(root, ())
    for name in NAMES:
        (root / f"{name}.py").write_text(f"open({str(tmp_path / name)!r}, 'w')\nraise SystemExit(3)\n")
    command = Path(sys.executable).parent / "snakemake"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [command, "--profile", "local", *TABLES, "--config", "preset=smoke"]
    done = subprocess.run(words, cwd=root, env=environment, capture_output=True, text=True)
    assert not [name for name in NAMES if (tmp_path / name).exists()]
    assert done.returncode == 0, done.stderr
    assert all((root / table).exists() for table in TABLES)
