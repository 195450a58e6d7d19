"""What is timed again beside what is deployed: by training, all that could be said against it, and no more."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.evidence.splits import arms_to_confirm, chosen_as, chosen_split, rivals_of, splits_of
from overlayccl_core.evidence.standing import quicker
from overlayccl_core.evidence.swept import wrong_splits
from tests.evidence.test_confirmed import MIB, QUICK, TRAINED, Speeds, tables


def confirmed_arms(
    folder: Path, speeds: Speeds = QUICK, chosen: Mapping[int, str] = TRAINED, **changes: Any
) -> dict[int, set[str]]:
    named = {
        m: {arm: us for arm, us in arms.items() if arm != "deployed"} for m, arms in speeds.items()
    }  # training has no deployed file
    trained = splits_of("nano", *tables(folder, named, **changes))
    return {m: set(names) for m, names in arms_to_confirm(chosen, trained).items()}


def test_at_the_count_that_is_deployed_all_that_needs_no_search_and_what_was_chosen(tmp_path: Path) -> None:
    assert confirmed_arms(tmp_path)[1] == {"developer", "hand_bundled", "best_known_way", "finalist_1"}


def test_at_another_count_what_is_fastest_there(tmp_path: Path) -> None:
    """It holds more memory, and developer alone is fastest where the batch is not split."""
    assert confirmed_arms(tmp_path)[8] == {"best_known_way"}


def test_developers_calls_where_they_alone_are_fastest_and_the_two_rivals_at_another_count(
    tmp_path: Path,
) -> None:
    """Split into 8 is deployed; not to split takes less memory. developer is third there, and listed."""
    whole = {**QUICK[1], "finalist_1": 2500.0, "hand_bundled": 1400.0}
    assert confirmed_arms(tmp_path, {1: whole, 8: QUICK[8]})[1] == {
        "best_known_way",
        "hand_bundled",
        "developer",
    }


def test_what_takes_more_memory_is_timed_again_only_if_it_is_the_fastest_of_all(tmp_path: Path) -> None:
    whole = {**QUICK[1], "finalist_1": 2500.0}
    held = {1: 20 * MIB, 8: 13 * MIB}
    assert confirmed_arms(tmp_path, {1: whole, 8: QUICK[8]}, held=held)[1] == {"best_known_way", "developer"}


def test_what_holds_least_is_timed_again_however_slow_it_is(tmp_path: Path) -> None:
    """developer's split into 8 is the slowest of all."""
    lean = {(8, "developer"): {"peak_memory_bytes": 4 * MIB}}
    assert confirmed_arms(tmp_path, more=lean)[8] == {"best_known_way", "developer"}


def test_what_nobody_chose_is_all_timed_again(tmp_path: Path) -> None:
    plain = {"developer", "hand_bundled", "best_known_way"}
    assert confirmed_arms(tmp_path, chosen={}) == {1: plain, 8: plain}
    assert arms_to_confirm({4: "developer"}, []) == {4: []}  # nothing was trained


def test_the_frameworks_own_is_beside_it_by_the_same_rule(tmp_path: Path) -> None:
    with_ddp = {m: {**QUICK[m], "ddp_1": us, "ddp_25": 2 * us} for m, us in ((1, 900.0), (8, 5000.0))}
    arms = confirmed_arms(tmp_path, with_ddp)
    assert (
        "ddp_1" in arms[1] and "ddp_25" not in arms[1]
    )  # of the framework's the fastest, where it is no rival
    assert arms[8] == {"best_known_way"}


def test_what_the_frameworks_own_multiplies_is_its_own_and_makes_it_no_less_a_rival(tmp_path: Path) -> None:
    """Whoever exchanges heads for positions attends to other shapes: people may use it, so it is raced against."""
    speeds = {1: {**QUICK[1], "context_parallel_ulysses": 900.0}}
    others = {(1, "context_parallel_ulysses"): {"matmuls": 96, "matmul_digest": "other"}}
    steps, stamps = tables(tmp_path, speeds, more=others)
    trained = splits_of("nano", steps, stamps)
    chosen = next(one for one in trained if one.arm == "deployed")
    digests = {one.arm: one.seen.matmuls for one in trained}
    assert digests["context_parallel_ulysses"] != digests["developer"]
    assert "context_parallel_ulysses" in {one.arm for one in rivals_of(chosen, trained)}
    better = quicker(chosen, rivals_of(chosen, trained))
    assert better is not None and better.arm == "context_parallel_ulysses"
    assert not wrong_splits("nano", steps, stamps)


def test_of_arms_with_the_same_programs_the_plainest_is_a_rival(tmp_path: Path) -> None:
    steps, stamps = tables(tmp_path, QUICK, deployed="copies")
    trained = splits_of("nano", steps, stamps)
    chosen = chosen_split({1: "best_known_way", 8: "best_known_way"}, trained)
    assert chosen is not None and (chosen.arm, chosen.microbatches) == ("best_known_way", 1)
    rivals = [(one.arm, one.microbatches) for one in rivals_of(chosen, trained)]
    assert ("best_known_way", 1) not in rivals and ("deployed", 1) not in rivals
    assert rivals[:2] == [("developer", 1), ("hand_bundled", 1)]


def test_a_deployed_file_with_a_plain_program_is_known_by_what_training_ran(tmp_path: Path) -> None:
    """At another count than the deployed one, the plain arm itself is not timed again."""
    steps, stamps = tables(tmp_path, {8: QUICK[8]}, deployed="merged", held={8: 13 * MIB})
    again = {"best_known_way", "deployed"}
    few = (frame.filter(pl.col("arm").is_in(again)) for frame in (steps, stamps))
    named = {one.arm: (one.ran_as, one.needs_search) for one in splits_of("nano", *few, plain=stamps)}
    assert named == {"best_known_way": ("best_known_way", False), "deployed": ("hand_bundled", False)}


def test_cases_that_were_chosen_as_several_arms_count_as_the_least_plain() -> None:
    choices = [
        pl.DataFrame({"arm": [arm], "trained_in": [trained]})
        for arm, trained in (
            ("developer", "nano m1, nano m8"),
            ("finalist_1", "nano m8, other m2"),
            ("best_known_way", None),
        )
    ]
    assert chosen_as("nano", choices) == {1: "developer", 8: "finalist_1"}
    assert chosen_as("other", choices) == {2: "finalist_1"}
    assert chosen_as("third", choices) == {}
