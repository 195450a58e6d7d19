"""What Snakemake recorded of a tree: of which machine it is; of a tree without records nothing is believed."""

import json
import platform
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from overlayccl_core.tables.page import is_table
from overlayccl_core.tables.records import FOLDER, INCOMPLETE, read, record_path
from overlayccl_core.tables.sidecar import environment, path_of
from tests.workflow.repository import outputs_of_rules, snakemake
from workflow_scripts.following import ELSEWHERE, refuse_elsewhere
from workflow_scripts.records import besides, elsewhere, measured_on, tell_jobs, unrecorded

MACHINE, DEPLOYMENT = "host o'er there, torch 2.9 #0a1b2c3d", '{"ranks": 4}'
SNAKEFILE = f"""
rule selftest:
    output: "results/local/selftest.parquet"
    params: code="0123456789abcdef", machine={MACHINE!r}, deployment={DEPLOYMENT!r}
    shell: "touch {{output}}"
"""
HERE = Path("results/local")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the real Snakemake made a table."""
    root = tmp_path_factory.mktemp("made")
    (root / "Snakefile").write_text(SNAKEFILE)
    done = snakemake(root, "--cores", "1", "results/local/selftest.parquet")
    assert done.returncode == 0, done.stderr
    return root


def tree(made: Path, folder: Path, host: str, *, records: bool) -> Path:
    """A copy of it, of a host, with or without the records."""
    root = Path(shutil.copytree(made, folder / "copy"))
    (root / HERE / "selftest.sidecar.json").write_text(json.dumps({"host": host}))
    if not records:
        shutil.rmtree(root / FOLDER)
    return root


def test_tables_without_records_are_named_with_the_mend(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Snakemake would keep them, whatever is configured."""
    monkeypatch.chdir(tree(made, tmp_path, platform.node(), records=True))
    assert unrecorded(HERE) == ""
    (HERE / ".partial").mkdir()
    (HERE / ".partial/launch.parquet").touch()  # is no rule's
    copied = HERE / "ablations/problems/tp_mlp/search/offline/calls.parquet"
    copied.parent.mkdir(parents=True)
    copied.touch()
    assert str(copied) in unrecorded(HERE)
    INCOMPLETE.mkdir(parents=True, exist_ok=True)
    (INCOMPLETE / record_path(copied).name).touch()  # of a job that was cut off: it is made again
    assert unrecorded(HERE) == ""
    shutil.rmtree(FOLDER)
    parts = (f"{HERE}/selftest.parquet", ".snakemake/metadata", "move results/local")
    assert all(part in unrecorded(HERE) for part in parts)


