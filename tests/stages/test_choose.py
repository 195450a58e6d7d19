"""What is deployed, from tables of training made by hand: choice, verdicts, module and record."""

import json
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from overlayccl_core.backends.torchdist import deployed
from overlayccl_core.stages import choose
from overlayccl_core.tables.choice import CHOICE, VERDICTS
from overlayccl_core.tables.steps import STAMPS, STEPS
from overlayccl_core.tables.table import write
from tests.stages.flow import quiet
from tests.stages.training import SPEEDS, train_tables

MODEL = "tiny m2"


@pytest.fixture
def flow(tp_flow: SimpleNamespace) -> SimpleNamespace:
    return tp_flow


def chosen(flow: SimpleNamespace, *, trained: bool = True, **training: Any) -> choose.Chosen:
    steps, stamps = train_tables(flow.ready, flow.folder, **training)
    return decide(flow, steps if trained else None, stamps if trained else None)


def decide(
    flow: SimpleNamespace,
    steps: pl.DataFrame | None,
    stamps: pl.DataFrame | None,
    *,
    models: tuple[str, ...] = (MODEL,),
    directions: tuple[str, ...] = ("forward",),
    **changes: pl.DataFrame,
) -> choose.Chosen:
    """Choose, with all Cases in the models, in some directions, where there are steps."""
    tables = choose.Tables(
        **{
            name: changes.get(name, getattr(flow, name))
            for name in ("seeds", "prices", "candidates", "probes")
        },
        bench=changes.get("bench", flow.bench),
        shortlist=flow.shortlisted,
        finalists=flow.ready,
        steps=pl.DataFrame(schema=STEPS.schema) if steps is None else steps,
        stamps=pl.DataFrame(schema=STAMPS.schema) if stamps is None else stamps,
    )
    in_models = dict.fromkeys(directions, models)
    cases = {case: in_models for case in flow.listed["case"]} if steps is not None else {}
    decided = choose.run(flow.problem, "gloo", tables, cases, printer=deployed, progress=quiet)
    write(CHOICE, decided.choice, flow.folder / "choice.parquet")
    write(VERDICTS, decided.verdicts, flow.folder / "verdicts.parquet")
    return decided


def arms(decided: choose.Chosen) -> set[str]:
    return {row["arm"] for row in decided.choice}


def test_the_first_finalist_that_passes_is_deployed_at_all_sites_of_the_model(flow: SimpleNamespace) -> None:
    decided = chosen(flow)
    assert len(decided.choice) == 2 and arms(decided) == {"finalist_1"}
    for row in decided.choice:
        assert row["trained_in"] == MODEL
        assert row["step_speedup"] == pytest.approx(4.0, rel=0.02)
        assert row["step_speedup_low"] < row["step_speedup"] < row["step_speedup_high"]
        assert (row["best_other"], row["regret"]) == ("hand_bundled", 0.0)
        assert row["step_gain"] == pytest.approx(1.5, rel=0.02)
        assert row["speedup"] > 2 and row["model_regret"] < 0.05
        assert row["predicted_pair_us"] == row["predicted_us"]  # the other direction exchanges nothing
        assert row["reason"] == f"passes the training gate in {MODEL}"


def test_every_gate_leaves_its_verdicts(flow: SimpleNamespace) -> None:
    decided = chosen(flow)
    rows = pl.DataFrame(decided.verdicts, schema=VERDICTS.schema)
    assert set(rows["gate"]) == {"legality", "equivalence", "bench", "training", "choice"}
    assert rows.filter(pl.col("gate") == "bench").height == flow.shortlisted.height
    training = rows.filter((pl.col("gate") == "training") & (pl.col("arm") == "finalist_1"))
    assert training.height == 2 * 5 and set(training["outcome"]) == {"pass"}
    assert set(training["model"]) == {MODEL}
    slow = rows.filter((pl.col("arm") == "single_graph") & (pl.col("gate") == "training"))
    assert "slower" in slow["reason"].to_list()
    assert all(json.loads(text) is not None for text in rows["evidence"])


def test_an_arm_fails_as_a_whole_and_the_next_one_is_tried(flow: SimpleNamespace) -> None:
    decided = chosen(flow, wrong={"finalist_1": {"gradient_rel_error": 0.3}})
    assert arms(decided) == {"finalist_2"}
    for row in decided.choice:
        assert "finalist_1" in row["reason"] and "a gradient is 0.3" in row["reason"]


