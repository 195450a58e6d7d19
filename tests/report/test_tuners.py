"""What the end of `snakemake tune` and its page say: gains of the second launch."""

from typing import Any

import polars as pl
import pytest

from overlayccl_core.report.blocks import TIMES
from overlayccl_core.report.tuners import page, sentence
from overlayccl_core.tables.tune import TUNED_CALLS, TUNER_CURVES, TunerName
from tests.rows import row

FASTER = {"gain": 1.5, "gain_low": 1.2, "gain_high": 1.9, "found": "ring", "chosen": "ring"}
AS_IT_IS = {"gain": 1.5, "gain_low": 0.9, "gain_high": 2.1, "found": "ring", "chosen": "plain"}
FIRST = {"both_gain": 4.0, "both_gain_low": 3.9, "both_gain_high": 4.1}
"""What the first launch says of the call."""


def calls(*of: dict[str, Any], **more: Any) -> pl.DataFrame:
    same = {"ways": 30, "rounds": 22, "again_rounds": 90, "disturbed": False} | FIRST | more
    return pl.DataFrame(
        [row(TUNED_CALLS, case=f"call {number}", **same | one) for number, one in enumerate(of)],
        schema=TUNED_CALLS.schema,
    )


def curves() -> pl.DataFrame:
    rows = [
        row(TUNER_CURVES, case="call 0", tuner=tuner, looks=looks, seeds=1, regret=0.1, regret_p90=0.2)
        for tuner in TunerName
        for looks in (0.25, 1.0, 4.0, 16.0)
    ]
    return pl.DataFrame(rows, schema=TUNER_CURVES.schema)


def test_the_gain_of_the_sentence_is_of_the_second_launch() -> None:
    more = {"gain": 1.4, "both_gain": 9.0, "found": "copies", "chosen": "copies"}
    said = sentence(calls(FASTER | more, FASTER, AS_IT_IS))
    assert said == (
        f"Of 3 calls 2 can be made faster beyond noise. The most is call 1: 1.50{TIMES} (1.20..1.90) by ring. The "
        "others stay as they are."
    )


def test_nothing_is_gained_where_the_second_launch_says_so() -> None:
    assert sentence(calls(AS_IT_IS)).startswith("Tuning brings nothing here: of 1 call none")


@pytest.mark.parametrize(("rounds", "again", "few"), [(4, 11, False), (22, 10, True)])
def test_rounds_of_the_second_launch_are_what_it_takes(rounds: int, again: int, few: bool) -> None:
    said = sentence(calls(AS_IT_IS, rounds=rounds, again_rounds=again))
    assert (said.startswith("Too few rounds to judge by (10)") and "tune.again.seconds" in said) is few


def test_the_page_has_what_was_found_beside_what_is_chosen() -> None:
    html = page(curves(), calls(AS_IT_IS), "here")
    assert f"1.50{TIMES} (0.90..2.10), undecided" in html and "ring" in html
    assert html.index("none has a way that is faster") < html.index("Calls: the best way by the odd rounds")
