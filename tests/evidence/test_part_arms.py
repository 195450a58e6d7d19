"""Arms between two sides of a gain: which sets of factors, at which count of microbatches, with which Programs."""

from dataclasses import replace

import polars as pl
import pytest

from overlayccl_core.evidence.part_arms import (
    MOST_ARMS,
    SAME_CALLS,
    arm_of,
    compared,
    in_order,
    nearest,
    sets_to_time,
)
from overlayccl_core.measuring.arms import arm_label
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.stages.find_parts import PartArms
from tests.evidence.parts_made import (
    AT_TWO,
    DEPLOYMENT,
    M_DIFFERS,
    MODEL,
    arms_of,
    decided,
    deployed,
    problems,
    splits,
)

MERGED, EXCHANGED = Recipe(base="merged_over_microbatches"), Recipe(base="all_to_all_sum")
FACTORS = ("boundary", "merge", "primitive")


def programs(arms: pl.DataFrame, factors: str) -> set[str]:
    return set(arms.filter(pl.col("factors") == factors)["program"])


def test_every_set_of_the_factors_is_an_arm_from_the_developers_programs_to_the_deployed_ones() -> None:
    arms = arms_of(EXCHANGED)
    sets = ["", *FACTORS, "boundary, merge", "boundary, primitive", "merge, primitive", ", ".join(FACTORS)]
    assert sorted(arms["factors"].unique()) == sorted(sets)
    sides = arms.filter(pl.col("role") != "between").select("role", "factors").unique(maintain_order=True)
    assert dict(sides.iter_rows()) == {"developer": "", "deployed": ", ".join(FACTORS)}
    two = problems()[2]
    assert programs(arms, "") == {replay(Recipe(base="developer"), of).digest for of in two}
    assert programs(arms, ", ".join(FACTORS)) == {replay(EXCHANGED, of).digest for of in two}
    assert set(arms["case"]) == {of.case.id for of in two}


def test_a_step_that_does_nothing_without_another_factor_leaves_the_smaller_sets_programs_and_says_so() -> (
    None
):
    arms = arms_of(EXCHANGED)
    assert programs(arms, "merge") == programs(arms, "")  # calls of different graphs are not joined
    assert programs(arms, "merge, primitive") == programs(arms, "primitive") != programs(arms, "")
    alone = arms.filter(pl.col("factors") == "merge")
    assert all("rule merge at" in text for text in alone["left_out"]) and set(alone["steps"]) == {0}
    assert set(arms.filter(pl.col("role") == "deployed")["left_out"]) == {""}


def test_without_the_deployed_count_of_microbatches_the_steps_are_taken_at_the_developers() -> None:
    arms = arms_of(MERGED, m_differs=True)
    of = dict(arms.select("factors", "microbatches").iter_rows())
    assert of == {
        "": 1, "boundary": 1, "merge": 1, "boundary, merge": 1,
        "microbatches": 2, "boundary, microbatches": 2, "merge, microbatches": 2,
        "boundary, merge, microbatches": 2,
    }  # fmt: skip
    one, two = problems()[1], problems()[2]
    assert programs(arms, "boundary, merge") == {replay(Recipe(base="developer"), p).digest for p in one}
    assert programs(arms, "boundary, merge, microbatches") == {replay(MERGED, p).digest for p in two}
    named = dict(arms.select("factors", "arm").iter_rows())
    assert named[""] == named["microbatches"] == "developer"
    assert named["boundary, merge"] == named["boundary, merge, microbatches"] == "with_boundary_and_merge"


def test_the_lines_of_the_known_way_and_the_steps_from_the_developers_calls_stand_beside_each_other() -> None:
    arms = arms_of(EXCHANGED).filter(pl.col("role") == "deployed")
    assert set(arms["steps"]) == {4} and all(10 < lines < 40 for lines in arms["lines"])


