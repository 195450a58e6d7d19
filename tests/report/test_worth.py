"""What a run says first of a model and of a Case: every honest sentence, in the situation that it is for."""

from typing import Any

import polars as pl
import pytest

from overlayccl_core.report.worth import Worth, case_warnings, facts, warnings, worths_of
from overlayccl_core.tables.deployed import DEPLOYED, SPLITS
from tests.report.fixture_models import slower, split
from tests.report.fixture_rows import Row, row

FOUND = {"ran_as": "deployed", "needs_search": True}


def deployed(microbatches: int = 2, **more: Any) -> Row:
    """What is deployed takes 100 ms."""
    return split("nano", microbatches, "deployed", 1e5, part="deployed", **{**FOUND, **more})


def rival(microbatches: int, arm: str, *ratio: float, **more: Any) -> Row:
    return beside(microbatches, arm, *ratio, part="rival", **more)


def beside(microbatches: int, arm: str, *ratio: float, **more: Any) -> Row:
    return split("nano", microbatches, arm, 1e5 * ratio[0], **slower(*ratio), **more)


def worth(*splits: Row, chosen: str = "finalist_1") -> Worth:
    """Of nano, whose Cases are chosen as `chosen`."""
    case = {"case": "tp_mlp/n4", "candidate": "found-1", "arm": chosen}
    cases = [row(DEPLOYED, **case, trained_in="nano m1, nano m2, nano m8, other m4")]
    (one,) = worths_of(
        pl.DataFrame(splits, schema=SPLITS.schema), pl.DataFrame(cases, schema=DEPLOYED.schema)
    )
    return one


# ---------------------------------------------------------------------------------------------------- the gain
def test_what_is_deployed_stands_first_with_its_gain_over_the_rival_and_over_developer() -> None:
    told = worth(
        deployed(),
        rival(1, "best_seed", 1.3, 1.2, 1.4, peak_activation_bytes=11 * 2**20),
        beside(2, "developer", 4.0, 3.9, 4.2),
        beside(1, "developer", 1.5, 1.45, 1.6),
        beside(8, "developer", 8.0, 7.0, 9.0),
    )
    assert warnings(told) == []
    assert facts(told) == [
        "Deployed: the batch in 2 microbatches (M = 2), found-1: 100 ms a step, 12 MiB of memory.",
        "Over the best that needs no search at the same or less memory, best seed at M = 1 (130 ms, 11 MiB): "
        "1.30\N{MULTIPLICATION SIGN} (1.20..1.40), faster.",
        "Over developer at M = 2: 4.00\N{MULTIPLICATION SIGN} (3.90..4.20), faster.",
        "Over developer at M = 1, where developer alone is fastest: "
        "1.50\N{MULTIPLICATION SIGN} (1.45..1.60), faster.",
        "Measured in 4 launches that chose nothing.",
    ]


def test_developer_is_told_once_where_its_best_is_what_is_deployed_splits_into() -> None:
    told = worth(deployed(), beside(2, "developer", 1.5, 1.4, 1.6), beside(1, "developer", 2.0, 1.9, 2.1))
    over = [said for said in facts(told) if said.startswith("Over developer")]
    assert len(over) == 1 and over[0].startswith(
        "Over developer at M = 2, where developer alone is fastest: 1.50"
    )


def test_a_developer_that_is_the_rival_is_told_once() -> None:
    told = worth(deployed(), rival(2, "developer", 1.5, 1.4, 1.6))
    assert [said[:4] for said in facts(told)] == ["Depl", "Over", "Meas"]


def test_what_is_not_faster_beyond_noise_is_not_called_faster() -> None:
    said = " ".join(facts(worth(deployed(), rival(2, "hand_bundled", 1.04, 0.97, 1.1))))
    assert "1.04\N{MULTIPLICATION SIGN} (0.97..1.10), not slower" in said