def test_a_table_that_was_copied_over_another_is_of_none_of_the_records(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run an hour before; on another host the clock may be a minute off."""
    monkeypatch.chdir(tree(made, tmp_path, platform.node(), records=True))
    table = HERE / "selftest.parquet"
    record = read(table)
    assert record is not None
    for earlier_s, copied in ((0, False), (50, False), (3600, True)):
        began = datetime.fromtimestamp(record.started - earlier_s, UTC)
        path_of(table).write_text(json.dumps({"started_utc": began.isoformat()}))
        assert (f"how {table} came about" in unrecorded(HERE)) is copied


def test_files_of_peoples_own_among_the_tables_stop_no_run(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No rule writes there, so nothing of them is kept or made again."""
    monkeypatch.chdir(tree(made, tmp_path, platform.node(), records=True))
    for name in (
        "mine",
        "notebook/theta",
        "problems/tp_mlp/theta",
        "problems/tp_mlp/mine",
        "old/problems/tp_mlp/bench",
    ):
        (HERE / name).parent.mkdir(parents=True, exist_ok=True)
        (HERE / f"{name}.parquet").touch()
    assert unrecorded(HERE) == ""


def test_a_table_of_any_rule_is_known_by_its_path() -> None:
    files = {file for written in outputs_of_rules().values() for file in written if file.endswith(".parquet")}
    tables = [file.removeprefix("results/{deployment}/") for file in files]
    assert len(tables) > 30
    assert all(map(is_table, map(Path, tables)))


@pytest.mark.parametrize(
    ("deployment", "records", "machine"),
    [(DEPLOYMENT, True, MACHINE), ('{"ranks": 8}', True, "here"), (DEPLOYMENT, False, "here")],
    ids=["as it was", "another deployment", "no records"],
)
def test_a_tree_is_of_the_machine_that_is_recorded_of_its_selftest(
    made: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    deployment: str,
    records: bool,
    machine: str,
) -> None:
    monkeypatch.chdir(tree(made, tmp_path, platform.node(), records=records))
    assert measured_on(HERE, deployment, "here") == machine
    (HERE / "selftest.parquet").unlink()
    assert measured_on(HERE, deployment, "here") == "here"


def test_where_the_selftests_table_is_gone_another_that_was_measured_tells_the_machine(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else all would be measured anew, over tables of another machine, without being asked for."""
    monkeypatch.chdir(tree(made, tmp_path, platform.node(), records=True))
    moved = HERE / "problems/tp_mlp/bench.parquet"
    moved.parent.mkdir(parents=True)
    (HERE / "cases.parquet").touch()  # has no record
    (HERE / "selftest.parquet").rename(moved)
    record_path(HERE / "selftest.parquet").rename(record_path(moved))
    assert measured_on(HERE, DEPLOYMENT, "here") == MACHINE
    assert measured_on(HERE, '{"ranks": 8}', "here") == "here"


@pytest.mark.parametrize(
    "text", ["", "no JSON", "[]", "{}", '{"params": null}', '{"params": ["(", "1", null]}']
)
def test_a_damaged_record_tells_of_no_machine(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.chdir(tree(made, tmp_path, platform.node(), records=True))
    for record in FOLDER.iterdir():
        record.write_text(text)
    assert measured_on(HERE, DEPLOYMENT, "here") == "here"


def test_what_else_is_another_is_said_in_words_and_what_a_release_before_left_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    HERE.mkdir(parents=True)
    sidecar = HERE / "selftest.sidecar.json"
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")  # Snakemake's
    told = {"host": "container-1", "environment": {**environment(), "CUDA_HOME": "/opt/cuda"}}
    del told["environment"]["NCCL_DEBUG"]
    sidecar.write_text(json.dumps(told))
    said = besides(HERE)
    assert f"host container-1 (here {platform.node()})" in said and "OMP_NUM_THREADS" not in said
    parts = ("CUDA_HOME /opt/cuda", "NCCL_DEBUG unset", "here INFO", "--config machine=here")
    assert all(part in said for part in parts)
    for text in (
        json.dumps({"host": platform.node(), "environment": environment()}),
        *('{"host": "elsewhere"}', "[]", "no JSON"),
    ):
        sidecar.write_text(text)
        assert besides(HERE) == ""


def test_a_tree_of_a_release_that_told_its_host_is_of_this_machine_all_the_same(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree(made, tmp_path, platform.node(), records=True))
    (record,) = FOLDER.iterdir()
    record.write_text(record.read_text().replace("host o'er there", "host there, cores 2"))
    assert measured_on(HERE, DEPLOYMENT, "cores 2, torch 2.9 #00000000") == "cores 2, torch 2.9 #00000000"
    assert measured_on(HERE, DEPLOYMENT, "cores 4, torch 2.9 #00000000").startswith("host there, cores 2")


def test_jobs_that_measure_are_told_why_they_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ELSEWHERE, "")
    refuse_elsewhere()
    assert elsewhere(HERE, "one", "one") == ""
    tell_jobs(elsewhere(HERE, "that", "this"))
    with pytest.raises(ValueError, match=r"that\. .*this\. .*=here"):
        refuse_elsewhere()
