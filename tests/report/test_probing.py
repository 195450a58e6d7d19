"""The page of probes that models chose: each arm, what is scripted, what is not known, and that all is escaped."""

from typing import Any

from overlayccl_core.report.probing import page
from overlayccl_core.tables.probing import PROBING
from overlayccl_core.tables.rows import frame_of

WHOLE: dict[str, Any] = {
    **{
        "arm": "fixed",
        "search": None,
        "draw": 0,
        "probes": 171,
        "seconds": 33.0,
        "columns": 40,
        "missing": 0,
    },
    **{"heldout": 60, "priced": 60, "median_log_error": 0.0612, "p90_log_error": 0.2, "spearman": 0.98},
    **{"repeat_rel_error": 0.094, "made_by": [], "calls": None, "launches": None, "usd": None, "ended": ""},
    **{"fingerprint": "here", "disturbed": False},
}


def drawn(
    made_by: list[str],
    *,
    search: str = "asks",
    draws: tuple[float | None, ...] = (0.1, 0.3, 0.2),
    **changes: Any,
) -> str:
    agent = {"arm": "agent", "search": search, "probes": 30, "seconds": 9.5, "missing": 12, "priced": 41}
    agent |= {
        "made_by": made_by,
        "calls": 4,
        "launches": 3,
        "usd": 0.25,
        "ended": "it called finish",
    } | changes
    parts = [
        {"arm": "fixed_equal_cost", "search": search, "draw": draw, "median_log_error": error}
        for draw, error in enumerate(draws)
    ]
    rows = [WHOLE, *(WHOLE | row for row in (agent, *parts))]
    text = page(frame_of(rows, PROBING.schema, "rows"), "local")
    return text.replace("<wbr>", "")


def test_every_choice_has_a_row_and_parts_of_the_sweep_their_spread() -> None:
    text = drawn(["model"])
    assert "the sweep, all of it" in text and "the sweep, parts of" in text
    assert "0.2 (0.1..0.3)" in text and "12 of 40" in text and "41 of 60" in text
    assert "4 questions, 3 launches" in text and "0.25 USD" in text and "called finish" in text
    assert "scripted" not in text and "is wrong by 9.4%" in text
    assert '<a href="probing.parquet">' in text and "<code>weigh_probes</code>" in text


def test_what_a_script_chose_says_so_in_the_table_and_above_it() -> None:
    text = drawn(["scripted"])
    assert "asks (scripted)" in text and "nothing about models" in text


def test_what_is_not_known_is_a_dash() -> None:
    text = drawn(["model"], median_log_error=None, usd=None)
    assert ">\N{EN DASH}<" in text and "USD" not in text
    assert "0.3 (0.1..\N{EN DASH})" in drawn(["model"], draws=(None, 0.3, 0.1))
    assert "\N{EN DASH} (0.1..\N{EN DASH})" in drawn(["model"], draws=(None, None, 0.1))


def test_that_others_used_the_machine_is_said() -> None:
    assert "Others used the machine" in drawn(["model"], disturbed=True)
    assert "Others used the machine" not in drawn(["model"])