def test_too_few_rounds_give_no_interval_no_word_and_a_warning() -> None:
    told = worth(deployed(), rival(2, "hand_bundled", 1.29))
    assert "1.29\N{MULTIPLICATION SIGN} (too few rounds)." in facts(told)[1]
    (warned,) = warnings(told)
    assert warned.startswith("It is undecided") and warned.endswith("(too few rounds).")


def test_the_file_is_compared_with_the_module_that_was_chosen() -> None:
    told = worth(deployed(), rival(2, "hand_bundled", 1.5, 1.4, 1.6), beside(2, "finalist_1", 0.8, 0.75, 0.9))
    (said,) = (said for said in facts(told) if "deployed file" in said)
    assert said == (
        "The deployed file's step is 1.25\N{MULTIPLICATION SIGN} (1.11..1.33) that of the module that was chosen "
        "(finalist 1)."
    )
    assert not [s for s in facts(worth(deployed())) if "deployed file" in s]


# ------------------------------------------------------------------------------------------------ the warnings
def test_a_faster_rival_is_said_first_with_its_m() -> None:
    told = worth(deployed(), rival(8, "hand_bundled", 0.9, 0.85, 0.97), beside(8, "developer", 3.0, 2.9, 3.1))
    (said,) = warnings(told)
    assert said == (
        "Hand bundled at M = 8, which needs no search, is faster at the same or less memory: what is deployed is "
        "0.90\N{MULTIPLICATION SIGN} (0.85..0.97) as fast."
    )


def test_an_undecided_rival_is_said_first() -> None:
    (said,) = warnings(worth(deployed(), rival(2, "ddp_25", 1.1, 0.9, 1.3)))
    assert said.startswith(
        "It is undecided whether what is deployed is faster than torch DDP, 25 MiB at M = 2"
    )
    assert "1.10\N{MULTIPLICATION SIGN} (0.90..1.30)" in said


@pytest.mark.parametrize(("high", "says"), [(0.97, "wins"), (1.1, "may win")])
def test_a_faster_rival_that_does_not_split_the_batch_is_called_so(high: float, says: str) -> None:
    _, said = warnings(worth(deployed(8), rival(1, "hand_bundled", 0.95, 0.75, high)))
    assert said == f"Not splitting the batch (M = 1) {says}: what is deployed splits it into 8."


def test_that_what_is_deployed_does_not_split_is_said_where_other_splits_were_measured() -> None:
    here, other = rival(1, "best_seed", 1.2, 1.1, 1.3), beside(8, "developer", 8.0, 7.0, 9.0)
    (said,) = warnings(worth(deployed(1), here, other))
    assert said == "Not splitting the batch wins: what is deployed computes it whole (M = 1)."
    near = beside(2, "deployed", 1.02, 0.97, 1.1, **FOUND)
    (said,) = warnings(worth(deployed(1), here, near, other))
    assert said == "Not splitting the batch may win: what is deployed computes it whole (M = 1)."
    (said,) = warnings(worth(deployed(1), here, beside(2, "deployed", 0.9, 0.85, 0.95, **FOUND), other))
    assert said.startswith("The deployed file at M = 2 is faster")
    assert warnings(worth(deployed(1), here)) == []


def test_where_people_wrote_what_is_deployed_the_search_added_nothing() -> None:
    mine = deployed(ran_as="best_seed", needs_search=False)
    told = worth(
        mine,
        beside(2, "best_seed", 0.99, 0.97, 1.01),
        rival(2, "hand_bundled", 1.3, 1.2, 1.4),
        chosen="best_seed",
    )
    assert warnings(told) == [
        "The search added nothing here: what is deployed is best seed, which people write."
    ]
    assert "Over the best other that needs no search" in facts(told)[1]


def test_a_baseline_is_never_compared_with_itself() -> None:
    mine = deployed(1, ran_as="developer", needs_search=False)
    told = worth(
        mine,
        beside(1, "developer", 1.0, 0.99, 1.01),
        rival(1, "single_graph", 1.2, 1.1, 1.3),
        chosen="developer",
    )
    assert not [said for said in facts(told) if said.startswith("Over developer")]


