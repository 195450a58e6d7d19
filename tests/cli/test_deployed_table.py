"""What a run says first: what is deployed, what it is worth over whom, in at most 100 columns."""

import io
from collections.abc import Iterable
from typing import Any

import polars as pl
import pytest
from rich.console import Console, RenderableType

from overlayccl_core.cli.deployed_table import case_parts, model_parts
from overlayccl_core.tables.deployed import DEPLOYED
from tests.report.test_worth import beside, deployed, instead, rival, worth
from tests.rows import row

LEGEND = "x best known way: "
GAIN = {"speedup": 6.213, "speedup_low": 5.9, "speedup_high": 6.5}
OTHER = {"gain": 1.214, "gain_low": 1.16, "gain_high": 1.3, "best_other": "hand_bundled"}


def printed(parts: Iterable[RenderableType]) -> str:
    console = Console(width=100, file=io.StringIO())
    for part in parts:
        console.print(part, highlight=False)
    return console.file.getvalue()  # type: ignore[attr-defined]


def cases(*rows: dict[str, Any]) -> str:
    fixed = {"problem": "tp_mlp", "case": "tp_mlp/n4-m8-l8-256KiB-f32", "arm": "finalist_1"}
    fixed |= {"candidate": "all_to_all_of_copies", "measured_us": 1e3, "disturbed": False}
    whole = [row(DEPLOYED, **(fixed | GAIN | OTHER | one)) for one in rows]
    return printed(case_parts(pl.DataFrame(whole, schema=DEPLOYED.schema)))


def lines(text: str, beginning: str) -> list[str]:
    """The lines that begin so, each run of spaces as one."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip().startswith(beginning)]


# --------------------------------------------------------------------------------------------------------- models
def test_a_model_begins_with_its_warnings_then_what_is_deployed_then_every_way() -> None:
    told = worth(
        deployed(1),
        instead(1, "best_known_way", 0.9, 0.85, 0.95),
        beside(1, "hand_bundled", 0.9, 0.85, 0.95, ran_as="best_known_way"),
        beside(8, "developer", 8.0, 7.0, 9.0),
        beside(8, "deployed", 1.2, 1.1, 1.3, ran_as="hand_bundled"),
    )
    text = printed(model_parts([told]))
    order = ["nano", "Use best known way"]
    order += ["Chosen: the batch whole", "x step", "M: into how many"]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    (best, mine), (other, developer) = lines(text, "1"), lines(text, "8")
    assert best == "1 best known way: in its place <-, 90 12.0 0.90 (0.85..0.95) slower"
    assert mine == "1 the chosen file 100 12.0 - - needed"
    assert other == "8 the chosen file = hand bundled 120 12.0 1.20 (1.10..1.30) faster"
    assert developer == "8 developer 800 12.0 8.00 (7.00..9.00) faster"


def test_too_few_rounds_stand_in_the_table_in_place_of_an_interval() -> None:
    text = printed(model_parts([worth(deployed(), rival(2, "hand_bundled", 1.29))]))
    assert "1.29 (too few rounds)   undecided" in text


def test_an_arm_of_unknown_memory_has_a_row() -> None:
    unknown = rival(2, "ddp_4", 1.2, 1.1, 1.3, peak_memory_bytes=None)
    _, shown = lines(printed(model_parts([worth(deployed(), unknown)])), "2")
    assert shown == "2 torch DDP, 4 MiB: the rival 120 - 1.20 (1.10..1.30) faster"


def test_many_arms_stay_inside_100_columns() -> None:
    same = [
        beside(2, arm, 1.2, 1.1, 1.3, ran_as="developer")
        for arm in ("single_graph", "hand_bundled", "best_known_way")
    ]
    text = printed(model_parts([worth(deployed(), rival(2, "developer", 12.345, 10.0, 15.0), *same)]))
    assert max(map(len, text.splitlines())) <= 100
    assert "best known" in text


# ---------------------------------------------------------------------------------------------------------- Cases
def test_the_gain_is_over_the_best_known_way_and_never_over_single_calls() -> None:
    """15 times as fast as 37 calls, which nobody makes, is no gain."""
    text = cases({}).partition(LEGEND)[0]
    assert "1.21 (1.16..1.30)" in text and "hand bundled" in text and text.count("faster") == 1
    assert "6.21" not in text and "developer" not in text


def test_of_a_known_way_no_number_stands_that_reads_as_a_find() -> None:
    text = cases({"arm": "best_known_way", "use": "known"}).partition(LEGEND)[0]
    assert "no search needed" in text and "1.21" not in text and "faster" not in text


def test_a_case_says_what_is_to_be_used_in_place_of_what_was_chosen() -> None:
    slower = {"gain": 0.9, "gain_low": 0.85, "gain_high": 0.95}
    text = cases({"instead": "ddp_25", "use": "framework", "trained_in": "nano-dp m1"}, slower)
    assert "keep torch DDP (25" in text and "deployed" in text


@pytest.mark.parametrize(
    ("ends", "word"), [((0.8, 0.95), "slower"), ((0.8, 1.2), "undecided"), ((0.96, 1.01), "not slower")]
)
def test_every_gain_has_its_word(ends: tuple[float, float], word: str) -> None:
    low, high = ends
    text = cases({"gain": (low + high) / 2, "gain_low": low, "gain_high": high})
    assert word in text.partition(LEGEND)[0]


def test_a_faster_best_other_is_said_before_the_table() -> None:
    text = cases(
        {"gain": 0.9, "gain_low": 0.85, "gain_high": 0.95, "instead": "hand_bundled", "use": "known"}
    )
    assert text.index("use hand bundled") < text.index("tp_mlp: deployed")


def test_disturbed_launches_are_said_once_before_the_table() -> None:
    text = cases({"disturbed": True}, {"disturbed": True, "direction": "backward"})
    assert text.count("Disturbed: others took") == 1
    assert text.index("tp_mlp: Disturbed") < text.index("tp_mlp: deployed")


def test_the_models_whose_step_counts_are_named() -> None:
    assert "step of nano m8, nano m2" in cases({"trained_in": "nano m8, nano m2"})


def test_what_people_write_is_called_by_its_arm_and_is_not_compared_with_itself() -> None:
    assert "= developer" not in cases({}).partition(LEGEND)[0]
    assert "= developer" in cases({"arm": "developer"}).partition(LEGEND)[0]


def test_long_names_stay_inside_100_columns_and_are_whole() -> None:
    long = {"case": "tp_mlp/n4-m8-l8-256KiB-entry-f32", "candidate": "simplified_transpose_of_permute_ring"}
    text = cases(
        {**long, "best_other": "single_graph", "direction": "backward", "trained_in": "nano-wide m8"}
    )
    assert max(map(len, text.splitlines())) <= 100
    cells = [line[:60] for line in text.splitlines()]
    for part in ("simplified_transpose_ ", "of_permute_ring ", "n4-m8-l8-256KiB-entry-f32 ", "backward "):
        assert any(part in cell for cell in cells), text