def test_a_finalist_that_wins_the_bench_and_loses_the_step_is_not_deployed(flow: SimpleNamespace) -> None:
    decided = chosen(flow, speeds=SPEEDS | {"finalist_1": 1600.0, "finalist_2": 1700.0})
    assert arms(decided) == {"hand_bundled"}
    assert all("slower beyond noise" in row["reason"] for row in decided.choice)
    assert all(row["best_other"] == "single_graph" for row in decided.choice)


def test_where_nothing_beats_the_developer_it_is_deployed_and_that_is_said(flow: SimpleNamespace) -> None:
    decided = chosen(flow, speeds=SPEEDS | dict.fromkeys(SPEEDS, 4000.0))
    assert arms(decided) == {"developer"}
    for row in decided.choice:
        assert row["reason"].startswith("nothing beats the baseline")
        assert row["step_speedup"] == 1.0


def test_another_computation_and_the_quiet_step_are_no_arms(flow: SimpleNamespace) -> None:
    decided = chosen(flow, speeds=SPEEDS | {"big_batch": 100.0})
    assert arms(decided) == {"finalist_1"}


def test_a_framework_that_is_faster_still_is_told_and_stops_no_module(flow: SimpleNamespace) -> None:
    decided = chosen(flow, speeds=SPEEDS | {"ddp_25": 500.0})
    assert arms(decided) == {"finalist_1"}
    for row in decided.choice:
        assert row["best_other"] == "ddp_25" and row["step_gain"] == pytest.approx(0.5, rel=0.02)
        assert f"; in {MODEL} the framework is faster beyond noise" in row["reason"]
        assert row["reason"].index("0.50 (0.") < row["reason"].index("times as fast as ddp_25")


def test_every_faster_size_of_the_framework_is_told_in_every_model(flow: SimpleNamespace) -> None:
    few = train_tables(flow.ready, flow.folder, speeds=SPEEDS | {"ddp_4": 800.0, "ddp_25": 500.0})
    many = train_tables(flow.ready, flow.folder, microbatches=8, speeds=SPEEDS | {"ddp_1": 700.0})
    steps, stamps = (pl.concat(pair) for pair in zip(few, many, strict=True))
    for row in decide(flow, steps, stamps, models=("tiny m2", "tiny m8")).choice:
        first, second = row["reason"].split("; in ")[1:]
        assert first.startswith("tiny m2") and first.index("as ddp_25") < first.index("as ddp_4")
        assert second.startswith("tiny m8") and "as ddp_1" in second and "ddp_4" not in second


@pytest.mark.parametrize("framework_us", [1010.0, 1300.0], ids=["within noise", "slower"])
def test_a_framework_that_is_not_faster_beyond_noise_is_no_reason(
    flow: SimpleNamespace, framework_us: float
) -> None:
    decided = chosen(flow, speeds=SPEEDS | {"ddp_25": framework_us})
    for row in decided.choice:
        assert row["best_other"] == "ddp_25" and "framework" not in row["reason"]


def test_of_several_models_the_least_gain_is_told(flow: SimpleNamespace) -> None:
    few = train_tables(flow.ready, flow.folder)
    slower = SPEEDS | {"finalist_1": 1250.0, "finalist_2": 1400.0}
    many = train_tables(flow.ready, flow.folder, microbatches=8, speeds=slower)
    steps, stamps = (pl.concat(pair) for pair in zip(few, many, strict=True))
    for models in (("tiny m2", "tiny m8"), ("tiny m8", "tiny m2")):
        decided = decide(flow, steps, stamps, models=models)
        assert arms(decided) == {"finalist_1"}
        for row in decided.choice:
            assert row["trained_in"] == ", ".join(models)
            assert row["step_speedup"] == pytest.approx(3.2, rel=0.02)
            assert row["step_gain"] == pytest.approx(1.2, rel=0.02)


@pytest.mark.parametrize("directions", [("forward",), ("forward", "backward"), ("backward",)])
def test_training_decides_in_the_directions_in_which_a_model_has_the_case_and_the_bench_in_the_other(
    a2a_flow: SimpleNamespace, directions: tuple[str, ...]
) -> None:
    trained = a2a_flow.ready.filter(pl.col("direction").is_in(directions))
    slow = dict.fromkeys(SPEEDS, 4000.0)  # no arm is faster than the developer's step
    steps, stamps = train_tables(trained, a2a_flow.folder, speeds=slow)
    developer = pl.col("candidate") == "native"
    slower = pl.when(developer).then(pl.col("samples_us").list.eval(4 * pl.element()))  # in the bench
    bench = a2a_flow.bench.with_columns(samples_us=slower.otherwise("samples_us"))
    decided = decide(a2a_flow, steps, stamps, directions=directions, bench=bench)
    for row in decided.choice:
        in_model = row["direction"] in directions
        assert row["arm"] == ("developer" if in_model else "finalist_2"), row
        assert row["trained_in"] == (MODEL if in_model else None)