def test_what_is_faster_with_more_memory_is_said_and_what_a_search_has_to_find_is_not() -> None:
    told = worth(
        deployed(),
        rival(2, "hand_bundled", 1.3, 1.2, 1.4),
        beside(1, "ddp_4", 0.8, 0.7, 0.9, peak_activation_bytes=40 * 2**20),
        beside(2, "finalist_1", 0.9, 0.85, 0.95, needs_search=True),
        beside(2, "ddp_1", 0.97, 0.9, 1.05),
    )
    assert warnings(told) == [
        "Torch DDP, 4 MiB at M = 1 is faster with more memory (40 MiB): what is deployed is "
        "0.80\N{MULTIPLICATION SIGN} (0.70..0.90) as fast."
    ]


def test_the_same_file_that_is_faster_at_another_split_is_said() -> None:
    told = worth(
        deployed(), rival(2, "hand_bundled", 1.3, 1.2, 1.4), beside(8, "deployed", 0.9, 0.85, 0.95, **FOUND)
    )
    (said,) = warnings(told)
    assert said.startswith("The deployed file at M = 8 is faster: what is deployed is 0.90")


def test_most_launches_disturbed_is_said_beside_the_figures() -> None:
    told = worth(deployed(disturbed=True), rival(2, "hand_bundled", 1.3, 1.2, 1.4, disturbed=True))
    assert [said.partition(":")[0] for said in warnings(told)] == ["Disturbed"]


def test_without_a_deployed_arm_no_gain_is_told() -> None:
    told = worth(beside(2, "developer", 1.5, 1.4, 1.6))
    assert facts(told) == [] and warnings(told)[0].endswith("so no gain is told.")


def test_without_a_rival_that_is_said() -> None:
    assert facts(worth(deployed()))[1] == (
        "There is no rival: nothing beside it is the best that needs no search at the same or less memory."
    )


def test_a_split_whose_cases_were_chosen_as_different_arms_counts_as_the_least_plain() -> None:
    cases = [
        row(DEPLOYED, case=f"tp_mlp/{n}", candidate=f"c{n}", arm=arm, trained_in="nano m2")
        for n, arm in enumerate(("finalist_2", "developer", "best_seed"))
    ]
    (told,) = worths_of(
        pl.DataFrame([deployed()], schema=SPLITS.schema), pl.DataFrame(cases, schema=DEPLOYED.schema)
    )
    assert told.chosen_as == {2: "finalist_2"} and told.candidates == {2: ("c0", "c1", "c2")}


# ---------------------------------------------------------------------------------------------------- the Cases
def case_row(*gain: float, **more: Any) -> Row:
    names = dict(zip(("gain", "gain_low", "gain_high"), gain, strict=False))
    known = {"case": "uniform_a2a/n4", "arm": "finalist_1", "measured_us": 1e3, "best_other": "hand_bundled"}
    return row(DEPLOYED, **(known | names | more))


def test_a_case_whose_best_other_is_faster_or_undecided_is_said() -> None:
    (said,) = case_warnings(case_row(0.9, 0.85, 0.95))
    assert said == (
        "uniform_a2a/n4, forward: hand bundled, which needs no search, is faster: what is deployed is "
        "0.90\N{MULTIPLICATION SIGN} (0.85..0.95) as fast."
    )
    (said,) = case_warnings(case_row(1.1, 0.9, 1.2))
    assert "it is undecided whether what is deployed is faster than hand bundled" in said
    assert (
        list(case_warnings(case_row(1.2, 1.1, 1.3))) == list(case_warnings(case_row(1.0, 0.96, 1.01))) == []
    )


def test_where_a_model_trains_the_case_its_step_is_what_counts() -> None:
    assert list(case_warnings(case_row(0.9, 0.85, 0.95, trained_in="nano m2"))) == []
    assert list(case_warnings(case_row(measured_us=None, trained_in="nano m2"))) == []


def test_a_case_that_was_not_timed_again_says_so() -> None:
    (said,) = case_warnings(case_row(measured_us=None))
    assert said.endswith("was not timed again, so no gain is told.")
