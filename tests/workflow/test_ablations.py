"""The target `ablations` on a tree with made-up times: searches at seeds, in a folder of their own."""

import shutil
from pathlib import Path

import polars as pl
import pytest
import yaml

from overlayccl_core.tables.ablations import ABLATION_CURVES, ABLATIONS
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.table import read
from tests.workflow.repository import copy_to, snakemake
from tests.workflow.small import SMALL, TINY

pytestmark = pytest.mark.timeout(1800)  # a minute or two, if alone

CONFIG = {
    "problems": ["uniform_a2a", "tp_mlp"],
    "models": [],
    "ablations": {
        "problems": ["uniform_a2a"],
        "searches": ["offline@0", "random", "evolutionary@3", "tpe@3"],
        "begin": "developer",
        "seeds": 2,
    },
}
SEARCHES = ("evolutionary@3", "offline@0", "random@0", "random@1", "tpe@3")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy in which the target was run."""
    root = copy_to(tmp_path_factory.mktemp("repository"))
    file = root / "config/config.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | SMALL | CONFIG))
    (root / "config/models/tiny.yaml").write_text(yaml.safe_dump(TINY))
    for name in ("random", "evolutionary", "tpe"):
        search = root / f"config/searches/{name}.yaml"
        search.write_text(yaml.safe_dump(yaml.safe_load(search.read_text()) | {"evaluations": 12}))
    shutil.copy(root / "tests/workflow/made_up.py", root / "sitecustomize.py")
    done = snakemake(root, "--profile", "local", "ablations")
    assert done.returncode == 0, done.stdout + done.stderr
    return root


def test_every_search_is_run_at_its_seeds_beside_what_is_deployed(root: Path) -> None:
    results = root / "results/local"
    folder = results / "ablations/problems/uniform_a2a/search"
    assert sorted(path.name for path in folder.iterdir()) == sorted(SEARCHES)
    assert not (results / "problems/uniform_a2a/search").exists()  # what is chosen knows nothing of it
    assert not (results / "problems/tp_mlp").exists()
    assert not list((results / "logs").glob("search-*"))  # nor does what a run cost
    made = read(CANDIDATES, folder / "random@1/candidates.parquet")
    assert set(made["search"]) == {"random@1"} and set(made["origin"]) == {"developer", "rule"}


def test_tables_and_page_are_of_all_of_them(root: Path) -> None:
    folder = root / "results/local/ablations"
    arms = read(ABLATIONS, folder / "ablations.parquet")
    assert [f"{arm}@{seed}" for arm, seed in arms.select("arm", "seed").iter_rows()] == list(SEARCHES)
    drawn = arms.filter(pl.col("arm") != "offline")
    assert drawn["evaluations"].min() >= 2 * 12  # forward and backward
    curves = read(ABLATION_CURVES, folder / "ablation_curves.parquet")
    assert curves.filter(relative=1.0).height > 0 and curves["relative"].min() == 1.0
    page = (folder / "ablations.html").read_text()
    assert all(name.partition("@")[0] in page for name in SEARCHES)


def test_a_second_run_has_nothing_to_do_and_a_seed_more_runs_that_alone(root: Path) -> None:
    done = snakemake(root, "--profile", "local", "ablations", "-n")
    assert "Nothing to be done" in done.stdout + done.stderr
    more = CONFIG["ablations"] | {"seeds": 3}  # type: ignore[operator]
    (root / "more.yaml").write_text(yaml.safe_dump({"ablations": more}))
    done = snakemake(root, "--profile", "local", "ablations", "-n", "--configfile", "more.yaml")
    planned = done.stdout + done.stderr
    assert "uniform_a2a (random@2)" in planned and planned.count("Searching ") == 1, planned


def test_where_none_of_its_problems_is_configured_it_says_so_and_all_goes_on(root: Path) -> None:
    done = snakemake(root, "--profile", "local", "ablations", "-n", "--config", "problems=tp_mlp")
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert all(part in said for part in ("ablations.problems: ", "uniform_a2a", "(tp_mlp)"))
    done = snakemake(root, "--profile", "local", "all", "-n", "--config", "problems=tp_mlp")
    assert done.returncode == 0, done.stderr
