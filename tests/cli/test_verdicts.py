"""The end of a run fits a screen and says what to use, over whom, and what to type."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from overlayccl_core.cli import verdicts
from overlayccl_core.report.worth import Worth
from overlayccl_core.tables.deployed import DEPLOYED
from overlayccl_core.tables.summary import SUMMARY
from tests.cli.test_deployed_table import lines, printed
from tests.report.test_worth import beside, deployed, instead, rival, worth
from tests.rows import row

CASE = "tp_mlp/n4-m8-l8-256KiB-f32"


def shown(*splits: Any) -> str:
    """The row of a model."""
    [line] = lines(printed(verdicts.of_models([worth(*splits)])), "nano")
    return line


def legend(*of: Worth) -> str:
    """All behind the table, as one line."""
    _table, *said = verdicts.of_models(of)
    return " ".join(map(str, said))


def test_a_find_has_its_gains_over_developer_and_over_the_known_way() -> None:
    told = shown(deployed(8), rival(2, "hand_bundled", 1.3, 1.2, 1.4), beside(8, "developer", 2.0, 1.8, 2.2))
    assert told == "nano YES, found 8 100 12.0 2.00 (1.80..2.20) 1.30 (1.20..1.40)"


def test_where_developers_calls_are_the_best_known_way_no_second_gain_is_told() -> None:
    mine, best = deployed(8), rival(1, "developer", 1.5, 1.2, 1.8)
    assert shown(mine, best) == "nano YES, found 8 100 12.0 1.50 (1.20..1.80) = over developer"
    assert "= over developer: developer is the best known way." in legend(worth(mine, best))


def test_a_find_stands_beside_what_is_as_fast_with_more_memory() -> None:
    more = beside(1, "fsdp_kept", 1.01, 0.9, 1.1, peak_memory_bytes=15 * 2**20)
    found = deployed(8), rival(2, "hand_bundled", 1.3, 1.2, 1.4), more
    assert "nano: Over the fastest that needs no search at any memory, torch FSDP" in legend(worth(*found))
    assert "15 MiB): 1.01" in legend(worth(*found))
    known = deployed(8, ran_as="best_known_way", needs_search=False), *found[1:]
    assert "at any memory" not in legend(worth(*known)) + legend(worth(*found[:2]))


def test_where_something_else_is_faster_the_answer_is_no_and_names_it() -> None:
    told = shown(deployed(1), instead(1, "ddp_25", 0.8, 0.7, 0.9))
    assert told.startswith("nano NO: ") and "torch DDP (25" in told and told.endswith("- -")


def test_a_known_way_that_took_the_place_is_in_the_folder() -> None:
    splits = deployed(1), instead(1, "hand_bundled", 0.8, 0.7, 0.9)
    [line] = lines(printed(verdicts.of_models([worth(*splits, replaced={1: "hand_bundled"})])), "nano")
    assert line.startswith("nano YES, known way 1 80") and line.endswith("- took the place")


@pytest.mark.parametrize(
    ("gain", "over"), [((1.3, 1.2, 1.4), "no search needed"), ((0.9, 0.7, 1.2), "0.90 (0.70..1.20)")]
)
def test_a_known_way_is_no_gain_over_known_ways_but_one_that_seems_faster_is_told(
    gain: tuple[float, float, float], over: str
) -> None:
    told = shown(deployed(1, ran_as="best_known_way", needs_search=False), rival(1, "hand_bundled", *gain))
    assert told.startswith("nano YES, known way") and told.endswith(over)


def test_where_the_file_makes_the_developers_calls_nothing_is_said_to_be_gained() -> None:
    mine = deployed(1, ran_as="developer", needs_search=False)
    told = shown(mine, beside(1, "developer", 1.0, 0.9, 1.1), rival(1, "hand_bundled", 1.1, 0.9, 1.2))
    assert told == "nano no need 1 100 12.0 - no search needed"


FOUND = worth(deployed(8), rival(2, "hand_bundled", 1.3, 1.2, 1.4), beside(8, "developer", 2.0, 1.8, 2.2))
BY_HAND = worth(
    deployed(1, ran_as="best_known_way", needs_search=False),
    rival(1, "hand_bundled", 1.3, 1.1, 1.5),
    beside(1, "developer", 2.0, 1.8, 2.2),
)
IS_DEVELOPERS = worth(
    deployed(1, ran_as="developer", needs_search=False),
    beside(1, "developer", 1.0, 0.9, 1.1),
    rival(1, "hand_bundled", 0.9, 0.7, 1.2),
)
TOOK_THE_PLACE = worth(deployed(1), instead(1, "hand_bundled", 0.8, 0.7, 0.9), replaced={1: "hand_bundled"})
KEEP_TORCH = worth(deployed(1), instead(1, "ddp_25", 0.8, 0.7, 0.9))
SHARED = worth(deployed(1), instead(1, "hand_bundled", 0.8, 0.7, 0.9))
NOT_TIMED = worth(beside(1, "developer", 1.0))
DEVELOPERS_TOOK_IT = worth(deployed(1), instead(1, "developer", 0.8, 0.7, 0.9), replaced={1: "developer"})
NO_DEVELOPER = worth(deployed(8), rival(2, "hand_bundled", 1.3, 1.2, 1.4))
NOT_THERE = "the other side was not timed"
OTHER_ROW, SAME_CALLS = "another way than the chosen one", "both sides make the same calls"


@pytest.mark.parametrize(
    ("of", "explained"),
    [
        ([FOUND], ["YES, found: "]),
        ([BY_HAND], ["YES, known way: ", "no search needed: "]),
        ([IS_DEVELOPERS], ["no need: ", SAME_CALLS]),
        ([DEVELOPERS_TOOK_IT], ["no need: ", "took the place: ", OTHER_ROW]),
        ([NO_DEVELOPER], ["YES, found: ", NOT_THERE]),
        ([TOOK_THE_PLACE], ["YES, known way: ", "took the place: ", OTHER_ROW]),
        ([KEEP_TORCH], ["NO: keep: ", OTHER_ROW]),
        ([SHARED], ["NO: use: ", OTHER_ROW]),
        ([NOT_TIMED], ["NO: not timed in steps: "]),
        (
            [FOUND, replace(TOOK_THE_PLACE, model="nano-dp")],
            ["YES, found: ", "YES, known way: ", "took the place: ", OTHER_ROW],
        ),
    ],
)
def test_the_legend_says_what_each_cell_of_the_table_means_and_no_other(
    of: list[Worth], explained: list[str]
) -> None:
    said = legend(*of)
    every = [*(f"{cell}: " for cell in verdicts.CELLS), OTHER_ROW, SAME_CALLS, NOT_THERE]
    assert [part for part in every if part in said] == explained


def cases(*rows: dict[str, Any]) -> pl.DataFrame:
    fixed = {"problem": "tp_mlp", "case": CASE, "arm": "finalist_1", "in_file": "a", "instead": None}
    fixed |= {"trained_in": None, "use": "found"}
    return pl.DataFrame([row(DEPLOYED, **(fixed | one)) for one in rows], schema=DEPLOYED.schema)


def test_cases_without_a_model_have_a_row_for_each_problem() -> None:
    found = {"gain": 1.5, "gain_low": 1.4, "gain_high": 1.6}
    told = printed([verdicts._alone(cases(found, {"use": "known", "gain": 9.0}, {"use": "framework"}))])
    assert lines(told, "tp_mlp") == ["tp_mlp 3 1 1 1 1.50 (1.40..1.60)"]


def test_the_only_case_of_a_run_without_a_model_has_its_timed_ways_the_fastest_first() -> None:
    fixed: dict[str, Any] = {"problem": "tp_mlp", "case": CASE, "direction": "forward", "proof": "pass"}
    ways = [
        row(SUMMARY, **(fixed | {"candidate": name, "program": name, "measured_us": us}), numerics="exact")
        for name, us in (("developer", 2e3), ("a", 1e3), ("not_timed", None))
    ]
    chosen = cases({"way": "a", "candidate": "a", "measured_us": 1e3})
    text = printed(verdicts._of_one_case(chosen, pl.DataFrame(ways, schema=SUMMARY.schema)))
    order = ["in no training step", f"{CASE}, forward: the bench", " a  ", " developer  ", "Chosen: a"]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    assert "not_timed" not in text


def test_several_cases_of_a_run_without_a_model_have_a_row_each() -> None:
    over = {"measured_us": 2e3, "speedup": 2.0, "speedup_low": 1.8, "speedup_high": 2.2}
    rows = cases(
        {"gain": 1.1, "gain_low": 1.0, "gain_high": 1.2, **over},
        {"measured_us": 1e3, "direction": "backward", "use": "known", "in_file": "developer"},
        {"gain": 0.8, "gain_low": 0.7, "gain_high": 0.9, "instead": "hand_bundled", **over},
    )
    text = printed(verdicts._of_cases(rows))
    (first, second, third) = lines(text, "tp_mlp/n4-m8-l8-256KiB- ")
    assert first.endswith(" a 2 2.00 (1.80..2.20) 1.10 (1.00..1.20)")
    assert second.endswith(" developer 1 - no search needed") and third.endswith(" a - - took the place")
    assert "backward" in text and "in no training step" in text and "use hand bundled" in text


@pytest.mark.parametrize("in_file", ["a", None])
def test_what_to_type_names_a_file_that_is_there_and_its_case(tmp_path: Path, in_file: str | None) -> None:
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy/tp_mlp.py").touch()
    said = list(verdicts._script(tmp_path, cases({"in_file": in_file})))
    if in_file is None:
        assert len(said) == 1 and "deploy/ has no file" in said[0]
    else:
        assert said[0].endswith(f"cp {tmp_path}/deploy/tp_mlp.py .") and f'connect("{CASE}")' in said[1]
