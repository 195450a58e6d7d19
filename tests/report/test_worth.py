"""What a run says first of a model and of a Case: every honest sentence, in the situation that it is for."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from overlayccl_core.report import headline
from overlayccl_core.report.sentences import case_facts, case_known, case_warnings, facts, quicker, warnings
from overlayccl_core.report.worth import Worth, worths_of
from overlayccl_core.tables.deployed import DEPLOYED, SPLITS
from tests.report.fixture_models import deployed_speedup, split
from tests.rows import Row, row

FOUND = {"ran_as": "deployed", "needs_search": True}


def deployed(microbatches: int = 2, **more: Any) -> Row:
    """What is deployed takes 100 ms."""
    return split("nano", microbatches, "deployed", 1e5, part="deployed", **{**FOUND, **more})


def rival(microbatches: int, arm: str, *ratio: float, **more: Any) -> Row:
    return beside(microbatches, arm, *ratio, part="rival", **more)


def instead(microbatches: int, arm: str, *ratio: float, **more: Any) -> Row:
    return beside(microbatches, arm, *ratio, part="instead", **more)


def beside(microbatches: int, arm: str, *ratio: float, **more: Any) -> Row:
    return split("nano", microbatches, arm, 1e5 * ratio[0], **deployed_speedup(*ratio), **more)


def worth(
    *splits: Row,
    chosen: str = "finalist_1",
    replaced: Mapping[int, str] | None = None,
    also: Mapping[str, str] | None = None,
) -> Worth:
    """Of nano, whose Cases are chosen as `chosen`. replaced: count of microbatches -> what takes its place.

    also: more Cases, which stand, with their steps.
    """
    case = {"candidate": "found-1", "way": "found-1", "arm": chosen}
    cases = [
        row(DEPLOYED, **case, case=f"tp_mlp/n4-m{m}", trained_in=f"nano m{m}, other m4", instead=arm)
        for m, arm in (dict.fromkeys((1, 2, 4, 8)) | dict(replaced or {})).items()
    ]
    cases += [row(DEPLOYED, **case, case=of, trained_in=steps) for of, steps in (also or {}).items()]
    (one,) = worths_of(
        pl.DataFrame(splits, schema=SPLITS.schema), pl.DataFrame(cases, schema=DEPLOYED.schema)
    )
    return one


# ---------------------------------------------------------------------------------------------------- the gain
def test_what_is_deployed_stands_first_with_its_gain_over_the_rival_and_over_developer() -> None:
    told = worth(
        deployed(),
        rival(1, "best_known_way", 1.3, 1.2, 1.4, peak_memory_bytes=11 * 2**20),
        beside(2, "developer", 4.0, 3.9, 4.2),
        beside(1, "developer", 1.5, 1.45, 1.6),
        beside(8, "developer", 8.0, 7.0, 9.0),
    )
    assert warnings(told) == []
    parts = (
        ("Deployed: ", "(M = 2), found-1", "100 ms a step, 12 MiB"),
        (
            "same or less memory",
            "best known way at M = 1",
            "(130 ms, 11 MiB)",
            "1.30",
            "(1.20..1.40), faster",
        ),
        ("Best known way at M = 1 ", "any memory"),
        ("developer at M = 2", "4.00", "(3.90..4.20), faster"),
        ("developer at M = 1", "fastest: 1.50", "(1.45..1.60), faster"),
        (
            "4 launches",
            "chose nothing.",
        ),
    )
    assert all(part in fact for fact, of in zip(facts(told), parts, strict=True) for part in of)


def test_developer_is_told_once_where_its_best_is_what_is_deployed_splits_into() -> None:
    told = worth(deployed(), beside(2, "developer", 1.5, 1.4, 1.6), beside(1, "developer", 2.0, 1.9, 2.1))
    over = [said for said in facts(told) if said.startswith("Over developer")]
    assert len(over) == 1 and "M = 2" in over[0] and "fastest: 1.50" in over[0]


def test_a_developer_that_is_the_rival_is_told_once() -> None:
    told = worth(deployed(), rival(2, "developer", 1.5, 1.4, 1.6))
    assert [said[:4] for said in facts(told)] == ["Depl", "Over", "Deve", "Meas"]


def test_what_is_not_faster_beyond_noise_is_not_called_faster() -> None:
    said = " ".join(facts(worth(deployed(), rival(2, "hand_bundled", 1.04, 0.97, 1.1))))
    assert "1.04" in said and "(0.97..1.10), not slower" in said


def test_too_few_rounds_give_no_interval_no_word_and_a_warning() -> None:
    told = worth(deployed(), rival(2, "hand_bundled", 1.29))
    assert "1.29\N{MULTIPLICATION SIGN} (too few rounds)." in facts(told)[1]
    (warned,) = warnings(told)
    assert warned.startswith("It is undecided") and warned.endswith("(too few rounds).")


def test_the_file_is_compared_with_the_module_that_was_chosen() -> None:
    told = worth(deployed(), rival(2, "hand_bundled", 1.5, 1.4, 1.6), beside(2, "finalist_1", 0.8, 0.75, 0.9))
    (said,) = (said for said in facts(told) if "chosen file" in said)
    assert all(part in said for part in ("1.25", "(1.11..1.33)", "(finalist 1)"))
    assert not [s for s in facts(worth(deployed())) if "chosen file" in s]


# ------------------------------------------------------------------------------------------------ the warnings
def test_a_known_way_that_takes_the_place_is_said_first_with_its_m_and_what_was_timed_of_it() -> None:
    told = worth(
        deployed(),
        instead(8, "hand_bundled", 0.9, 0.85, 0.97),
        beside(8, "developer", 3.0, 2.9, 3.1),
        replaced={8: "hand_bundled"},
    )
    (said,) = warnings(told)
    parts = ("chosen (M = 2) is 0.90", "(0.85..0.97) as fast", "has the place")
    assert said.startswith("Use hand bundled at M = 8") and all(part in said for part in parts)
    assert "4 launches" in facts(told)[-1] and "takes the place" in facts(told)[-1]
    assert facts(told)[0].startswith("Chosen: ") and told.use == "use hand bundled"


def test_beside_what_takes_the_place_only_ways_with_more_memory_that_beat_it_are_said_to_be_faster() -> None:
    faster = [beside(1, f"ddp_{n}", 0.8, 0.7, 0.9, peak_memory_bytes=n * 2**20) for n in (4, 25)]
    faster.append(beside(1, "ddp_40", 0.95, 0.93, 0.97, peak_memory_bytes=40 * 2**20))
    told = worth(
        deployed(), instead(8, "hand_bundled", 0.9, 0.85, 0.97), *faster, replaced={8: "hand_bundled"}
    )
    (said,) = quicker(told)
    parts = ("25 MiB at M = 1 measured", "more memory (25 MiB)", "hand bundled at M = 8 is 0.89", " as fast")
    assert all(part in said for part in parts)


def test_the_frameworks_own_is_to_be_kept_and_no_module_claims_the_place() -> None:
    told = worth(
        deployed(1), instead(1, "ddp_25", 0.79, 0.71, 0.9), replaced=dict.fromkeys((1, 2, 4, 8), "ddp_25")
    )
    (said,) = warnings(told)
    parts = ("at M = 1", "is 0.79", "(0.71..0.90) as fast", "No file in deploy/", "in your script")
    assert said.startswith("Keep torch DDP (25 MiB)") and all(part in said for part in parts)


def test_what_takes_the_place_at_another_count_is_said_as_that_after_all_of_what_is_deployed() -> None:
    told = worth(
        deployed(), rival(2, "best_known_way", 1.1, 0.9, 1.3), replaced={8: "ddp_25", 1: "best_known_way"}
    )
    first, *others = warnings(told)
    assert first.startswith("It is undecided") and [said.partition(":")[0] for said in others] == [
        "At another count, M = 1, use best known way",
        "At another count, M = 8, keep torch DDP (25 MiB)",
    ]


def test_where_a_step_that_shares_a_case_does_not_say_the_same_the_chosen_keeps_all_of_them() -> None:
    better = instead(2, "best_known_way", 0.9, 0.8, 0.95)
    for replaced in ({}, {8: "best_known_way"}):
        first, *others = warnings(worth(deployed(), better, replaced=replaced))
        assert "But deploy/ still has" in first and "write the faster calls" in first
        assert len(others) == len(replaced)
    keep = instead(1, "ddp_25", 0.79, 0.71, 0.9)
    (said,) = warnings(worth(deployed(1), keep, replaced=dict.fromkeys((1, 2, 4), "ddp_25")))
    assert "M = 8 deploy/ still has" in said


def test_of_a_step_where_the_rival_has_a_program_of_what_was_chosen_nothing_is_missed() -> None:
    (said,) = warnings(
        worth(
            deployed(),
            instead(2, "best_known_way", 0.9, 0.8, 0.95),
            replaced={2: "best_known_way"},
            also={"tp_mlp/both": "nano m2, x m1"},
        )
    )
    assert "It has the place" in said


def test_both_gains_are_told_at_the_same_memory_and_at_any() -> None:
    more = beside(1, "best_known_way", 1.14, 0.99, 1.4, peak_memory_bytes=int(13.7 * 2**20))
    over = [s for s in facts(worth(deployed(), rival(1, "fsdp", 1.54, 1.3, 1.8), more)) if "search" in s]
    parts = (
        ("same or less memory", "FSDP at M = 1", "(154 ms, 12 MiB)", "1.54", "(1.30..1.80), faster"),
        ("any memory", "best known way at M = 1", "(114 ms, 13.7 MiB)", "1.14", "(0.99..1.40), not slower"),
    )
    assert all(part in said for said, of in zip(over, parts, strict=True) for part in of)


def test_between_two_known_ways_no_number_stands_that_reads_as_a_find() -> None:
    mine = deployed(4, ran_as="hand_bundled", needs_search=False)
    more = beside(8, "best_known_way", 1.2, 1.1, 1.3, peak_memory_bytes=20 * 2**20)
    told = worth(mine, rival(1, "developer", 1.43, 1.24, 1.61), more, chosen="hand_bundled")
    _, known, fastest, *_ = facts(told)
    assert known.startswith("No search needed") and "developer at M = 1 (143" in known
    assert "fastest other" in fastest and "best known way at M = 8 (120" in fastest
    _, over, *_ = facts(worth(mine, rival(1, "developer", 0.9, 0.7, 1.1), chosen="hand_bundled"))
    assert over.startswith("Over the best other") and over.endswith("(0.70..1.10), undecided.")


def test_an_undecided_rival_is_said_first() -> None:
    (said,) = warnings(worth(deployed(), rival(2, "ddp_25", 1.1, 0.9, 1.3)))
    parts = ("DDP, 25 MiB at M = 2", "1.10", "(0.90..1.30)")
    assert said.startswith("It is undecided") and all(part in said for part in parts)


def test_a_rival_that_may_be_faster_and_does_not_split_the_batch_is_called_so() -> None:
    _, said = warnings(worth(deployed(8), rival(1, "hand_bundled", 0.95, 0.75, 1.1)))
    assert "(M = 1) may win" in said and "splits it into 8" in said


def test_that_what_is_deployed_does_not_split_is_said_where_other_splits_were_measured() -> None:
    here, other = rival(1, "best_known_way", 1.2, 1.1, 1.3), beside(8, "developer", 8.0, 7.0, 9.0)
    (said,) = warnings(worth(deployed(1), here, other))
    assert "splitting the batch wins" in said and "(M = 1)" in said
    near = beside(2, "deployed", 1.02, 0.97, 1.1, **FOUND)
    (said,) = warnings(worth(deployed(1), here, near, other))
    assert "the batch may win" in said and "(M = 1)" in said
    (said,) = warnings(worth(deployed(1), here, beside(2, "deployed", 0.9, 0.85, 0.95, **FOUND), other))
    assert "file at M = 2 is faster" in said
    assert warnings(worth(deployed(1), here)) == []
    nearly = beside(4, "best_known_way", 0.85, 0.7, 1.05, peak_memory_bytes=40 * 2**20)
    assert (
        warnings(worth(deployed(1), here, nearly, other)) == []
    )  # splitting measured faster: whole wins nothing


def test_where_people_wrote_what_is_deployed_the_search_added_nothing() -> None:
    mine = deployed(ran_as="best_known_way", needs_search=False)
    told = worth(
        mine,
        beside(2, "best_known_way", 0.99, 0.97, 1.01),
        rival(2, "hand_bundled", 1.3, 1.2, 1.4),
        chosen="best_known_way",
    )
    (said,) = warnings(told)
    assert "search added nothing" in said and "chosen is best known way" in said
    assert "best other" in facts(told)[1]


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
        beside(1, "ddp_4", 0.8, 0.7, 0.9, peak_memory_bytes=40 * 2**20),
        beside(1, "best_known_way", 0.8, 0.7, 0.9, ran_as="ddp_4", peak_memory_bytes=40 * 2**20),
        beside(2, "finalist_1", 0.9, 0.85, 0.95, needs_search=True),
        beside(2, "ddp_1", 0.97, 0.9, 1.05),
    )
    (said,) = warnings(told)
    parts = ("DDP, 4 MiB at M = 1", "more memory (40 MiB)", "is 0.80", "(0.70..0.90) as fast")
    assert all(part in said for part in parts)


def test_the_same_file_that_is_faster_at_another_split_is_said() -> None:
    told = worth(
        deployed(), rival(2, "hand_bundled", 1.3, 1.2, 1.4), beside(8, "deployed", 0.9, 0.85, 0.95, **FOUND)
    )
    (said,) = warnings(told)
    assert "file at M = 8 is faster" in said and "chosen is 0.90" in said


def test_most_launches_disturbed_is_said_beside_the_figures() -> None:
    told = worth(deployed(disturbed=True), rival(2, "hand_bundled", 1.3, 1.2, 1.4, disturbed=True))
    assert [said.partition(":")[0] for said in warnings(told)] == ["Disturbed"]
    assert headline._card(told).tone == "warning"


def test_without_a_deployed_arm_no_gain_is_told() -> None:
    told = worth(beside(2, "developer", 1.5, 1.4, 1.6))
    assert facts(told) == [] and warnings(told)[0].endswith("so no gain is told.")


def test_without_a_rival_that_is_said() -> None:
    assert facts(worth(deployed()))[1].startswith("There is no rival")


def test_a_split_whose_cases_were_chosen_as_different_arms_counts_as_the_least_plain() -> None:
    cases = [
        row(DEPLOYED, case=f"tp_mlp/{n}", candidate=f"c{n}", way=f"c{n}", arm=arm, trained_in="nano m2")
        for n, arm in enumerate(("finalist_2", "developer", "best_known_way"))
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


def test_a_case_whose_place_is_taken_or_whose_best_other_may_be_faster_is_said() -> None:
    (said,) = case_warnings(case_row(0.9, 0.85, 0.95, instead="hand_bundled"))
    parts = ("use hand bundled", "chosen is 0.90", "(0.85..0.95) as fast", "has the place")
    assert said.startswith("uniform_a2a/n4, forward") and all(part in said for part in parts)
    (said,) = case_warnings(case_row(1.1, 0.9, 1.2))
    assert "it is undecided" in said and "faster than hand bundled" in said
    assert (
        list(case_warnings(case_row(1.2, 1.1, 1.3))) == list(case_warnings(case_row(1.0, 0.96, 1.01))) == []
    )


def test_of_a_known_way_alone_only_a_best_other_that_measured_faster_is_said() -> None:
    for gain, said in (((0.9, 0.8, 1.1), 1), ((1.05, 0.8, 1.3), 0)):
        one = case_row(*gain, use="known")
        assert len(list(case_warnings(one))) == said and case_known(one) is not bool(said)


def test_a_file_that_is_slower_than_its_module_is_said() -> None:
    asks = {"of_module": 0.4, "of_module_low": 0.35, "of_module_high": 0.45}
    (said,) = case_warnings(case_row(1.2, 1.1, 1.3, **asks))
    assert "the file is 0.40" in said and "(0.35..0.45)" in said


def test_where_a_model_trains_the_case_its_step_is_what_counts() -> None:
    assert list(case_warnings(case_row(0.9, 0.85, 0.95, trained_in="nano m2"))) == []
    assert list(case_warnings(case_row(measured_us=None, trained_in="nano m2"))) == []


def test_of_a_case_that_the_bench_decides_the_choice_and_its_gains_after_it_are_said() -> None:
    over = {"speedup": 2.0, "speedup_low": 1.8, "speedup_high": 2.2, "launches": 4}
    chosen, again = case_facts(case_row(1.3, 1.2, 1.4, candidate="found-1a", way="flat, merged", **over))
    assert chosen == "Chosen: flat, merged, found by a search."
    assert (
        "in 4 fresh launches: 1" in again
        and "over developer 2.00" in again
        and "(1.80..2.20), faster; " in again
    )
    assert "over hand bundled 1.30" in again and again.endswith("(1.20..1.40), faster.")
    (only,) = list(case_facts(case_row(2.0, 1.8, 2.2, way="a", best_other="developer", **over)))[1:]
    assert "over hand bundled" not in only and only.endswith("(1.80..2.20), faster.")
    assert list(case_facts(case_row(way="a", measured_us=None))) == ["Chosen: a, a known way."]


def test_where_developers_calls_stand_there_is_nothing_to_change() -> None:
    (said,) = case_facts(case_row(arm="developer"))
    assert said.startswith("Nothing is faster than developer")
    assert (
        len(list(case_facts(case_row(0.9, 0.8, 0.95, arm="developer", way="a", instead="hand_bundled")))) == 2
    )


def test_a_case_that_was_not_timed_again_says_so() -> None:
    (said,) = case_warnings(case_row(measured_us=None))
    assert "was not timed again" in said
