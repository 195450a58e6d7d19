"""What would rerun, and because of what: in words that name the file, the key, the table."""

import subprocess
from pathlib import Path

import pytest

from tests.workflow.repository import copy_to, python

FIT = "overlayccl_core/costmodel/fit.py"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy in which all looks as if it had been run."""
    root = copy_to(tmp_path_factory.mktemp("repository"))
    done = python(root, "-c", "from tests.workflow import plans; plans.finish()")
    assert done.returncode == 0, done.stderr
    return root


def why(root: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return python(root, "-m", "workflow_scripts.why", *arguments)


def test_after_a_run_nothing_is_to_be_done(made: Path) -> None:
    done = why(made)
    assert (done.stdout, done.stderr) == ("Nothing is to be done.\n", "")


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        (FIT, "", "\nMORE = 1\n", f"fit: its code is another: {FIT}\n"),
        (
            "config/config.yaml",
            "bootstraps: 200",
            "bootstraps: 201",
            "fit: told something else: fit.bootstraps 200 -> 201\n",
        ),
        (
            "rules/cost_model.smk",
            '"python -m workflow_scripts.fit ',
            '"true && python -m workflow_scripts.fit ',
            "rules/",
        ),
    ],
)
def test_it_names_what_was_changed_and_what_may_follow(
    made: Path, file: str, old: str, new: str, said: str
) -> None:
    before = (made / file).read_text()
    assert old in before
    try:
        (made / file).write_text(before.replace(old, new, 1) if old else before + new)
        told = why(made).stdout
    finally:
        (made / file).write_text(before)
    assert said in told
    assert told.startswith("fit: ")
    follows = told.rpartition("\n  ")[2]
    assert "price (9)" in follows and "bench* (9)" in follows and "probe" not in follows


def test_a_table_that_is_gone_is_named(made: Path) -> None:
    table = made / "results/local/theta.parquet"
    text = table.read_text()
    table.unlink()
    told = why(made).stdout
    table.write_text(text)
    assert told.startswith("fit: not there: theta.parquet\n")


def test_a_comment_is_nothing(made: Path) -> None:
    text = (made / FIT).read_text()
    (made / FIT).write_text(f"# A comment.\n{text}")
    told = why(made).stdout
    (made / FIT).write_text(text)
    assert told == "Nothing is to be done.\n"


def test_what_is_wrong_with_the_configuration_is_shown(made: Path) -> None:
    done = why(made, "--config", "nonsense=3")
    assert done.returncode != 0
    assert "nonsense: is no override key" in done.stderr and not done.stdout
