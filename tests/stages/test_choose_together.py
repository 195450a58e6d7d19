"""A step with two Problems: both rules choose the same arm, one that was trained."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from overlayccl_core.evidence.choices import ProblemChoice, rows_of
from overlayccl_core.measuring.arms import at_case
from overlayccl_core.program.case import problem_of
from overlayccl_core.stages import choose
from overlayccl_core.tables.choice import CHOICE, VERDICTS
from overlayccl_core.tables.table import write
from tests.stages.flow import chosen_of, said_of
from tests.stages.training import SPEEDS, exchanging, train_tables

PROBLEMS = ("tp_mlp", "uniform_a2a")
MODEL = "tiny m2"
ALONE = {"only_tp_mlp": 1100.0, "only_uniform_a2a": 3500.0}  # beside 1,000 of both: each helps
Row = dict[str, Any]


@pytest.fixture(scope="module")
def flows(tp_flow: SimpleNamespace, a2a_flow: SimpleNamespace) -> SimpleNamespace:
    """Both Problems: of each its own flow, and the tables that they share."""
    of = dict(zip(PROBLEMS, (tp_flow, a2a_flow), strict=True))
    shared = ("bench", "ready", "shortlisted")
    together = {name: pl.concat([getattr(one, name) for one in of.values()]) for name in shared}
    return SimpleNamespace(of=of, folder=tp_flow.folder, **together)


def decided(
    flows: SimpleNamespace,
    *trained: pl.DataFrame,
    models: Mapping[str, tuple[str, ...]] | None = None,
    **changes: pl.DataFrame,
) -> dict[str, choose.Chosen]:
    """Problem -> what its rule chose. trained: (steps, stamps); models: Problem -> those that train its Cases."""
    shared = {name: changes.get(name, getattr(flows, name)) for name in ("bench", "ready", "shortlisted")}
    labels: dict[str, dict[str, tuple[str, ...]]] = {}
    for case, direction in exchanging(shared["ready"]).select("case", "direction").unique().iter_rows():
        labels.setdefault(case, {})[direction] = (models or {}).get(problem_of(case), (MODEL,))
    made = {problem: chosen_of(flow, trained, labels, **shared) for problem, flow in flows.of.items()}
    for problem, one in made.items():
        write(CHOICE, one.choice, flows.folder / f"choice-{problem}.parquet")
        write(VERDICTS, one.verdicts, flows.folder / f"verdicts-{problem}.parquet")
        assert {problem_of(row["case"]) for row in one.choice} == {problem}
    return made


def chosen(flows: SimpleNamespace, speeds: Mapping[str, float], **training: Any) -> dict[str, choose.Chosen]:
    return decided(
        flows, *train_tables(flows.ready, flows.folder, speeds=SPEEDS | ALONE | speeds, **training)
    )


def arm_of(made: Mapping[str, choose.Chosen], ready: pl.DataFrame) -> str:
    """The one arm that is deployed everywhere, as it was trained."""
    rows = [row for one in made.values() for row in one.choice]
    [arm] = {row["arm"] for row in rows}
    here: dict[tuple[str, str], dict[str, Row]] = {}
    for row in exchanging(ready).iter_rows(named=True):
        here.setdefault((row["case"], row["direction"]), {})[row["arm"]] = row
    assert len(rows) == len(here)
    for row in rows:
        mine = at_case(here[row["case"], row["direction"]], arm, problem_of(row["case"]))
        assert mine is not None and mine["program"] == row["program"]
    return str(arm)


def test_what_helps_together_is_deployed_together(flows: SimpleNamespace) -> None:
    made = chosen(flows, {})
    assert arm_of(made, flows.ready) == "finalist_1"
    assert all("fast as only_tp_mlp" in text for text in said_of(made["uniform_a2a"], "finalist_1"))


@pytest.mark.parametrize(("helps", "hurts"), [PROBLEMS, PROBLEMS[::-1]])
def test_where_one_problems_find_hurts_the_other_one_is_deployed_alone(
    flows: SimpleNamespace, helps: str, hurts: str
) -> None:
    made = chosen(flows, {f"only_{helps}": 800.0, f"only_{hurts}": 4500.0})
    assert arm_of(made, flows.ready) == f"only_{helps}"
    for problem, arm in ((hurts, "developer"), (helps, "finalist_1")):
        want = exchanging(flows.of[problem].ready).filter(arm=arm)["program"].to_list()
        assert sorted(row["program"] for row in made[problem].choice) == sorted(want)


def test_where_the_joint_arm_fails_its_gate_one_that_passes_alone_is_deployed(flows: SimpleNamespace) -> None:
    fail = ("finalist_1", "finalist_2", "finalist_overlap", "only_uniform_a2a")
    made = chosen(flows, {}, wrong={arm: {"gradient_rel_error": 0.3} for arm in fail})
    assert arm_of(made, flows.ready) == "only_tp_mlp"
    for problem in PROBLEMS:
        assert all("a gradient is 0.3" in text for text in said_of(made[problem], "finalist_1"))


def test_a_time_that_cannot_be_true_at_one_problem_stops_the_arm_at_all(flows: SimpleNamespace) -> None:
    trained = train_tables(flows.ready, flows.folder, speeds=SPEEDS | ALONE)
    first = flows.ready.filter(pl.col("case").str.starts_with("tp_mlp/"), arm="finalist_1")["program"]
    faster = pl.when(pl.col("program").is_in(first.to_list())).then(
        pl.col("samples_us").list.eval(pl.element() / 1e4)
    )
    bench = flows.bench.with_columns(samples_us=faster.otherwise("samples_us"))
    made = decided(flows, *trained, bench=bench)
    assert arm_of(made, flows.ready) == "finalist_2"
    for text in said_of(made["uniform_a2a"], "finalist_1"):
        assert text.startswith("bench: tp_mlp/") and "physical floor" in text


def test_a_finalist_that_one_problem_lacks_is_deployed_there_as_it_was_trained(
    flows: SimpleNamespace,
) -> None:
    """The second finalist of one Problem ran beside the first of the other."""
    lacking = pl.col("case").str.starts_with("uniform_a2a/") & (pl.col("arm") == "finalist_2")
    ready = flows.ready.filter(~lacking)
    steps, stamps = train_tables(ready, flows.folder, speeds=SPEEDS | ALONE | {"finalist_2": 500.0})
    first = ready.filter(pl.col("case").str.starts_with("uniform_a2a/"), arm="finalist_1")
    beside = stamps.join(first.select("case", "direction", "arm"), on=["case", "direction", "arm"])
    stamps = pl.concat([stamps, beside.with_columns(arm=pl.lit("finalist_2"), ran_as=pl.lit("finalist_2"))])
    assert arm_of(decided(flows, steps, stamps, ready=ready), ready) == "finalist_2"


def test_a_model_that_shares_a_case_decides_about_the_other_problem_too(flows: SimpleNamespace) -> None:
    both = train_tables(flows.ready, flows.folder, speeds=SPEEDS | ALONE)
    of_one = flows.ready.filter(pl.col("case").str.starts_with("uniform_a2a/"))
    other = train_tables(of_one, flows.folder, model="other")
    steps, stamps = (pl.concat(pair) for pair in zip(both, other, strict=True))
    models = {"tp_mlp": (MODEL,), "uniform_a2a": (MODEL, "other m2")}
    made = decided(flows, steps, stamps, models=models)
    assert arm_of(made, flows.ready) == "developer"
    for problem in PROBLEMS:  # exact sums and other losses: there every arm fails
        assert all("other m2: its losses" in text for text in said_of(made[problem], "best_known_way"))
    assert {row["trained_in"] for row in made["tp_mlp"].choice} == {MODEL}


def test_what_is_deployed_of_an_arm_that_changes_one_problem_is_what_it_ran(flows: SimpleNamespace) -> None:
    made = chosen(flows, {"only_tp_mlp": 800.0})
    for problem, flow in flows.of.items():
        choice = pl.DataFrame(made[problem].choice, schema=CHOICE.schema)
        rows = rows_of(ProblemChoice(finalists=flow.ready, choice=choice, module=""))
        told = {(r["case"], r["direction"]): r["program"] for r in rows if r["arm"] == "deployed"}
        assert told == {(r["case"], r["direction"]): r["program"] for r in made[problem].choice}
