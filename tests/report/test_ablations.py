"""The page of searches side by side: labels, intervals, what is scripted, and that all is escaped."""

import polars as pl

from overlayccl_core.evidence.ablations import arm_rows, curve_rows, place_rows
from overlayccl_core.report.ablations import label, page
from tests.evidence.test_ablations import UNTIMED, candidate, candidates, searched

CALLS = {"search": pl.String, "made_by": pl.String, "usd": pl.Float64}


def drawn(*answers: tuple[str, str, float]) -> str:
    """The page of `drawn` at five seeds and `asks` at one. answers: (search, made_by, usd)."""
    parts, rows = [], []
    ends = {f"drawn@{seed}": end for seed, end in enumerate((1.0, 2.0, 2.0, 2.0, 4.0))} | {"asks@0": 1.5}
    for name, end in ends.items():
        parts.append(searched(("program", "a"), ("duplicate", "a"), ("program", "b"), search=name))
        rows += [candidate("a", 8.0, search=name), candidate("b", end, search=name)]
    made = candidates(*rows)
    curves = curve_rows(pl.concat(parts), made)
    calls = pl.DataFrame(answers, schema=CALLS, orient="row")
    return page(curves, place_rows(curves), arm_rows(curves, made, calls, UNTIMED), "local")


def test_each_search_has_its_end_with_an_interval_over_its_seeds() -> None:
    text = drawn(("asks@0", "model", 0.25))
    assert "2.000 (1.000..4.000)" in text.replace("<wbr>", "")
    assert ">1.500<" in text  # one seed: no interval
    assert ">33.3%<" in text and ">0.25<" in text  # duplicates, USD
    assert "2 searches at 1 Case" in text
    assert text.count("<svg") == 2 and "scripted" not in text
    assert text.count('<a href="ablation_curves.parquet">') == text.count('<a href="ablations.parquet">') == 3


def test_a_search_that_never_comes_near_says_so_and_is_held_to_the_first_at_each_place() -> None:
    text = drawn().replace("<wbr>", "")
    assert ">never (3..never)<" in text and ">never<" in text
    assert ">0 of 5<" in text and ">0 of 1<" in text  # found nothing
    assert ">0 / 1 / 0<" in text and "dearer than asks" in text
    assert ">1 / 0 / 0<" not in text and ">0 / 0 / 1<" in text


def test_what_a_script_answered_says_so_in_the_figure_and_above_it() -> None:
    text = drawn(("asks@0", "scripted", 0.0))
    figure = text[text.index("<svg") : text.index("<figcaption")]
    assert "asks (scripted)" in figure and "drawn (" not in figure
    assert "nothing about models" in text


def test_a_label_tells_who_answered_unless_a_model_did() -> None:
    assert label("asks", []) == label("asks", ["model"]) == "asks"
    assert label("asks", ["command", "model"]) == "asks (command)"
