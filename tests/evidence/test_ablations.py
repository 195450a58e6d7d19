"""Best-so-far curves: of made-up tables whose answer is known, and of real small searches."""

from typing import Any

import polars as pl
import pytest

from overlayccl_core.evidence.ablations import arm_rows, curve_rows, mean_curves, place_rows, standing_at
from overlayccl_core.search.proposal import ProposalOutcome
from overlayccl_core.stages.ablation import run
from overlayccl_core.tables.ablations import ABLATION_CURVES, ABLATION_PLACES, ABLATIONS
from overlayccl_core.tables.calls import CALLS
from overlayccl_core.tables.sketches import SKETCHES
from overlayccl_core.tables.table import write
from tests.fake_timings import FINGERPRINT
from tests.search.costs import OFFLINE, favouring
from tests.stages.test_search import search_of

CASE = "grad_ar/n4-t2-32B-f32"
TYPES = {"equivalence": pl.String, "predicted_us": pl.Float64}
NO_CALLS = pl.DataFrame(schema=CALLS.schema)
UNTIMED = pl.DataFrame(schema={"search": pl.String, "seconds": pl.Float64})
Made = tuple[pl.DataFrame, pl.DataFrame]


def searched(*tried: tuple[str, str | None], search: str = "mine@0", case: str = CASE) -> pl.DataFrame:
    """`sketches`: (outcome, value_digest) of each proposal."""
    rows = [
        {"case": case, "direction": "forward", "search": search, "number": n, "outcome": how, "value_digest": what}
        for n, (how, what) in enumerate(tried)
    ]  # fmt: skip
    return pl.DataFrame(rows)


def candidate(digest: str, us: float | None, **columns: Any) -> dict[str, Any]:
    return {
        "case": CASE, "direction": "forward", "search": "mine@0", "value_digest": digest, "predicted_us": us,
        "origin": "rule", "family": f"all_reduce:world4:{len(digest)}", "equivalence": None,
        "fingerprint": FINGERPRINT,
    } | columns  # fmt: skip


