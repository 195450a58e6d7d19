"""Rule deploy: what was confirmed stands, or a rival takes its place; the framework's own leaves no file."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from overlayccl_core.backends.torchdist import deployed
from overlayccl_core.evidence.choices import ProblemChoice, rows_of
from overlayccl_core.evidence.standing import StepTables
from overlayccl_core.measuring.arms import NEEDS_NO_SEARCH, ArmName
from overlayccl_core.program.json_form import loads
from overlayccl_core.stages import deploy
from overlayccl_core.tables.choice import CHOICE, VERDICTS
from overlayccl_core.tables.confirmed import CONFIRMED
from overlayccl_core.tables.deployed import DEPLOYED, SPLITS
from overlayccl_core.tables.published import cases_of
from overlayccl_core.tables.table import write
from tests.fake_timings import timing_columns
from tests.rows import row
from tests.stages.flow import NOTHING_TRAINED, chosen_of, quiet
from tests.stages.training import SPEEDS, train_tables


def chosen(flow: SimpleNamespace, trained: bool) -> SimpleNamespace:
    """A flow with a choice; trained: a model `tiny` has all its Cases, in 2 microbatches, and takes finalist_1."""
    steps_and_stamps = train_tables(flow.ready, flow.folder) if trained else NOTHING_TRAINED
    labels = {c: {d: ["tiny m2"] for d in ("forward", "backward")} for c in flow.listed["case"]}
    made = chosen_of(flow, steps_and_stamps, labels if trained else {})
    choice = flow.checked(CHOICE, made.choice)
    return SimpleNamespace(
        **vars(flow),
        decided=ProblemChoice(finalists=flow.ready, choice=choice, module=made.module),
        verdicts=flow.checked(VERDICTS, made.verdicts),
        trained=steps_and_stamps,
    )


@pytest.fixture(scope="module")
def alone(a2a_flow: SimpleNamespace) -> SimpleNamespace:
    """No model has these Cases."""
    return chosen(a2a_flow, trained=False)


@pytest.fixture(scope="module")
def in_steps(tp_flow: SimpleNamespace) -> SimpleNamespace:
    return chosen(tp_flow, trained=True)


def confirmed_rows(
    decided: ProblemChoice, us: Mapping[str, float], launches: int = 3
) -> Iterator[dict[str, Any]]:
    """What needs no search and what was chosen: as fast as its Program should be, or as `us` has it for an arm."""
    for one in rows_of(decided):
        if one["arm"] in (*NEEDS_NO_SEARCH, ArmName.DEPLOYED):
            for launch in range(launches):
                yield row(
                    CONFIRMED,
                    problem=one["case"].partition("/")[0],
                    **{key: one[key] for key in ("case", "direction", "arm", "candidate")},
                    **timing_columns(loads(one["program_json"]), launch=launch, us=us.get(one["arm"])),
                )


def made(
    of: SimpleNamespace,
    *,
    us: Mapping[str, float] = {},
    speeds: Mapping[str, float] | None = None,
    **changes: Any,
) -> deploy.DeployOutputs:
    """us: of a pass in the launches that chose nothing; speeds: of a step in them, as train_tables has it."""
    after = of.trained
    if speeds is not None:
        ran = pl.DataFrame(rows_of(of.decided), infer_schema_length=None)
        after = train_tables(ran, of.folder, speeds=speeds)
    rows = [] if speeds else list(confirmed_rows(of.decided, us))
    tables = deploy.DeployTables(
        decided=of.decided,
        prices=changes.get("prices", of.prices),
        candidates=changes.get("candidates", of.candidates),
        shortlist=of.shortlisted,
        bench=of.bench,
        verdicts=of.verdicts,
        confirmed=write(CONFIRMED, rows, of.folder / "confirmed.parquet"),
    )
    names = ("steps", "stamps", "confirmed_steps", "confirmed_stamps")
    return deploy.run(
        {of.problem: tables},
        StepTables(**dict(zip(names, (*of.trained, *after), strict=True))),
        of.probes,
        "gloo",
        printer=deployed,
        progress=quiet,
    )


# ------------------------------------------------------------------------------------------------- what is written
def test_what_stands_is_the_file_that_was_confirmed_to_the_byte(
    alone: SimpleNamespace, in_steps: SimpleNamespace
) -> None:
    assert made(alone).modules == {"uniform_a2a": alone.decided.module}
    assert made(in_steps, speeds=SPEEDS).modules == {"tp_mlp": in_steps.decided.module}


def test_a_rivals_programs_take_the_place_of_what_is_slower(
    in_steps: SimpleNamespace, tmp_path: Path
) -> None:
    of = made(in_steps, speeds={**SPEEDS, "deployed": 1600.0})
    frame = write(DEPLOYED, of.deployed, tmp_path / "deployed.parquet")
    assert set(frame.select("arm", "use").iter_rows()) == {("finalist_1", "known")}
    [taken] = set(frame["instead"])  # at all Cases of the step
    names = {r["candidate"] for r in in_steps.ready.iter_rows(named=True) if r["arm"] == taken}
    assert set(frame["in_file"]) <= names and names.isdisjoint(frame["candidate"])
    source = of.modules["tp_mlp"]
    assert source is not None and cases_of(source) == cases_of(in_steps.decided.module)
    best, found = (
        {r["program"] for r in in_steps.ready.iter_rows(named=True) if r["arm"] == arm}
        for arm in (taken, "finalist_1")
    )
    assert all(digest in source for digest in best) and not any(digest in source for digest in found - best)
    splits = write(SPLITS, of.splits, tmp_path / "splits.parquet")
    assert splits.filter(part="instead").select("arm", "needs_search").rows() == [(taken, False)]


def test_where_the_frameworks_own_is_faster_no_file_has_the_case(in_steps: SimpleNamespace) -> None:
    of = made(in_steps, speeds={**SPEEDS, "ddp_25": 700.0})
    assert {(row["use"], row["instead"]) for row in of.deployed} == {("framework", "ddp_25")}
    assert of.modules == {"tp_mlp": None}
    record = deploy.records(of, {"tp_mlp": in_steps.verdicts}, "gloo")["tp_mlp"]
    assert record["module"] is None and {row["in_file"] for row in record["deployed"]} == {None}


def test_a_case_that_no_model_has_is_decided_by_its_passes(alone: SimpleNamespace) -> None:
    """native is chosen forward, where nothing is faster; backward, too, something else is."""
    quick = {row["arm"]: row["program"] for row in alone.ready.iter_rows(named=True)}
    assert len(set(quick.values())) > 1
    us = {"deployed": 2000.0, "developer": 2000.0, "best_known_way": 1000.0, "hand_bundled": 1500.0}
    for one in made(alone, us=us).deployed:
        other = one["best_other"]
        assert one["instead"] == (other if other in ("best_known_way", "hand_bundled") else None)


# ------------------------------------------------------------------------------------------------------ the tables
def test_what_is_deployed_is_told_by_the_launches_after_the_choice(alone: SimpleNamespace) -> None:
    frame = write(DEPLOYED, made(alone).deployed, alone.folder / "deployed.parquet")
    assert frame.select("case", "direction").rows() == alone.decided.choice.select("case", "direction").rows()
    for one in frame.iter_rows(named=True):
        assert one["launches"] == 3 and one["measured_us"] > 0 and not one["disturbed"]
        if one["arm"] == "developer":  # over itself there is no gain
            assert one["speedup"] is None and one["reason"].startswith("nothing is faster beyond")
        else:
            assert one["speedup_low"] < one["speedup"] < one["speedup_high"] and one["speedup"] > 1
            assert "times as fast as" in one["reason"] and "in the bench" in one["reason"]
        assert one["best_other"] is None or one["best_other"] != one["arm"]
        use = "found" if one["candidate"].startswith("found-") else "known"
        assert one["instead"] is None and one["use"] == use
        assert one["regret"] < 0.2
    pairs = frame.group_by("case").agg(pl.col("predicted_us").sum(), pl.col("predicted_pair_us").unique())
    assert all(pair == [pytest.approx(total)] for _, total, pair in pairs.iter_rows())


def test_a_pair_with_a_direction_that_has_no_price_has_none(alone: SimpleNamespace) -> None:
    backward = pl.col("direction") == "backward"
    without = {name: getattr(alone, name).filter(~backward) for name in ("prices", "candidates")}
    rows = made(alone, **without).deployed
    assert {one["predicted_us"] is None for one in rows} == {True, False}
    assert {one["predicted_pair_us"] for one in rows} == {None}


def test_the_records_hold_figures_and_verdicts_of_what_is_deployed(alone: SimpleNamespace) -> None:
    told = deploy.records(made(alone), {"uniform_a2a": alone.verdicts}, "gloo")
    record = json.loads(json.dumps(told["uniform_a2a"]))
    assert record["module"] == hashlib.sha256(alone.decided.module.encode()).hexdigest()
    assert (record["problem"], record["library"], record["splits"]) == ("uniform_a2a", "gloo", [])
    for one in record["deployed"]:
        assert one["in_file"] == one["chosen"]["candidate"] and one["chosen"]["measured_us"] > 0
        gates = {verdict["gate"]: verdict["outcome"] for verdict in one["chosen"]["verdicts"]}
        passed = dict.fromkeys(("legality", "equivalence", "bench", "choice"), "pass")
        assert gates in (passed, passed | {"training": "not_applicable"})
