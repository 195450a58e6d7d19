"""The whole DAG on real ranks, as small as it gets: what it leaves, and what it loaded."""

import hashlib
import json
import re
from pathlib import Path

import polars as pl
import pytest
import yaml

from overlayccl_core.cli.main import main
from overlayccl_core.digest import closure
from overlayccl_core.rule import rules
from overlayccl_core.tables.attempts import made_s
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.choice import CHOICE, VERDICTS
from overlayccl_core.tables.confirmed import CONFIRMED
from overlayccl_core.tables.deployed import SPLITS
from overlayccl_core.tables.drift import DRIFT, REPROBES
from overlayccl_core.tables.longrun import CURVES, LOSSES
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.steps import CONFIRMED_STAMPS, CONFIRMED_STEPS
from overlayccl_core.tables.summary import SUMMARY
from overlayccl_core.tables.table import read
from tests.workflow.graph import WHERE_ASKED
from tests.workflow.repository import snakemake
from tests.workflow.small import OTHER_PROBLEMS, SMALL
from workflow_scripts.pipeline import prepare

pytestmark = [
    pytest.mark.ranks,
    pytest.mark.timeout(1800),
]  # one run of everything: a minute or two, if alone
WITH_TORCH = {f"overlayccl_core/process_group/{name}.py" for name in ("__init__", "autoload", "seam")}
"""What `import torch` loads where we are installed. It passes on whatever is not asked for in our name."""


def _counts(duration: Path) -> bool:
    """Whether a job counts as a cost of the run: not one that only shows, nor one of Problems asked for later."""
    rule, _, subject = duration.stem.partition("-")
    return not rules()[rule].shows and subject not in OTHER_PROBLEMS


def test_every_table_is_there_with_its_sidecar(finished: Path) -> None:
    results = finished / "results" / "local"
    tables = {
        p.relative_to(results).as_posix() for p in results.rglob("*.parquet") if ".partial" not in p.parts
    }
    deployment = (
        *("selftest", "capabilities", "probes", "theta", "fidelity", "price_ablations"),
        *("confirmed", "confirmed_steps", "confirmed_stamps", "summary", "deployed", "splits"),
    )
    problem = (
        "cases",
        "known_ways",
        "prices",
        "shortlist",
        "bench",
        "finalists",
        "fidelity",
        "verdicts",
        "choice",
    )
    search, train = ("sketches", "candidates", "search_ends"), ("steps", "stamps")
    wanted = {f"{t}.parquet" for t in deployment} | {f"problems/tp_mlp/{t}.parquet" for t in problem}
    wanted |= {f"problems/tp_mlp/search/offline/{t}.parquet" for t in search}
    assert wanted | {f"train/tiny/{t}.parquet" for t in train} <= tables
    for table in tables - {
        "redeploy/source_choices.parquet",
        "redeploy/source_theta.parquet",
    }:  # copies, which no rule made
        sidecar = json.loads((results / table).with_suffix(".sidecar.json").read_text())
        assert sidecar["table"].endswith(table)
        assert sidecar["started_utc"] <= sidecar["ended_utc"]
    assert not list(results.rglob("*.tmp"))


def test_measurements_are_of_one_machine_and_every_strategy_has_a_row(finished: Path) -> None:
    results = finished / "results" / "local"
    probes, bench = (
        read(PROBES, results / "probes.parquet"),
        read(BENCH, results / "problems/tp_mlp/bench.parquet"),
    )
    assert probes["fingerprint"].n_unique() == 1
    assert set(bench["fingerprint"]) == set(probes["fingerprint"])
    assert set(probes["role"]) == {"structured", "shape", "mixed", "heldout", "beside"}
    summary = read(SUMMARY, results / "summary.parquet")
    measured = summary.filter(pl.col("measured_us").is_not_null())
    assert set(bench["candidate"]) <= set(measured["candidate"])


