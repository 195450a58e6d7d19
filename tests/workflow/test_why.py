"""What would rerun, and because of what: in words that name the file, the key, the table."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from overlayccl_core.tables import records
from tests.workflow.changes import CONFIG, narrowed
from tests.workflow.repository import copy_to, python, snakemake

FIT = "overlayccl_core/costmodel/fit.py"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy in which all looks as if it had been run."""
    root = copy_to(tmp_path_factory.mktemp("repository"))
    (root / CONFIG).write_text(narrowed((root / CONFIG).read_text()))
    done = python(root, "-c", "from tests.workflow import plans; plans.finish()")
    assert done.returncode == 0, done.stderr
    return root


def why(root: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return python(root, "-m", "workflow_scripts.why", *arguments)


@contextmanager
def edited(root: Path, path: str, more: str = "", text: str = "") -> Iterator[None]:
    """A file with `more` behind what it holds, or with another text."""
    before = (root / path).read_text()
    (root / path).write_text(text or before + more)
    try:
        yield
    finally:
        (root / path).write_text(before)


def test_after_a_run_nothing_is_to_be_done_and_a_comment_is_nothing(made: Path) -> None:
    with edited(made, FIT, "# A comment.\n"):
        done = why(made)
    assert (done.stdout, done.stderr) == ("Nothing is to be done.\n", "")


def test_it_names_what_was_changed_and_what_may_follow(made: Path) -> None:
    with edited(made, FIT, "\nMORE = 1\n"):
        told = why(made).stdout
    assert told.startswith("fit, price_ablation: ") and f": {FIT}\n" in told
    follows = told.rpartition("\n  ")[2]
    assert "price (3)" in follows and "bench* (3)" in follows and "probe" not in follows


CALLS = "overlayccl_core/backends/torchdist/calls.py"


def test_what_has_a_cause_of_its_own_is_named_though_it_stands_behind_another(made: Path) -> None:
    """The calls are in the code of all that measures, and of what knows which calls the backend has."""
    with edited(made, CALLS, "\nMORE = 1\n"):
        told = why(made).stdout
    cause, _, rest = told.partition("\n")
    own = (
        "bench* (3)",
        "choose (3)",
        "confirm*",
        "deploy",
        "probe*",
        "segments* (2)",
        "selftest*",
        "shortlist (3)",
        "train* (2)",
    )
    assert cause == f"{', '.join(own)}: its code is another: {CALLS}"
    assert rest.startswith("Then, if ") and "known_ways (3)" in rest
    assert not any(one in rest for one in own)


def test_a_file_with_fields_that_differ_is_read_as_snakemake_reads_it(made: Path) -> None:
    (made / "mine.yaml").write_text("fit: {bootstraps: 201}\n")
    words = ("-m", "overlayccl_core.cli.main", "--root", str(made), "why", "--configfile", "mine.yaml")
    told = python(made, *words)  # hands it on to `make why`
    assert re.match("fit, price_ablation: .* 200 -> 201\n", told.stdout), told.stderr


def test_settings_of_jobs_that_stand_behind_each_other_are_each_named(made: Path) -> None:
    config = (made / CONFIG).read_text()
    with (
        edited(made, CONFIG, text=config.replace("bootstraps: 200", "bootstraps: 201")),
        edited(made, "overlayccl_core/report/charts.py", "\nMORE = 1\n"),
    ):
        told = why(made).stdout
    assert re.search("fit, price_ablation: .* 200 -> 201\n", told) and re.search(
        "report: .*/charts.py\n", told
    )
    assert "report" not in told.rpartition("\n  ")[2]


def test_files_that_are_all_younger_than_what_was_made_are_not_blamed(made: Path) -> None:
    """As after a clone, or where the project was unpacked."""
    before = {file: file.stat() for file in (made / "overlayccl_core").rglob("*.py")}
    ahead = max(one.st_mtime for one in before.values()) + 10**6
    try:
        for file in before:
            os.utime(file, (ahead, ahead))
        with edited(made, FIT, "\nMORE = 1\n"):
            told = why(made).stdout
    finally:
        for file, one in before.items():
            os.utime(file, ns=(one.st_atime_ns, one.st_mtime_ns))
    assert told.startswith("fit, price_ablation: ") and "more than 4 " in told
    assert ".py" not in told


def test_on_another_machine_it_says_so_first(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    with edited(made, FIT, "\nMORE = 1\n"):
        says, then, *_ = why(made).stdout.splitlines()
    assert says.startswith("results/local ") and "machine=here" in says
    assert then.startswith("fit, price_ablation: ")


def test_tables_without_records_are_named_and_no_run_begins(made: Path) -> None:
    away = (made / ".snakemake/metadata").rename(made / "metadata")
    says = why(made).stdout
    run = snakemake(made, "--profile", "local", "all")
    away.rename(made / ".snakemake/metadata")
    assert "results/local/" in says and "move results/local " in says
    assert run.returncode != 0 and says.splitlines()[0] in run.stderr


def test_models_that_are_left_out_are_named(made: Path) -> None:
    told = why(made, "--config", "problems=tp_mlp").stdout
    assert re.match("models .*problems.*nano-", told)


def test_tables_that_are_gone_and_jobs_that_were_cut_off_are_each_named(made: Path) -> None:
    tables = {
        "theta.parquet": "fit",
        "selftest.parquet": "selftest",
        "train/nano/stamps.parquet": "train nano",
        "problems/tp_mlp/bench.sidecar.json": "bench tp_mlp",
    }
    places = [made / "results/local" / table for table in tables]
    marker = made / records.INCOMPLETE / records.record_path(Path("results/local/probes.parquet")).name
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.touch()
    away = [place.rename(f"{place}.gone") for place in places]
    told = why(made)
    marker.unlink()
    for place, one in zip(places, away, strict=True):
        one.rename(place)
    for place, job in zip(places, tables.values(), strict=True):
        assert f"{job}: not there: {place.name}\n" in told.stdout, told.stdout
    assert "probe: it was cut off\n" in told.stdout, told.stderr


def test_a_module_that_is_not_what_was_confirmed_is_named_and_nothing_is_taken_away(made: Path) -> None:
    folder = made / "results/local/deploy"
    before = {path: path.read_text() for path in folder.iterdir()}
    (folder / "grad_ar.py").write_text("here, by hand")
    for problem in ("grad_ar", "uniform_a2a"):
        (folder / f"{problem}.json").write_text('{"module": "0f"}')
    told = why(made).stdout
    other = why(made, "results/local/theta.parquet").stdout
    there = {path.name for path in folder.iterdir()}
    for path, text in before.items():
        path.write_text(text)
    (folder / "grad_ar.py").unlink()
    assert "not there: uniform_a2a.py\n" in told and re.search("confirmed: .*grad_ar.py\n", told)
    assert other == "Nothing is to be done.\n" and there == {*(path.name for path in before), "grad_ar.py"}


def test_what_is_wrong_with_the_configuration_is_shown(made: Path) -> None:
    done = why(made, "--config", "nonsense=3")
    assert done.returncode != 0
    assert "nonsense: " in done.stderr and not done.stdout
