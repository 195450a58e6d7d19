"""The headline of a model: what is deployed, at the count of microbatches that training chose, and its rival."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import polars as pl
import pytest

from overlayccl_core.evidence.choices import ProblemChoice
from overlayccl_core.evidence.confirmed import split_rows
from overlayccl_core.evidence.standing import Headline, Passes, StepTables, headline_of, passes_of, placed
from overlayccl_core.tables.confirmed import CONFIRMED
from overlayccl_core.tables.deployed import SPLITS
from overlayccl_core.tables.table import write
from tests.fake_timings import FINGERPRINT
from tests.stages.training import train_tables

CASES = {1: "tp_mlp/whole", 8: "tp_mlp/split"}
PROGRAMS = {"developer": "dev", "hand_bundled": "merged", "best_known_way": "copies", "finalist_1": "ring"}
NAMES = {"ring": "found-1a2b3c4d"}  # a search found it; of all others the name of the known way
TRAINED = {1: "finalist_1", 8: "finalist_1"}
Speeds = Mapping[int, Mapping[str, float]]
MIB = 2**20
QUICK: Speeds = {
    1: {
        "developer": 1680.0,
        "hand_bundled": 1700.0,
        "best_known_way": 1320.0,
        "finalist_1": 1210.0,
        "deployed": 1215.0,
    },
    8: {
        "developer": 9000.0,
        "hand_bundled": 2500.0,
        "best_known_way": 2200.0,
        "finalist_1": 2000.0,
        "deployed": 2010.0,
    },
}
HELD = {1: 12 * MIB, 8: 13 * MIB}


def tables(
    folder: Path,
    speeds: Speeds,
    *,
    held: Mapping[int, int] = HELD,
    deployed: str = "ring",
    more: Mapping[tuple[int, str], Mapping[str, Any]] | None = None,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(steps, stamps) of a model at 1 and at 8 microbatches. more: columns of an arm's rows that differ."""
    frames = []
    for microbatches, us in speeds.items():
        programs = {**PROGRAMS, "deployed": deployed}
        finalists = pl.DataFrame(
            [
                {
                    "arm": arm,
                    "case": CASES[microbatches],
                    "direction": "forward",
                    "candidate": NAMES.get(of, of),
                    "program": of,
                }
                for arm, of in programs.items()
                if arm in us
            ]
        )
        wrong = {
            arm: {"peak_memory_bytes": held[microbatches], **(more or {}).get((microbatches, arm), {})}
            for arm in us
        }
        frames.append(
            train_tables(finalists, folder, model="nano", microbatches=microbatches, speeds=us, wrong=wrong)
        )
    steps, stamps = (pl.concat(pair) for pair in zip(*frames, strict=True))
    return steps, stamps


def step_tables(*frames: pl.DataFrame) -> StepTables:
    """Of (steps, stamps) of training, and of the launches after it."""
    return StepTables(
        **dict(zip(("steps", "stamps", "confirmed_steps", "confirmed_stamps"), frames, strict=True))
    )


def headline(
    folder: Path, trained: Speeds = QUICK, after: Speeds | None = None, **changes: Any
) -> tuple[dict[str, Any], dict[str, Any] | None, pl.DataFrame]:
    """(the row of what is deployed, that of its rival, all rows)."""
    steps, stamps = tables(folder, trained, **changes)
    confirmed = tables(folder, after or trained, **changes)
    headline = headline_of("nano", TRAINED, step_tables(steps, stamps, *confirmed))
    frame = write(SPLITS, split_rows("nano", headline, FINGERPRINT), folder / "splits.parquet")
    [deployed] = frame.filter(part="deployed").iter_rows(named=True)
    rival = next(frame.filter(pl.col("part").is_in(("rival", "instead"))).iter_rows(named=True), None)
    return deployed, rival, frame


