"""What is deployed, from tables of training made by hand: choice, verdicts and module."""

import json
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from overlayccl_core.evidence.choices import ProblemChoice, rows_of
from overlayccl_core.stages import choose
from overlayccl_core.tables.choice import CHOICE, VERDICTS
from overlayccl_core.tables.table import write
from tests.stages.flow import NOTHING_TRAINED, chosen_of, said_of
from tests.stages.training import SPEEDS, train_tables

MODEL = "tiny m2"
FINALISTS = ("finalist_1", "finalist_2", "finalist_overlap")


@pytest.fixture(scope="module")
def flow(tp_flow: SimpleNamespace) -> SimpleNamespace:
    """Finalists that nobody wrote: the two fastest that are no strategy of the library."""
    ways = set(tp_flow.known_ways["strategy"])
    finds = tp_flow.shortlisted.filter(~pl.col("candidate").is_in(ways))
    ready = []
    for row in tp_flow.ready.iter_rows(named=True):
        if row["arm"].startswith("finalist") and row["candidate"] in ways:
            place = (pl.col("case") == row["case"]) & (pl.col("direction") == row["direction"])
            taken = {r["candidate"] for r in ready} | set(tp_flow.ready.filter(place)["candidate"])
            other = finds.filter(place & ~pl.col("candidate").is_in(taken)).row(0, named=True)
            row |= {name: other[name] for name in other if name in row and name != "arm"}
        ready.append(row)
    return SimpleNamespace(**vars(tp_flow) | {"ready": pl.DataFrame(ready, schema=tp_flow.ready.schema)})


def decide(
    flow: SimpleNamespace,
    trained: tuple[pl.DataFrame, pl.DataFrame] = NOTHING_TRAINED,
    *,
    models: tuple[str, ...] = (MODEL,),
    directions: tuple[str, ...] = ("forward",),
    **changes: pl.DataFrame,
) -> choose.Chosen:
    """Choose; all Cases are in the models, in some directions, where something was trained."""
    in_models = dict.fromkeys(directions, models)
    cases = {} if trained is NOTHING_TRAINED else dict.fromkeys(flow.listed["case"], in_models)
    decided = chosen_of(flow, trained, cases, **changes)
    write(CHOICE, decided.choice, flow.folder / "choice.parquet")
    write(VERDICTS, decided.verdicts, flow.folder / "verdicts.parquet")
    return decided


def chosen(flow: SimpleNamespace, **training: Any) -> choose.Chosen:
    return decide(flow, train_tables(flow.ready, flow.folder, **training))


@pytest.fixture(scope="module")
def usual(flow: SimpleNamespace) -> choose.Chosen:
    return chosen(flow)


def arms(decided: choose.Chosen) -> set[str]:
    return {row["arm"] for row in decided.choice}


def reasons(decided: choose.Chosen) -> list[str]:
    """Why what is deployed is, Case by Case."""
    return [v["message"] for v in decided.verdicts if (v["gate"], v["outcome"]) == ("choice", "pass")]


def test_what_is_faster_beyond_noise_than_all_that_is_plainer_is_deployed_at_all_sites(
    usual: choose.Chosen,
) -> None:
    assert len(usual.choice) == 2 and arms(usual) == {"finalist_1"}
    assert {row["trained_in"] for row in usual.choice} == {MODEL}
    for reason in reasons(usual):
        assert reason.startswith("1.40 (1.3") and "as best_known_way" in reason and f" in {MODEL}" in reason


@pytest.mark.parametrize(
    ("speeds", "arm", "said"),
    [
        (dict.fromkeys((*FINALISTS, "best_known_way"), 1700.0), "hand_bundled", "slower beyond noise"),
        (dict.fromkeys(SPEEDS, 4000.0), "developer", "nothing is faster beyond"),
        ({"best_known_way": 1005.0, "finalist_2": 1004.0, "finalist_overlap": 1003.0}, "best_known_way",
         "not faster beyond noise"),
        ({"ddp_25": 100.0}, "finalist_1", "as best_known_way"),
    ],
    ids=["wins the bench and loses the step", "nothing beats the developer", "within noise", "the framework's"],
)  # fmt: skip
def test_the_step_decides_and_the_reason_says_so(
    speeds: dict[str, float], arm: str, said: str, flow: SimpleNamespace
) -> None:
    decided = chosen(flow, speeds=SPEEDS | speeds)
    assert arms(decided) == {arm}
    assert all(said in reason for reason in reasons(decided))


def test_what_is_not_in_the_last_launch_is_not_chosen_however_fast_it_was(flow: SimpleNamespace) -> None:
    steps, stamps = train_tables(flow.ready, flow.folder)
    last = (pl.col("arm") == "finalist_1") & (pl.col("launch") == steps["launch"].max())
    decided = decide(flow, (steps.filter(~last), stamps))
    assert arms(decided) == {"finalist_2"}
    [why] = {v["message"] for v in decided.verdicts if (v["gate"], v["arm"]) == ("choice", "finalist_1")}
    assert "too slow in the first launches" in why


