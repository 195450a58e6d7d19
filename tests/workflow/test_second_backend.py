"""A backend that lives beside the tests runs the whole DAG, from the selftest to a deployed module.

It is a folder that OVERLAYCCL_PLUGINS names; no file of the package knows of it.
"""

import json
import os
import runpy
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from overlayccl_core import catalog
from overlayccl_core.program.json_form import loads
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.choice import CHOICE
from overlayccl_core.tables.table import read
from tests.on_ranks import integer_inputs, meaning
from tests.workflow.repository import ROOT, copy_to, python, snakemake

SMALL = {
    "problems": ["uniform_a2a"],
    "models": [],
    "cases": {"uniform_a2a": [{"payload": "4KiB"}]},
    "probe": {
        "seconds": 1, "minimum_rounds": 4, "maximum_rounds": 6, "rounds_of_fitted": 4,
        "mixed": 40, "mixed_seed": 1, "heldout": 10,
    },
    "bench": {"seconds": 1, "minimum_rounds": 4, "maximum_rounds": 12},
    "fit": {"bootstraps": 4, "ridge": 0.02, "seed": 0},
    "confirm": {
        "launches": 3, "seconds": 1, "minimum_rounds": 4, "maximum_rounds": 6,
        "step_seconds": 1, "minimum_steps": 2, "maximum_steps": 2, "apart": False,
    },
}  # fmt: skip
PAPER = {"backend": "paper", "library": "numpy", "ranks": 4, "memory_budget": "64MiB"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy in which all was made on paper."""
    root = copy_to(tmp_path_factory.mktemp("repository"))
    file = root / "config" / "config.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | SMALL))
    (root / "config" / "deployments" / "paper.yaml").write_text(yaml.safe_dump(PAPER))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OVERLAYCCL_PLUGINS", str(ROOT / "tests" / "plugins"))
        done = snakemake(root, "--profile", "local", "all", "--config", "deployment=paper")
    assert done.returncode == 0, done.stdout + done.stderr
    return root


def test_what_the_backend_can_do_is_found_by_trying(finished: Path) -> None:
    capabilities = read(CAPABILITIES, finished / "results/paper/capabilities.parquet")
    assert capabilities["supported"].all() and capabilities.height > 20


def test_candidates_are_timed_with_its_clock_and_one_is_chosen(finished: Path) -> None:
    home = finished / "results/paper/problems/uniform_a2a"
    bench, choice = read(BENCH, home / "bench.parquet"), read(CHOICE, home / "choice.parquet")
    assert set(bench["status"]) == {"timed"} and bench["rounds"].min() == 12
    assert bench["fingerprint"].str.starts_with(f"emulated a made-up clock, numpy {np.__version__}").all()
    for row in choice.iter_rows(named=True):
        there = bench.filter((pl.col("case") == row["case"]) & (pl.col("direction") == row["direction"]))
        assert row["candidate"] in set(there["candidate"])


def test_its_own_printer_wrote_the_deployed_module_which_means_what_the_problem_asks(finished: Path) -> None:
    module = runpy.run_path(str(finished / "results/paper/deploy/uniform_a2a.py"))
    assert module["PROVEN_WITH"] == {"library": "numpy", "numpy": np.__version__}
    record = json.loads((finished / "results/paper/deploy/uniform_a2a.json").read_text())
    assert [row["case"] for row in record["deployed"]] == [*module["PROGRAMS"]] * 2
    assert all(row["chosen"]["measured_us"] > 0 for row in record["deployed"])
    [by_direction] = module["PROGRAMS"].values()
    assert set(by_direction) == {"forward", "backward"}
    for text in by_direction.values():
        program = loads(text)
        inputs = integer_inputs(program, 1)
        wanted = meaning(catalog.reference_program(program.problem), inputs)
        got = meaning(program, inputs)
        assert all(np.array_equal(got[port], wanted[port]) for port in wanted)


def test_no_launch_is_kept_once_its_table_is_written(finished: Path) -> None:
    assert not list((finished / "results/paper/.partial").glob("*/*"))


def test_sidecars_tell_the_versions_of_what_the_backend_needs(finished: Path) -> None:
    sidecar = json.loads((finished / "results/paper/probes.sidecar.json").read_text())
    assert "numpy" in sidecar["versions"] and "torch" not in sidecar["versions"]


def test_a_model_is_refused_where_the_backend_does_not_train(finished: Path) -> None:
    plugins = str(ROOT / "tests" / "plugins")
    asks = (
        "import yaml; from workflow_scripts.pipeline import prepare;"
        "config = yaml.safe_load(open('config/config.yaml'));"
        "problems = ['tp_mlp', 'uniform_a2a'];"
        "prepare(config | {'deployment': 'paper', 'models': ['nano'], 'problems': problems}, ())"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OVERLAYCCL_PLUGINS", plugins)
        done = python(finished, "-c", asks)
    assert done.returncode != 0
    assert "trains no model" in done.stderr and "nano is configured" in done.stderr
    assert os.environ.get("OVERLAYCCL_PLUGINS") != plugins


def test_no_file_of_the_package_names_it() -> None:
    named = [
        str(file)
        for folder in ("overlayccl_core", "workflow_scripts", "rules")
        for file in (ROOT / folder).rglob("*")
        if file.suffix in (".py", ".smk", ".yaml", ".json") and "backends.paper" in file.read_text()
    ]
    assert named == []
