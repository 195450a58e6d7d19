"""Prices of seeds and of finds, by Program; the rows of a Case and direction."""

import polars as pl

from overlayccl_core.evidence.predictions import at, places, predictions

COLUMNS = ("case", "direction", "program", "predicted_us", "low_us", "high_us")


def frame(*rows: tuple[object, ...]) -> pl.DataFrame:
    types = {name: pl.Float64 if name.endswith("_us") else pl.String for name in COLUMNS}
    return pl.DataFrame(rows, schema=types, orient="row")


def test_a_program_has_the_price_of_whoever_priced_it_and_none_without() -> None:
    prices = frame(("c", "forward", "p", 1.0, 0.5, 2.0), ("c", "backward", "q", None, None, None))
    found = frame(("c", "forward", "r", 3.0, 2.0, 4.0), ("c", "forward", "p", 1.0, 0.5, 2.0))
    priced = predictions(prices, found)
    assert {key: one.us for key, one in priced.items()} == {
        ("c", "forward", "p"): 1.0,
        ("c", "forward", "r"): 3.0,
    }
    assert (priced["c", "forward", "r"].low_us, priced["c", "forward", "r"].high_us) == (2.0, 4.0)


def test_places_keep_the_order_of_the_table() -> None:
    table = frame(
        ("b", "forward", "p", 1, 1, 1), ("a", "forward", "p", 1, 1, 1), ("b", "backward", "p", 1, 1, 1)
    )
    assert places(table) == [("b", "forward"), ("a", "forward"), ("b", "backward")]
    assert at(table, ("b", "backward")).height == 1
