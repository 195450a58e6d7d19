"""What the end of `snakemake sweep_payload` and its page say: first where nothing beats the library's own call."""

from typing import Any

import polars as pl
import pytest

from overlayccl_core.report.blocks import TIMES
from overlayccl_core.report.payloads import page, sentence
from overlayccl_core.tables.sweep_payload import PAYLOAD_TIMES
from tests.rows import row

KIB = 1024
LOST = {"gain": 1.1, "gain_low": 0.9, "gain_high": 1.3}
WON = {"gain": 1.5, "gain_low": 1.2, "gain_high": 1.9}


def times(gains: dict[int, dict[str, Any] | None], **more: Any) -> pl.DataFrame:
    """Payload -> the gain of the ring, where it is the fastest; None: where the library's own call is."""
    rows = []
    for size, gain in gains.items():
        same = {
            "payload_bytes": size,
            "case": f"case {size}",
            "time_us": 900.0,
            "low_us": 800.0,
            "high_us": 1e3,
        }
        same |= {"launches": 3, "best_of_family": True} | more
        own = {"way": "native", "family": "native", "developer": True, "fastest": gain is None}
        other = {"way": "ring_in_2", "family": "ring", "fastest": gain is not None}
        rows += [row(PAYLOAD_TIMES, **same, **one) for one in (own, {**other, **(gain or LOST)})]
    return pl.DataFrame(rows, schema=PAYLOAD_TIMES.schema)


def test_where_nothing_beats_the_librarys_own_call_that_is_all() -> None:
    said = sentence(times({2 * KIB: LOST, 4 * KIB: None, 8 * KIB: LOST}))
    assert said == (
        "Nothing beats the library's own call (native) beyond noise, at any of 3 payloads (2KiB to 8KiB)."
    )


def test_where_something_does_comes_after_where_nothing_does() -> None:
    gains = {2 * KIB: WON, 4 * KIB: LOST, 8 * KIB: None, 16 * KIB: WON, 32 * KIB: LOST}
    assert sentence(times(gains)) == (
        "Of 5 payloads nothing beats the library's own call (native) beyond noise at 3 (4KiB to 8KiB, 32KiB). At 2 "
        f"something does: 2KiB 1.50{TIMES} (1.20..1.90) by ring_in_2, 16KiB 1.50{TIMES} (1.20..1.90) by ring_in_2."
    )


def test_of_a_disturbed_machine_nothing_is_said() -> None:
    assert "--forcerun time_payloads" in sentence(times({2 * KIB: WON}, disturbed=True))


@pytest.mark.parametrize(("launches", "over"), [(3, "over launches"), (1, "over rounds")])
def test_the_page_begins_with_the_sentence_and_draws_each_family(launches: int, over: str) -> None:
    html = page(times({2 * KIB: WON, 1024 * KIB: LOST}, launches=launches), "here")
    assert html.index("Of 2 payloads nothing beats") < html.index("timed in the same rounds")
    assert f"Intervals are {over}" in html
    for said in ("Time by payload", "best of ring", "native, the library", "1MiB, ring_in_2: 900 us"):
        assert said in html, said
    assert f"2KiB, ring_in_2: 1.50{TIMES} (1.20..1.90)" in html


def test_gains_without_an_interval_win_and_lose_nothing_and_are_drawn() -> None:
    few = times({2 * KIB: {"gain": 1.5, "gain_low": None, "gain_high": None}}, rounds=3)
    assert sentence(few).startswith("Too few rounds to judge by (3 that") and "too few rounds" in page(
        few, "here"
    )