def test_what_is_chosen_is_trained_deployed_and_shown(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = finished / "results" / "local"
    choice = read(CHOICE, results / "problems/tp_mlp/choice.parquet")
    assert choice.height == 5  # the model's two sites, whole and split, and the Case of the configuration
    assert [choice["trained_in"].to_list().count(m) for m in ("tiny m1", "tiny m2")] == [2, 2]
    verdicts = read(VERDICTS, results / "problems/tp_mlp/verdicts.parquet")
    assert set(verdicts["gate"]) == {"legality", "equivalence", "bench", "training", "choice"}
    training = verdicts.filter((pl.col("gate") == "training") & pl.col("model").is_not_null())
    right = training.filter(~pl.col("reason").is_in(["ok", "not_measured"]))
    assert right.is_empty(), right["message"].to_list()
    file, record = (results / "deploy/tp_mlp.py", json.loads((results / "deploy/tp_mlp.json").read_text()))
    module = file.read_text() if file.exists() else ""  # torch's own may be faster at every Case
    shown = (finished / "all.txt").read_text()
    assert main(["summary", "--all", "--root", str(finished), "--profile", "local"]) == 0
    all_shown = capsys.readouterr().out
    for row in record["deployed"]:
        assert (row["case"] in module) == (row["in_file"] is not None) and (row["in_file"] or "") in module
        assert row["chosen"]["candidate"][:20] in all_shown
    assert re.search(r"\n tiny +(YES, |NO: )", shown)
    minutes = sum(made_s(file) or 0.0 for file in (results / "logs").glob("*.attempts") if _counts(file)) / 60
    said = re.search(r"Found in ([\d.]+) minutes of jobs", shown)  # none is left out
    assert said and float(said[1]) == pytest.approx(minutes, abs=0.06)
    stands = all(row["instead"] is None for row in record["deployed"])
    assert (module == (results / "problems/tp_mlp/chosen.py").read_text()) == stands
    assert record["module"] == (hashlib.sha256(module.encode()).hexdigest() if module else None)
    assert [one["case"] for one in record["deployed"]] == choice["case"].to_list()


def test_drift_is_asked_whenever_somebody_asks_and_makes_nothing_else(finished: Path) -> None:
    results = finished / "results" / "local"
    drift = read(DRIFT, results / "drift/drift.parquet")
    timed = read(REPROBES, results / "drift/reprobes.parquet")
    assert set(timed["probe"]) == set(drift["probe"]) < set(read(PROBES, results / "probes.parquet")["probe"])
    assert {"mixed", "local"} < set(drift["kind"])
    said = (results / "drift/logs/reprobe.log").read_text()
    assert re.search(r"theta (still|no longer) holds: \d+ of ", said)
    again = snakemake(finished, "--profile", "local", "drift", "-n")
    planned = again.stdout + again.stderr
    assert "Timing some probes of local again" in planned and "Timing probe Programs" not in planned


def test_snakemakes_own_report_carries_the_pages_and_the_modules_with_what_they_are(finished: Path) -> None:
    asked = ("--profile", "local", "all", "ablations", "--report", "pipeline.html")
    done = snakemake(finished, *asked)
    assert done.returncode == 0, done.stderr
    said = (finished / "pipeline.html").read_text()
    for words in (
        "the page that",
        "What is deployed of a Problem on local",
        "Searches side by side on local",
    ):
        assert words in said, words


def test_what_is_deployed_is_timed_again_as_the_file_that_it_is(finished: Path) -> None:
    results = finished / "results" / "local"
    confirmed = read(CONFIRMED, results / "confirmed.parquet")
    choice = read(CHOICE, results / "problems/tp_mlp/choice.parquet")
    deployed = confirmed.filter(arm="deployed")
    alone = choice.filter(pl.col("trained_in").is_null())
    assert deployed.height == 2 * alone.height > 0 and deployed["launch"].n_unique() == 2
    assert set(deployed["program"]) == set(alone["program"])
    steps, stamps = (
        read(table, results / f"{table.name}.parquet") for table in (CONFIRMED_STEPS, CONFIRMED_STAMPS)
    )
    ran = stamps.filter(arm="deployed")
    assert set(ran["program"]) <= set(choice["program"]) and ran["calls"].min() > 0
    for split in (1, 2):
        here = steps.filter(arm="deployed", microbatches=split)
        assert here.height == 2 and here["gradient_rel_error"].drop_nulls().max() < 1e-5
    splits = read(SPLITS, results / "splits.parquet")
    assert splits.filter(part="deployed").height == 1 and set(splits["microbatches"]) == {1, 2}
    assert splits["peak_memory_bytes"].min() > 0


def test_a_long_run_has_a_folder_of_its_own_with_the_losses_of_all_arms(finished: Path) -> None:
    folder = finished / "results" / "local" / "longrun"
    assert sorted(p.name for p in folder.iterdir() if p.suffix == ".parquet") == [
        "curves.parquet",
        "losses.parquet",
    ]
    losses, curves = (read(table, folder / f"{table.name}.parquet") for table in (LOSSES, CURVES))
    assert {"developer", "deployed"} <= set(curves["arm"]) and set(curves["model"]) == {"tiny"}
    assert set(curves["steps"]) == {12} and set(losses["step"]) == set(range(12))
    courses = losses.select("arm", "seed").unique()
    assert courses.filter(pl.col("seed") > 0)["arm"].to_list() == ["developer"]
    assert not list(folder.rglob(".partial/*"))  # the tables are written
    assert {p.name for p in (folder / "logs").glob("*.log")} == {"longtrain-tiny.log", "losses.log"}
    assert "tiny: losses" in (folder / "curves.html").read_text()
    assert "the band of developer's 2 seeds" in (finished / "all.txt").read_text()


def test_all_that_a_rule_loaded_is_in_its_code_digest(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(finished)
    config = yaml.safe_load(Path("config/config.yaml").read_text())
    pipeline = prepare(config | {"problems": list(SMALL["cases"])}, ())
    traced = {path.stem: set(path.read_text().split()) for path in (finished / "traced").iterdir()}
    named = {name for name, rule in rules().items() if not rule.like} - WHERE_ASKED  # no search asks here
    assert {name.partition("-")[0] for name in traced} == named
    for name, loaded in traced.items():
        rule, _, problem = name.partition("-")
        if rule == "archive":
            continue  # it opens all files, to pack them
        model = problem if rules()[rule].of == ("model",) else None
        search = {"search": "offline", "ask_probes": "command"}.get(rule)
        plugins = pipeline.plugins(rule, None if model else problem or None, model, search)
        covered = {p.relative_to(finished).as_posix() for p in closure(rule, *plugins, root=finished)}
        assert f"overlayccl_core/stages/{rule}.py" in loaded
        declared = {file for file in loaded if file.startswith("overlayccl_core/dag/")}  # on purpose
        assert not loaded - covered - declared - WITH_TORCH, f"{name} loaded what its digest does not cover"


def test_ranks_are_traced_too(finished: Path) -> None:
    loaded = (finished / "traced" / "bench-tp_mlp.txt").read_text()
    assert "overlayccl_core/backends/torch_ranks/timer.py" in loaded


def test_a_table_that_was_damaged_stops_the_run_and_loses_nothing(finished: Path) -> None:
    results = finished / "results" / "local"
    probes, ways = results / "probes.parquet", results / "problems/tp_mlp/known_ways.parquet"
    before = {path: path.read_bytes() for path in results.rglob("*.parquet")}
    probes.write_bytes(before[probes][:-50])
    done = snakemake(finished, "--profile", "local", "results/local/theta.parquet")
    probes.write_bytes(before[probes])
    assert done.returncode != 0
    assert "truncated Parquet file" in done.stderr
    assert ways.read_bytes() == before[ways]
    assert not list(results.rglob("*.tmp"))
