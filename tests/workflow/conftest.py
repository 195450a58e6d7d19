"""What several tests of the pipeline look at: one whole run, as small as it gets, and its archive."""

import shutil
import sys
from pathlib import Path

import pytest
import yaml

from tests.workflow.repository import copy_to, snakemake
from tests.workflow.small import SMALL, TINY

ASK = ("--config", "proposer=command", f"command={sys.executable} examples/answer.py")


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy in which all targets were run for tp_mlp, and the known ways of the other Problems were traced."""
    root = copy_to(tmp_path_factory.mktemp("repository"))
    file = root / "config" / "config.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | SMALL))
    (root / "config" / "models" / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    shutil.copy(root / "tests" / "workflow" / "tracing.py", root / "sitecustomize.py")
    done = snakemake(root, "--profile", "local", "all")
    assert done.returncode == 0, done.stderr
    (root / "shown.txt").write_text(done.stdout + done.stderr)
    assert not (root / "results/local/longrun").exists()  # a target of its own
    done = snakemake(root, "--profile", "local", "longrun", "--config", "longrun_steps=12")
    assert done.returncode == 0, done.stderr
    done = snakemake(root, "--profile", "local", "ablations")
    assert done.returncode == 0, done.stderr
    done = snakemake(root, "--profile", "local", "probing", *ASK)
    assert done.returncode == 0, done.stderr
    others = [f"results/local/problems/{p}/known_ways.parquet" for p in ("uniform_a2a", "grad_ar")]
    problems = "problems=tp_mlp,uniform_a2a,grad_ar"
    done = snakemake(root, "--profile", "local", *others, "--config", problems)
    assert done.returncode == 0, done.stderr
    done = snakemake(root, "--profile", "local", "archive")
    assert done.returncode == 0, done.stderr
    return root


@pytest.fixture(scope="session")
def archive(finished: Path) -> Path:
    """The archive of that run."""
    return finished / "results" / "local.tar.zst"