def test_what_needs_no_search_is_the_rival_at_whatever_split(tmp_path: Path) -> None:
    deployed, rival, frame = headline(tmp_path)
    assert (deployed["arm"], deployed["microbatches"], deployed["needs_search"]) == ("deployed", 1, True)
    assert rival is not None and (rival["arm"], rival["microbatches"]) == ("best_known_way", 1)
    assert rival["deployed_speedup"] == pytest.approx(1320 / 1215, rel=0.02)
    assert rival["deployed_speedup_low"] < rival["deployed_speedup"] < rival["deployed_speedup_high"]
    split = frame.filter(arm="developer", microbatches=8).row(0, named=True)
    assert split["deployed_speedup"] == pytest.approx(9000 / 1215, rel=0.02) and split["part"] == "beside"


def test_within_noise_the_batch_is_split_into_fewer(tmp_path: Path) -> None:
    """3% faster in three launches that differ by more than that."""
    nearly = {**QUICK[8], "finalist_1": 1180.0, "deployed": 1180.0}
    deployed, _, _ = headline(tmp_path, {1: QUICK[1], 8: nearly})
    assert deployed["microbatches"] == 1


def test_not_splitting_by_the_developers_calls_is_a_rival_of_a_split_that_is_deployed(tmp_path: Path) -> None:
    """The split arms hold the activations of all microbatches: not to split takes no more memory."""
    whole = {**QUICK[1], "finalist_1": 2500.0, "deployed": 2500.0, "best_known_way": 2400.0}
    deployed, rival, _ = headline(tmp_path, {1: whole, 8: QUICK[8]})
    assert deployed["microbatches"] == 8
    assert rival is not None and (rival["arm"], rival["microbatches"]) == ("developer", 1)
    assert rival["deployed_speedup"] == pytest.approx(1680 / 2010, rel=0.02)  # what is deployed loses


def test_what_holds_more_memory_is_no_rival(tmp_path: Path) -> None:
    whole = {**QUICK[1], "finalist_1": 2500.0, "deployed": 2500.0}
    deployed, rival, _ = headline(tmp_path, {1: whole, 8: QUICK[8]}, held={1: 20 * MIB, 8: 13 * MIB})
    assert deployed["microbatches"] == 8
    assert rival is not None and (rival["arm"], rival["microbatches"]) == ("best_known_way", 8)


def test_what_holds_nobody_knows_how_much_is_no_rival(tmp_path: Path) -> None:
    unknown = {(1, "best_known_way"): {"peak_memory_bytes": None}}
    _, rival, _ = headline(tmp_path, more=unknown)
    assert rival is not None and (rival["arm"], rival["microbatches"]) == ("developer", 1)


def test_the_split_is_chosen_by_training_and_reported_by_the_launches_after_it(tmp_path: Path) -> None:
    """Where the launches after it are kinder to another split, that changes nothing: they choose nothing."""
    slower = {1: {**QUICK[1], "finalist_1": 2600.0, "deployed": 2600.0}, 8: QUICK[8]}
    deployed, rival, _ = headline(tmp_path, QUICK, slower)
    assert deployed["microbatches"] == 1 and deployed["step_us"] == pytest.approx(2600 * 1.2, rel=0.02)
    assert rival is not None and rival["deployed_speedup"] < 1


def test_a_strategy_that_people_wrote_is_no_find_and_its_twin_no_rival(tmp_path: Path) -> None:
    deployed, rival, frame = headline(tmp_path, deployed="copies")
    assert (deployed["ran_as"], deployed["needs_search"]) == ("best_known_way", False)
    assert rival is not None and (rival["arm"], rival["microbatches"]) != ("best_known_way", 1)
    finds = frame.filter("needs_search")
    assert set(finds["arm"]) == {"finalist_1"}