def test_the_price_of_a_pair_is_the_sum_of_its_directions(a2a_flow: SimpleNamespace) -> None:
    rows = decide(a2a_flow, None, None).choice
    for case in a2a_flow.listed["case"]:
        forward, backward = (
            next(r for r in rows if (r["case"], r["direction"]) == (case, direction))
            for direction in ("forward", "backward")
        )
        assert min(forward["predicted_us"], backward["predicted_us"]) > 0
        pair = forward["predicted_us"] + backward["predicted_us"]
        assert forward["predicted_pair_us"] == backward["predicted_pair_us"] == pytest.approx(pair)


def test_a_pair_with_a_direction_that_has_no_price_has_none(a2a_flow: SimpleNamespace) -> None:
    backward = pl.col("direction") == "backward"
    prices = a2a_flow.prices.filter(~backward)
    candidates = a2a_flow.candidates.filter(~backward)
    rows = decide(a2a_flow, None, None, prices=prices, candidates=candidates).choice
    assert {row["predicted_us"] is None for row in rows} == {True, False}
    assert {row["predicted_pair_us"] for row in rows} == {None}


def test_without_a_model_the_bench_decides_and_the_verdict_says_not_applicable(flow: SimpleNamespace) -> None:
    decided = chosen(flow, trained=False)
    assert arms(decided) == {"finalist_1"}
    training = [row for row in decided.verdicts if row["gate"] == "training"]
    assert {row["outcome"] for row in training} == {"not_applicable"}
    for row in decided.choice:
        assert "training: not applicable" in row["reason"]
        assert row["trained_in"] is row["step_speedup"] is row["best_other"] is None


def test_a_case_that_should_have_been_trained_and_was_not_keeps_the_baseline(flow: SimpleNamespace) -> None:
    steps, stamps = train_tables(flow.ready, flow.folder, model="another")
    decided = decide(flow, steps, stamps)
    assert arms(decided) == {"developer"}
    assert all("was not trained in tiny m2" in row["reason"] for row in decided.choice)


def test_steps_of_another_program_say_nothing(flow: SimpleNamespace) -> None:
    steps, stamps = train_tables(flow.ready, flow.folder)
    other = pl.when(pl.col("arm") == "finalist_1").then(pl.lit("0" * 24)).otherwise("program")
    decided = decide(flow, steps, stamps.with_columns(program=other))
    assert arms(decided) == {"finalist_2"}
    assert all("ran another Program" in row["reason"] for row in decided.choice)


def test_two_machines_are_not_mixed(flow: SimpleNamespace) -> None:
    steps, stamps = train_tables(flow.ready, flow.folder)
    with pytest.raises(ValueError, match="not mixed"):
        decide(flow, steps.with_columns(fingerprint=pl.lit("host other")), stamps)


def test_the_module_is_a_function_of_programs_and_library_alone(flow: SimpleNamespace) -> None:
    decided = chosen(flow)
    assert all(case in decided.module for case in flow.listed["case"])
    slower = flow.bench.with_columns(samples_us=pl.col("samples_us").list.eval(pl.element() * 1.001))
    steps, stamps = train_tables(flow.ready, flow.folder)
    again = decide(flow, steps, stamps, bench=slower)
    assert again.module == decided.module
    assert again.record != decided.record


def test_the_record_holds_figures_and_verdicts_of_what_is_deployed(flow: SimpleNamespace) -> None:
    record = json.loads(json.dumps(chosen(flow).record))
    assert (record["problem"], record["library"], record["versions"]) == (
        "tp_mlp",
        "gloo",
        {"torch": "2.13.0"},
    )
    for choice in record["choice"]:
        assert choice["measured_us"] > 0 and choice["predicted_us"] > 0
        gates = [verdict["gate"] for verdict in choice["verdicts"]]
        assert set(gates) == {"legality", "equivalence", "bench", "training", "choice"}
        assert {verdict["outcome"] for verdict in choice["verdicts"]} == {"pass"}