def test_what_takes_the_place_of_the_choice_is_what_is_deployed() -> None:
    decision = decided(EXCHANGED)
    arms = PartArms(MODEL, DEPLOYMENT, {"tp_mlp": decision}, deployed("developer"), None, replay)
    rows = arms.rows(compared(MODEL.name, M_DIFFERS), lambda _: None)
    assert {row["factors"] for row in rows} == {"", "microbatches"}


def test_where_the_file_has_the_developers_calls_though_another_way_is_named_there_is_nothing_to_split() -> (
    None
):
    decision = decided(Recipe(base="developer"))
    arms = PartArms(MODEL, DEPLOYMENT, {"tp_mlp": decision}, deployed(), None, replay)
    said: list[str] = []
    assert arms.rows(compared(MODEL.name, AT_TWO), said.append) == [] and SAME_CALLS in said[-1]


def test_where_nothing_was_chosen_as_nothing_is_exchanged_every_arm_has_the_developers_program() -> None:
    decision = decided(EXCHANGED)
    silent = pl.col("case") == problems()[2][0].case.id
    there = replace(decision, choice=decision.choice.filter(~silent))
    arms = PartArms(MODEL, DEPLOYMENT, {"tp_mlp": there}, deployed(), None, replay)
    rows = pl.DataFrame(arms.rows(compared(MODEL.name, AT_TWO), lambda _: None))
    assert set(rows.filter(silent)["steps"]) == {0} < set(rows.filter(~silent)["steps"])


DEVELOPER = (1, "developer", "beside", 9.0)
SAME = splits(DEVELOPER, (1, "hand_bundled", "instead", 9.0), ran_as={"hand_bundled": "developer"})
TORCH = splits(DEVELOPER, (1, "deployed", "deployed", 8.0), (1, "ddp_25", "instead", 7.0))


@pytest.mark.parametrize(
    ("of", "why"),
    [(SAME, "developer's own calls"), (TORCH, "DDP"), (splits(DEVELOPER), "was not timed")],
)
def test_where_there_is_nothing_to_split_the_reason_is_told(of: pl.DataFrame, why: str) -> None:
    sides = compared(MODEL.name, of)
    assert why in sides.nothing
    assert PartArms(MODEL, DEPLOYMENT, {}, deployed(), None, replay).rows(sides, lambda _: None) == []


def test_the_developers_side_is_its_fastest_count() -> None:
    sides = compared(MODEL.name, M_DIFFERS)
    assert (sides.developer, sides.deployed, sides.nothing) == (1, 2, "")
    assert compared(MODEL.name, AT_TWO).developer == 2


def test_a_recipe_that_gives_another_program_than_the_deployed_one_is_refused() -> None:
    other = decided(EXCHANGED)
    wrong = other.finalists.with_columns(recipe=pl.lit(MERGED.dumps()))
    arms = PartArms(
        MODEL, DEPLOYMENT, {"tp_mlp": type(other)(finalists=wrong, choice=other.choice, module="")},
        deployed(), None, replay,
    )  # fmt: skip
    with pytest.raises(ValueError, match="gives another Program"):
        arms.rows(compared(MODEL.name, AT_TWO), lambda _: None)


def test_of_many_factors_sets_come_order_by_order() -> None:
    many = ("schedule", "boundary", "merge", "primitive", "microbatches")
    first, *others = list(sets_to_time(many))[:5]
    assert first == [frozenset(), frozenset({"microbatches"}), frozenset(many)]
    assert all([len(some) for some in sets] == list(range(6)) for sets in others)
    assert [len(sets) for sets in sets_to_time(many[:4])] == [MOST_ARMS]


def test_names_keep_one_order_and_a_site_of_another_count_is_the_one_named_most_alike() -> None:
    assert in_order({"microbatches", "merge", "schedule"}) == ("schedule", "merge", "microbatches")
    assert arm_label(arm_of({"merge", "boundary", "microbatches"})) == "with boundary and merge"
    assert arm_of(()) == arm_of({"microbatches"}) == "developer"
    assert nearest("dispatch_1_3", ["combine_1_0", "dispatch_0_0", "dispatch_1_0"]) == "dispatch_1_0"
    assert nearest("exit", ["entry", "exit"]) == "exit"