def test_a_finalist_that_people_wrote_is_no_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Program decides, not its arm: the finalists are the two fastest known ways, one of them the best."""
    monkeypatch.setitem(NAMES, "ring", "permute_ring")
    deployed, rival, frame = headline(tmp_path)
    assert (deployed["ran_as"], deployed["needs_search"]) == ("finalist_1", False)
    assert not frame["needs_search"].any()
    assert (
        rival is not None and rival["arm"] == "best_known_way"
    )  # finalist_1 has the Programs of what is deployed


def test_the_frameworks_own_arm_is_a_rival(tmp_path: Path) -> None:
    fast = {1: {**QUICK[1], "ddp_25": 1000.0}, 8: QUICK[8]}
    _, rival, _ = headline(tmp_path, fast)
    assert rival is not None and rival["arm"] == "ddp_25" and not rival["needs_search"]


def test_mostly_disturbed_launches_are_said(tmp_path: Path) -> None:
    disturbed = {(1, arm): {"disturbed": True} for arm in QUICK[1]} | {
        (8, arm): {"disturbed": True} for arm in QUICK[8]
    }
    assert headline(tmp_path)[0]["disturbed"] is False
    assert headline(tmp_path, more=disturbed)[0]["disturbed"] is True


# ------------------------------------------------------------------------------------- what takes the place of what
def replaced(
    folder: Path, after: Speeds, trained: Speeds = QUICK, **changes: Any
) -> tuple[str | None, dict[int, str]]:
    """(the arm of the model's row of part `instead`, count of microbatches -> what takes the place there)."""
    of = headline_of(
        "nano", TRAINED, step_tables(*tables(folder, trained, **changes), *tables(folder, after, **changes))
    )
    return of.instead and of.instead.arm, of.at_counts


def test_what_was_chosen_stands_where_no_rival_is_faster_beyond_noise(tmp_path: Path) -> None:
    assert replaced(tmp_path, QUICK) == (None, {})
    near = {1: {**QUICK[1], "deployed": 1320.0 * 1.01}, 8: QUICK[8]}  # slower, and not below 0.98
    assert replaced(tmp_path, near) == (None, {})


def test_a_program_that_is_faster_takes_the_place(tmp_path: Path) -> None:
    slower = {1: {**QUICK[1], "deployed": 1500.0}, 8: QUICK[8]}
    assert replaced(tmp_path, slower) == ("best_known_way", {1: "best_known_way"})
    _, _, frame = headline(tmp_path, QUICK, slower)
    assert frame.filter(part="instead").select("microbatches", "arm").rows() == [(1, "best_known_way")]
    assert frame.filter(part="rival").is_empty()


def test_where_the_frameworks_own_is_faster_nothing_of_the_model_is_deployed(tmp_path: Path) -> None:
    ddp = {1: {**QUICK[1], "ddp_25": 1000.0}, 8: QUICK[8]}
    assert replaced(tmp_path, ddp) == ("ddp_25", {1: "ddp_25", 8: "ddp_25"})


def test_at_another_count_rivals_of_that_count_take_the_place(tmp_path: Path) -> None:
    there = {1: QUICK[1], 8: {**QUICK[8], "ddp_25": 1800.0}}
    assert replaced(tmp_path, there) == (None, {8: "ddp_25"})


def test_a_rival_at_another_count_takes_its_own_place_there(tmp_path: Path) -> None:
    """Not to split is faster: what is chosen at 8 stands where somebody has to split."""
    whole = {**QUICK[1], "finalist_1": 2500.0, "deployed": 2500.0, "best_known_way": 2400.0}
    speeds = {1: whole, 8: QUICK[8]}
    assert replaced(tmp_path, speeds, speeds) == ("developer", {1: "developer"})


def test_what_holds_more_memory_takes_no_place(tmp_path: Path) -> None:
    slower = {1: {**QUICK[1], "deployed": 1500.0}, 8: QUICK[8]}
    more = {(1, arm): {"peak_memory_bytes": 20 * MIB} for arm in QUICK[1] if arm != "deployed"}
    assert replaced(tmp_path, slower, more=more) == (None, {})


NOTHING_ALONE = pl.DataFrame(schema=CONFIRMED.schema)


def alone(**us: float) -> Passes:
    """arm -> what its passes took in four launches; a finalist is the Program of the file."""
    rows = [
        {
            "arm": arm,
            "program": PROGRAMS.get(arm, "ring"),
            "launch": launch,
            "samples_us": [middle * (1 + 0.01 * (launch + number)) for number in range(3)],
            "oversubscribed": True,
            "disturbed": False,
            "fingerprint": FINGERPRINT,
        }
        for arm, middle in us.items()
        for launch in range(4)
    ]
    return passes_of(pl.DataFrame(rows))


def test_what_a_file_asks_before_a_call_is_told_and_decides_no_place() -> None:
    """The file takes three times its module's time; any Program in its place would ask the same."""
    found = alone(developer=2000, best_known_way=1500, finalist_1=1400, deployed=4200)
    assert found.instead is None and found.of_module is not None and found.of_module.slower
    assert set(found.gains) == {"developer", "best_known_way"} and found.gains["best_known_way"].slower


def test_a_place_is_taken_by_what_is_faster_than_the_module_of_what_was_chosen() -> None:
    assert (
        alone(developer=2000, best_known_way=1500, finalist_1=1900, deployed=1900).instead == "best_known_way"
    )
    assert alone(developer=1500, deployed=1900).instead == "developer"  # no module: the file stands for it
    assert alone(developer=1500).instead is None


def listed(
    trained: Mapping[str, str | None],
    arm: str = "finalist_1",
    same: Mapping[str, str] | None = None,
    directions: Sequence[str] = ("forward",),
) -> ProblemChoice:
    """Case -> the steps that have it; all were chosen as `arm`. same: Case -> the arm with the Program of that."""
    places = [(case, direction, steps) for case, steps in trained.items() for direction in directions]
    finalists = [
        {
            "case": case,
            "direction": direction,
            "arm": name,
            "program": PROGRAMS[arm if name == (same or {}).get(case) else name],
        }
        for case, direction, _ in places
        for name in PROGRAMS
    ]
    choice = [
        {"case": case, "direction": direction, "arm": arm, "trained_in": steps}
        for case, direction, steps in places
    ]
    return ProblemChoice(finalists=pl.DataFrame(finalists), choice=pl.DataFrame(choice), module="")


def taken(headlines: Mapping[str, Headline], *problems: ProblemChoice) -> dict[str, str]:
    """Case -> what takes the place in all its directions."""
    found = placed(problems, NOTHING_ALONE, headlines)
    return {case: arm for (case, _), arm in found.items()}


def headlined(folder: Path, after: Speeds) -> Headline:
    return headline_of("nano", TRAINED, step_tables(*tables(folder, after), *tables(folder, after)))


def test_a_verdict_takes_all_cases_of_its_step_or_none(tmp_path: Path) -> None:
    """At the other count what was chosen stands, and both share b/1: no step ran both."""
    one = headlined(tmp_path, {1: {**QUICK[1], "deployed": 1500.0}, 8: QUICK[8]})
    shared = {"a/1": "nano m1", "b/1": "nano m1, nano m8", "a/8": "nano m8", "c/1": None}
    assert taken({"nano": one}, listed(shared)) == {}
    assert taken({"nano": one}, listed({**shared, "b/1": "nano m1"})) == {
        "a/1": "best_known_way",
        "b/1": "best_known_way",
    }


def test_a_step_of_several_problems_is_one_step(tmp_path: Path) -> None:
    one = headlined(tmp_path, {1: {**QUICK[1], "deployed": 1500.0}, 8: QUICK[8]})
    sends, sums = listed({"a/1": "nano m1"}), listed({"b/1": "nano m1, nano m8"})
    assert taken({"nano": one}, sends, sums) == {}


def test_a_shared_case_where_the_rival_has_the_program_of_what_was_chosen_parts_no_steps(
    tmp_path: Path,
) -> None:
    one = headlined(tmp_path, {1: {**QUICK[1], "deployed": 1500.0}, 8: QUICK[8]})
    shared = {"a/1": "nano m1", "b/1": "nano m1, nano m8", "a/8": "nano m8"}
    assert taken({"nano": one}, listed(shared, same={"b/1": "best_known_way"})) == {"a/1": "best_known_way"}


def test_an_arm_of_one_problem_has_the_developers_program_at_cases_of_others() -> None:
    """Where that was chosen, nothing takes the place, and a step that shares the Case wants the same."""
    headline = cast(Headline, SimpleNamespace(at_counts={1: "only_b"}))
    problems = [listed({case: "nano m1, x m1"}, arm="developer") for case in ("a/1", "b/1")]
    assert taken({"nano": headline, "x": headline}, *problems) == {"b/1": "only_b"}
    shared = listed({"a/1": "nano m1, stands m1"}, arm="developer")
    assert taken({"nano": headline}, shared, listed({"b/1": "nano m1"}, arm="developer")) == {"b/1": "only_b"}


def test_a_step_that_gives_up_may_make_another_give_up(tmp_path: Path) -> None:
    """x lacks a Case that it shares with y, which stands; nano shares another with x."""
    slower, stands = (
        headlined(tmp_path, {1: {**QUICK[1], "deployed": us}, 8: QUICK[8]}) for us in (1500.0, 1215.0)
    )
    cases = {"a": "nano m1", "b": "nano m1, x m1", "c": "x m1, y m1", "d": "z m1"}
    of = {"nano": slower, "x": slower, "y": stands, "z": slower}
    assert taken(of, listed(cases)) == {"d": "best_known_way"}
    assert taken({**of, "y": slower}, listed(cases)) == dict.fromkeys("abcd", "best_known_way")


def test_a_case_of_what_stands_is_not_taken_by_the_verdict_of_another_count(tmp_path: Path) -> None:
    """Whole, what was chosen is far faster than DDP; split into 8, DDP is."""
    one = headlined(tmp_path, {1: {**QUICK[1], "ddp_25": 1900.0}, 8: {**QUICK[8], "ddp_25": 1800.0}})
    assert one.chosen is not None and one.chosen.microbatches == 1 and one.instead is None
    assert taken({"nano": one}, listed({"a/1": "nano m1", "a/8": "nano m8"})) == {"a/8": "ddp_25"}
    assert taken({"nano": one}, listed({"shared": "nano m1, nano m8", "a/8": "nano m8"})) == {}


def test_a_case_that_two_models_share_is_taken_only_by_what_both_say(tmp_path: Path) -> None:
    """A DDP bucket of one is no arm of the other; a rival of one may have no Program at a Case of the other."""
    known = headlined(tmp_path, {1: {**QUICK[1], "deployed": 1500.0}, 8: QUICK[8]})
    ddp = headlined(tmp_path, {1: {**QUICK[1], "ddp_25": 1000.0}, 8: QUICK[8]})
    stands = headlined(tmp_path, QUICK)
    cases = {"both": "nano m1, other m1", "mine": "nano m1", "theirs": "other m1"}
    assert taken({"nano": known, "other": known}, listed(cases)) == dict.fromkeys(cases, "best_known_way")
    for other in (ddp, stands):
        assert taken({"nano": known, "other": other}, listed(cases)) == {}


def test_the_frameworks_own_is_kept_in_both_directions_of_a_case_or_in_none(tmp_path: Path) -> None:
    one = headlined(tmp_path, {1: {**QUICK[1], "ddp_25": 1000.0}, 8: QUICK[8]})
    both = listed({"a/1": "nano m1"}, directions=("forward", "backward"))
    kept = {("a/1", "forward"): "ddp_25", ("a/1", "backward"): "ddp_25"}
    assert placed([both], NOTHING_ALONE, {"nano": one}) == kept
    apart = replace(both, choice=both.choice.with_columns(trained_in=pl.Series(["nano m1", "other m1"])))
    assert placed([apart], NOTHING_ALONE, {"nano": one}) == {}
