"""What several tests of the pipeline look at: one whole run, as small as it gets, and its archive."""

import shutil
import sys
from pathlib import Path

import pytest
import yaml

from tests.workflow.repository import copy_to, snakemake
from tests.workflow.small import OTHER_PROBLEMS, SMALL, TINY

PROBLEMS = f"problems={','.join(('tp_mlp', *OTHER_PROBLEMS))}"


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy in which all targets were run for tp_mlp, and the known ways of the other Problems were traced."""
    root = copy_to(tmp_path_factory.mktemp("repository"))
    file = root / "config" / "config.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | SMALL))
    (root / "config" / "models" / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    shutil.copy(root / "tests" / "workflow" / "tracing.py", root / "sitecustomize.py")
    others = [f"results/local/problems/{p}/known_ways.parquet" for p in OTHER_PROBLEMS]
    asked = ("--config", "proposer=command", f"command={sys.executable} examples/answer.py", PROBLEMS)
    # Several commands: what `all` is not asked for, it does not make (test_reruns.py)
    for targets in (
        ("all", "ablations", "longrun", "--config", "longrun_steps=12"),
        ("probing", *others, *asked),
        ("decompose", "drift", "scopes", "sweep_m", "sweep_payload", "tune"),
        ("redeploy", "--config", "source=elsewhere"),
        ("archive",),
    ):
        if targets[0] == "redeploy":  # what another tree chose, at the same Cases
            shutil.copytree(root / "results/local/problems", root / "results/elsewhere/problems")
            for file in ("theta.parquet", "theta.sidecar.json"):
                shutil.copy(root / "results/local" / file, root / "results/elsewhere")
        done = snakemake(root, "--profile", "local", *targets)
        assert done.returncode == 0, done.stderr
        (root / f"{targets[0]}.txt").write_text(done.stdout + done.stderr)
    return root


@pytest.fixture(scope="session")
def archive(finished: Path) -> Path:
    """The archive of that run."""
    return finished / "results" / "local.tar.zst"
