"""What is said of measurements that got fewer rounds than they should."""

import polars as pl
import pytest

from overlayccl_core.evidence.rounds import too_few_rounds

FLOORS = {"of_probe": 25, "of_bench": 12}


def said(*rows: tuple[str | None, int]) -> str:
    """rows: (Problem, None for held-out Programs; rounds)."""
    return too_few_rounds(
        pl.DataFrame(rows, {"problem": pl.String(), "rounds": pl.Int64()}, orient="row"), **FLOORS
    )


def test_nothing_is_said_where_all_have_their_rounds() -> None:
    assert said((None, 25), ("tp_mlp", 12), ("tp_mlp", 40)) == ""


def test_the_fewest_of_each_is_told_beside_its_own_floor() -> None:
    text = said((None, 18), ("tp_mlp", 9), ("tp_mlp", 7), ("grad_ar", 12))
    assert "probe 18 of 25, bench of tp_mlp 7 of 12." in text and "grad_ar" not in text
    assert "Give more probe.seconds and bench.seconds before" in text


@pytest.mark.parametrize(("row", "setting"), [((None, 24), "probe"), (("tp_mlp", 11), "bench")])
def test_the_setting_to_change_is_the_one_that_was_too_small(
    row: tuple[str | None, int], setting: str
) -> None:
    assert f"Give more {setting}.seconds before" in said((None, 25), ("uniform_a2a", 12), row)