def test_table_and_module_hold_decisions_only_and_are_the_same_after_other_times(
    flow: SimpleNamespace, usual: choose.Chosen
) -> None:
    slower = flow.bench.with_columns(samples_us=pl.col("samples_us").list.eval(pl.element() * 1.001))
    times = {arm: 1.1 * us for arm, us in SPEEDS.items()}
    again = decide(flow, train_tables(flow.ready, flow.folder, speeds=times), bench=slower)
    assert (again.choice, again.module) == (usual.choice, usual.module)
    assert all(case in usual.module for case in flow.listed["case"])


def test_where_an_arm_has_a_plainer_ones_program_at_one_case_it_is_deployed_at_all_as_it_was_trained(
    flow: SimpleNamespace,
) -> None:
    """No mixture that nobody trained: of two arms that are alike at one Case, one was the faster step."""
    case = flow.listed["case"][0]
    plain = {r["case"]: r for r in flow.ready.iter_rows(named=True) if r["arm"] == "best_known_way"}
    rows = [
        plain[case] | {"arm": r["arm"]} if (r["case"], r["arm"]) == (case, "finalist_1") else r
        for r in flow.ready.iter_rows(named=True)
    ]
    alike = SimpleNamespace(**vars(flow) | {"ready": pl.DataFrame(rows, schema=flow.ready.schema)})
    decided = chosen(alike, speeds=SPEEDS | {"best_known_way": 1499.0})  # no faster than hand_bundled
    finalist = {r["case"]: r["program"] for r in rows if r["arm"] == "finalist_1"}
    assert {r["case"]: r["program"] for r in decided.choice} == finalist
    assert arms(decided) == {"finalist_1"}


def test_an_arm_that_no_case_has_is_not_judged(flow: SimpleNamespace) -> None:
    """Where no Case has a second finalist, it would be the first once more."""
    one = flow.ready.filter(pl.col("arm") != "finalist_2")
    decided = decide(flow, train_tables(one, flow.folder), ready=one)
    assert "finalist_2" not in {row["arm"] for row in decided.verdicts}
    assert "finalist_1" in {row["arm"] for row in decided.verdicts}


def test_an_arm_that_lacks_a_finalist_at_one_case_is_deployed_at_all_as_it_was_trained(
    flow: SimpleNamespace,
) -> None:
    """finalist_2 ran with finalist_1's Program where there is no second: so it is deployed, and so it is called."""
    case = flow.listed["case"][0]
    without = flow.ready.filter(~((pl.col("case") == case) & (pl.col("arm") == "finalist_2")))
    ready = {(r["case"], r["arm"]): r["program"] for r in without.iter_rows(named=True)}
    first = without.filter((pl.col("case") == case) & (pl.col("arm") == "finalist_1"))
    ran = pl.concat([without, first.with_columns(arm=pl.lit("finalist_2"))])
    trained = train_tables(ran, flow.folder, speeds=SPEEDS | {"finalist_2": 500.0})
    decided = decide(flow, trained, ready=without)
    assert arms(decided) == {"finalist_2"}
    there = {r["case"]: r["program"] for r in decided.choice}
    told = rows_of(ProblemChoice(finalists=without, choice=pl.DataFrame(decided.choice), module=""))
    assert {r["case"]: r["program"] for r in told if r["arm"] == "deployed"} == there
    assert there.pop(case) == ready[case, "finalist_1"]
    assert all(program == ready[name, "finalist_2"] for name, program in there.items()) and there


def test_an_arm_whose_candidate_the_bench_refuses_at_one_case_is_deployed_at_none_of_the_model(
    flow: SimpleNamespace,
) -> None:
    case = flow.listed["case"][0]
    [program] = flow.ready.filter(case=case, arm="finalist_1")["program"]
    it = (pl.col("case") == case) & (pl.col("program") == program)
    impossible = pl.col("samples_us").list.eval(pl.element() * 1e-9)
    bench = flow.bench.with_columns(samples_us=pl.when(it).then(impossible).otherwise("samples_us"))
    decided = decide(flow, train_tables(flow.ready, flow.folder), bench=bench)
    assert len(arms(decided)) == 1 and "finalist_1" not in arms(decided)
    assert any(f"bench: {case} forward: " in message for message in said_of(decided, "finalist_1"))


def test_every_gate_leaves_its_verdicts(flow: SimpleNamespace, usual: choose.Chosen) -> None:
    rows = pl.DataFrame(usual.verdicts, schema=VERDICTS.schema)
    assert set(rows["gate"]) == {"legality", "equivalence", "bench", "training", "choice"}
    assert rows.filter(gate="bench").height == flow.shortlisted.height
    training = rows.filter(gate="training", arm="finalist_1")
    assert training.height == 2 * 3 and set(training["outcome"]) == {"pass"}
    assert set(training["model"]) == {MODEL}
    assert set(rows.filter(gate="choice", arm="finalist_2")["reason"]) == {"not_faster"}
    assert all(json.loads(text) is not None for text in rows["evidence"])