def candidates(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(rows, infer_schema_length=None, schema_overrides=TYPES)


def steps(made: Made) -> list[tuple[int, int, float, float]]:
    rows = curve_rows(*made)
    return list(rows.select("evaluations", "priced", "best_us", "relative").iter_rows())


BASIC = searched(
    *(("program", "a"), ("does_not_apply", None), ("program", "b"), ("duplicate", "a"), ("rejected", None)),
    *(("infeasible", "c"), ("not_proven", "d"), ("illegal", "e"), ("program", "f"), ("duplicate", "f")),
)


def test_the_curve_falls_where_a_cheaper_program_came_and_ends_at_the_last_evaluation() -> None:
    made = candidates(*(candidate(*of) for of in (("a", 40.0), ("b", 60.0), ("c", None), ("f", 10.0))))
    assert steps((BASIC, made)) == [(1, 1, 40.0, 4.0), (6, 5, 10.0, 1.0), (7, 5, 10.0, 1.0)]


def test_what_asks_nothing_of_the_cost_model_is_no_evaluation() -> None:
    count = {str(outcome) for outcome in ProposalOutcome} - {"does_not_apply", "rejected", "illegal"}
    for outcome in ProposalOutcome:
        made = candidates(candidate("a", 40.0))
        rows = steps((searched(("program", "a"), (outcome.value, "z"), ("duplicate", "a")), made))
        assert rows[-1][0] == (3 if outcome in count else 2), outcome
        assert rows[-1][1] == (2 if outcome in count - {"duplicate"} else 1), outcome


def test_until_something_has_a_price_there_is_no_curve() -> None:
    made = candidates(candidate("a", None), candidate("b", 60.0))
    assert steps((searched(("infeasible", "a"), ("program", "b")), made)) == [(2, 2, 60.0, 1.0)]


@pytest.mark.parametrize(
    ("columns", "best"),
    [
        ({}, 10.0),
        ({"equivalence": "pass"}, 10.0),
        ({"equivalence": "fail"}, 40.0),
        ({"equivalence": "unproven"}, 40.0),
        ({"family": "all_reduce:world4:1, lossy"}, 40.0),
        ({"family": "all_reduce:world4:1, early"}, 10.0),
    ],
)
def test_what_is_shown_wrong_or_in_fewer_bits_is_never_best(columns: dict[str, str], best: float) -> None:
    made = candidates(candidate("a", 40.0, origin="developer"), candidate("b", 10.0, **columns))
    assert steps((searched(("program", "a"), ("program", "b")), made))[-1][2] == best


def test_fewer_bits_count_where_developer_has_as_few() -> None:
    family = "all_reduce:world4:1, lossy"
    made = candidates(
        candidate("a", 40.0, origin="developer", family=family), candidate("b", 10.0, family=family)
    )
    assert steps((searched(("program", "a"), ("program", "b")), made))[-1][2] == 10.0


def test_of_schedules_of_one_value_the_cheapest_counts() -> None:
    made = candidates(candidate("a", 40.0), candidate("a", 30.0))
    assert steps((searched(("program", "a")), made)) == [(1, 1, 30.0, 1.0)]


def two(other_case: str = "grad_ar/n4-t3-48B-f32") -> Made:
    """mine finds 40 then 10 in 4 evaluations; theirs 40, then 20 after 2, where it ends.

    At another place all is dearer.
    """
    parts, rows = [], []
    for case, times in ((CASE, 1.0), (other_case, 3.0)):
        parts += [
            searched(*(("program", x) for x in "abcd"), case=case),
            searched(("program", "a"), ("program", "e"), search="theirs@0", case=case),
        ]
        rows += [
            candidate(x, times * us, case=case)
            for x, us in zip("abcd", (40.0, 50.0, 60.0, 10.0), strict=True)
        ]
        rows += [
            candidate(x, times * us, case=case, search="theirs@0") for x, us in (("a", 40.0), ("e", 20.0))
        ]
    return pl.concat(parts), candidates(*rows)


def test_prices_are_relative_to_the_best_of_all_searches_at_a_place() -> None:
    rows = curve_rows(*two())
    ends = {
        (arm, seed): relative for arm, seed, relative in rows.select("arm", "seed", "relative").iter_rows()
    }
    assert ends == {("mine", 0): 1.0, ("theirs", 0): 2.0}
    assert rows["problem"].unique().to_list() == ["grad_ar"]


def test_a_search_is_summed_up_over_places_and_compared_after_equally_many_evaluations() -> None:
    sketches, made = two()
    arms = arm_rows(curve_rows(sketches, made), made, NO_CALLS, UNTIMED)
    mine, theirs = arms.iter_rows(named=True)
    counts = [(row["places"], row["evaluations"], row["priced"], row["families"]) for row in (mine, theirs)]
    assert counts == [(2, 8, 8, 2), (2, 4, 4, 2)]
    assert (mine["relative"], theirs["relative"]) == pytest.approx((1.0, 2.0))
    assert (mine["relative_at_equal"], theirs["relative_at_equal"]) == pytest.approx((4.0, 2.0))
    assert (mine["made_by"], mine["usd"]) == ([], None)


def test_a_place_tells_when_a_search_came_near_the_best_and_whether_it_found_anything() -> None:
    parts, rows = [], []
    for name, prices in (("mine", (40.0, 10.4, 10.0)), ("idle", (40.0, 50.0)), ("far", (40.0, 11.0))):
        digests = [f"{name}{n}" for n in range(len(prices))]
        parts.append(searched(*(("program", x) for x in digests), search=f"{name}@0"))
        rows += [candidate(x, us, search=f"{name}@0") for x, us in zip(digests, prices, strict=True)]
    places = place_rows(curve_rows(pl.concat(parts), candidates(*rows)))
    told = {
        arm: rest for arm, *rest in places.select("arm", "found", "near_after", "evaluations").iter_rows()
    }
    assert told == {"mine": [True, 2, 3], "idle": [False, None, 2], "far": [True, None, 2]}


def test_the_seconds_of_a_search_are_those_of_its_jobs_together() -> None:
    sketches, made = two()
    seconds = [("mine@0", 1.5), ("mine@0", 2.0), ("theirs@0", 1.0), ("theirs@0", None)]
    jobs = pl.DataFrame(seconds, schema=UNTIMED.schema, orient="row")
    mine, theirs = arm_rows(curve_rows(sketches, made), made, NO_CALLS, jobs).iter_rows(named=True)
    assert (mine["seconds"], theirs["seconds"]) == (3.5, None)


def test_who_answered_and_what_it_cost_comes_from_the_calls() -> None:
    sketches, made = two()
    calls = pl.DataFrame(
        {"search": ["mine@0"] * 3 + ["theirs@0"] * 2, "made_by": ["scripted", None, "model", "model", "model"],
         "usd": [0.5, 0.25, 1.0, 1.0, None]}
    )  # fmt: skip
    mine, theirs = arm_rows(curve_rows(sketches, made), made, calls, UNTIMED).iter_rows(named=True)
    assert (mine["made_by"], mine["usd"]) == (["model", "scripted"], 1.75)
    assert (theirs["made_by"], theirs["usd"]) == (["model"], None)  # one without a price


def test_a_search_that_asked_in_vain_is_no_model_s() -> None:
    sketches, made = two()
    nobody = {"search": "mine@0", "made_by": None, "usd": 0.0}
    calls = pl.DataFrame([nobody] * 2, schema={c: CALLS.schema[c] for c in nobody})
    mine, theirs = arm_rows(curve_rows(sketches, made), made, calls, UNTIMED).iter_rows(named=True)
    assert (mine["made_by"], theirs["made_by"]) == (["nobody"], [])


def test_a_curve_can_be_looked_at_anywhere() -> None:
    curves = curve_rows(*two())
    at = pl.DataFrame({"case": [CASE] * 4, "direction": ["forward"] * 4, "evaluations": [0, 1, 3, 9]})
    seen = standing_at(curves, at).sort("arm", "evaluations")
    told = [
        (arm, n, relative) for arm, n, relative in seen.select("arm", "evaluations", "relative").iter_rows()
    ]
    assert told == [
        *(("mine", 1, 4.0), ("mine", 3, 4.0), ("mine", 9, 1.0)),
        *(("theirs", 1, 4.0), ("theirs", 3, 2.0), ("theirs", 9, 2.0)),
    ]


def of_seeds(*ends: float) -> pl.DataFrame:
    """Curves of one search that ends so at each seed, and of a deterministic one."""
    parts, rows = [], []
    for seed, end in enumerate(ends):
        name = f"drawn@{seed}"
        parts.append(searched(("program", "a"), ("program", "b"), search=name))
        rows += [candidate("a", 8.0, search=name), candidate("b", end, search=name)]
    parts.append(searched(("program", "a"), ("program", "b"), search="rules@0"))
    rows += [candidate("a", 8.0, search="rules@0"), candidate("b", 1.0, search="rules@0")]
    return curve_rows(pl.concat(parts), candidates(*rows))


def test_over_seeds_stand_the_median_and_the_least_and_most_of_five() -> None:
    rows = {(row["arm"], row["evaluations"]): row for row in mean_curves(of_seeds(1.0, 2.0, 2.0, 2.0, 4.0))}
    end = rows["drawn", 2]
    assert (end["value"], end["low"], end["high"]) == pytest.approx((2.0, 1.0, 4.0))
    assert (rows["drawn", 1]["low"], rows["drawn", 1]["high"]) == pytest.approx(
        (8.0, 8.0)
    )  # they begin alike
    assert (rows["rules", 2]["value"], rows["rules", 2]["low"]) == (1.0, None)


def test_below_five_seeds_there_is_no_interval() -> None:
    assert {row["low"] for row in mean_curves(of_seeds(1.0, 2.0, 2.0, 4.0))} == {None}


def test_a_line_ends_where_its_search_did() -> None:
    last = {row["arm"]: row["evaluations"] for row in mean_curves(curve_rows(*two()))}
    assert last == {"mine": 4, "theirs": 2}


def test_a_search_without_a_seed_in_its_name_is_refused() -> None:
    made = candidates(candidate("a", 1.0, search="mine"))
    with pytest.raises(ValueError, match=r"search mine: .*mine@0"):
        curve_rows(searched(("program", "a"), search="mine"), made)


def test_tables_of_two_machines_are_not_compared() -> None:
    made = candidates(candidate("a", 1.0), candidate("b", 1.0, fingerprint="another"))
    with pytest.raises(ValueError, match="different machines"):
        run(searched(("program", "a")), made, NO_CALLS, UNTIMED)


def test_without_any_price_it_says_so() -> None:
    with pytest.raises(ValueError, match="no search found"):
        run(searched(("infeasible", "a")), candidates(candidate("a", None)), NO_CALLS, UNTIMED)


def test_real_searches_make_rows_that_fit_the_tables(tmp_path: Any) -> None:
    """The end of the curve is the price of what the search itself calls its cheapest."""
    named = {seed: OFFLINE.changed(name=f"offline@{seed}", seed=seed) for seed in (0, 1)}
    runs = [search_of("tp_mlp", favouring("all_to_all"), search=search) for search in named.values()]
    schema = {column.name: column.dtype for column in SKETCHES.columns}
    sketches = pl.concat([pl.DataFrame(run.sketches, schema=schema) for run in runs])
    made = pl.concat([pl.DataFrame(run.candidates, infer_schema_length=None) for run in runs])
    tables = run(sketches, made, NO_CALLS, UNTIMED)
    curves = write(ABLATION_CURVES, tables["ablation_curves"], tmp_path / "ablation_curves.parquet")
    write(ABLATION_PLACES, tables["ablation_places"], tmp_path / "ablation_places.parquet")
    arms = write(ABLATIONS, tables["ablations"], tmp_path / "ablations.parquet")
    assert arms["seed"].to_list() == [0, 1] and arms["arm"].unique().to_list() == ["offline"]
    assert arms["relative"].to_list() == [1.0, 1.0]  # it draws nothing that matters
    assert f", {curves['best_us'].min():.0f} us where developer has" in runs[0].search_ends[0]["message"]
    counted = sketches.filter(pl.col("outcome").is_in(["program", "infeasible", "duplicate", "not_proven"]))
    assert arms["evaluations"].sum() == counted.height