def test_an_arm_fails_as_a_whole_and_the_next_one_is_taken(flow: SimpleNamespace) -> None:
    decided = chosen(flow, wrong={"finalist_1": {"gradient_rel_error": 0.3}})
    assert arms(decided) == {"finalist_2"}
    [said] = said_of(decided, "finalist_1")
    assert "a gradient is 0.3" in said


def test_one_that_is_slower_in_a_model_that_has_the_case_is_not_chosen(flow: SimpleNamespace) -> None:
    few = train_tables(flow.ready, flow.folder)
    slower = SPEEDS | dict.fromkeys(("finalist_1", "finalist_2", "finalist_overlap"), 2000.0)
    many = train_tables(flow.ready, flow.folder, microbatches=8, speeds=slower)
    both = pl.concat([few[0], many[0]]), pl.concat([few[1], many[1]])
    decided = decide(flow, both, models=("tiny m2", "tiny m8"))
    assert arms(decided) == {"best_known_way"}
    assert {row["trained_in"] for row in decided.choice} == {"tiny m2, tiny m8"}


def test_an_arm_that_was_trained_as_another_has_what_is_said_of_that(flow: SimpleNamespace) -> None:
    steps, stamps = train_tables(flow.ready, flow.folder)
    ran_as = pl.when(pl.col("arm") == "finalist_1").then(pl.lit("best_known_way")).otherwise("arm")
    steps, stamps = steps.filter(pl.col("arm") != "finalist_1"), stamps.with_columns(ran_as=ran_as)
    decided = decide(flow, (steps, stamps))
    assert arms(decided) == {"finalist_2"}  # 1,200 us: the first one's are best_known_way's 1,400 here
    assert all("not faster beyond noise" in message for message in said_of(decided, "finalist_1"))


@pytest.mark.parametrize("directions", [("forward",), ("forward", "backward"), ("backward",)])
def test_training_decides_in_the_directions_in_which_a_model_has_the_case_and_the_bench_in_the_other(
    a2a_flow: SimpleNamespace, directions: tuple[str, ...]
) -> None:
    trained = a2a_flow.ready.filter(pl.col("direction").is_in(directions))
    slow = dict.fromkeys(SPEEDS, 4000.0)  # no arm is faster than the developer's step
    trained = train_tables(trained, a2a_flow.folder, speeds=slow)
    developer = pl.col("candidate") == "native"
    slower = pl.when(developer).then(pl.col("samples_us").list.eval(4 * pl.element()))  # in the bench
    bench = a2a_flow.bench.with_columns(samples_us=slower.otherwise("samples_us"))
    decided = decide(a2a_flow, trained, directions=directions, bench=bench)
    for row in decided.choice:
        in_model = row["direction"] in directions
        assert (row["arm"] == "developer") is in_model, row
        assert row["trained_in"] == (MODEL if in_model else None)


def test_without_a_model_the_bench_decides_and_the_verdict_says_not_applicable(flow: SimpleNamespace) -> None:
    decided = decide(flow)
    assert "developer" not in arms(decided)
    training = [row for row in decided.verdicts if row["gate"] == "training"]
    assert {row["outcome"] for row in training} == {"not_applicable"}
    assert all("times as fast as" in reason and "in the bench" in reason for reason in reasons(decided))
    assert {row["trained_in"] for row in decided.choice} == {None}
    few = flow.bench.with_columns(samples_us=pl.col("samples_us").list.head(2))
    decided = decide(flow, bench=few)
    assert arms(decided) == {"developer"}
    assert all("too few rounds" in reason for reason in reasons(decided))


def test_a_case_that_should_have_been_trained_and_was_not_keeps_the_baseline(flow: SimpleNamespace) -> None:
    decided = chosen(flow, model="another")
    assert arms(decided) == {"developer"}
    assert all("not trained in tiny m2" in reason for reason in reasons(decided))


def test_steps_of_another_program_say_nothing(flow: SimpleNamespace) -> None:
    steps, stamps = train_tables(flow.ready, flow.folder)
    other = pl.when(pl.col("arm") == "finalist_1").then(pl.lit("0" * 24)).otherwise("program")
    decided = decide(flow, (steps, stamps.with_columns(program=other)))
    assert arms(decided) == {"finalist_2"}
    assert all("ran another Program" in message for message in said_of(decided, "finalist_1"))


def test_two_machines_are_not_mixed(flow: SimpleNamespace) -> None:
    steps, stamps = train_tables(flow.ready, flow.folder)
    with pytest.raises(ValueError, match="not mixed"):
        decide(flow, (steps.with_columns(fingerprint=pl.lit("host other")), stamps))
