"""The page of searches side by side: labels, intervals, what is scripted, and that all is escaped."""

import polars as pl

from overlayccl_core.evidence.ablations import arm_rows, curve_rows
from overlayccl_core.report.ablations import label, page
from tests.evidence.test_ablations import candidate, candidates, searched

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
    return page(curves, arm_rows(curves, made, calls), "local")


def test_each_search_has_its_end_with_an_interval_over_its_seeds() -> None:
    text = drawn(("asks@0", "model", 0.25))
    assert "2.000 (1.088..3.676)" in text.replace("<wbr>", "")
    assert ">1.500<" in text  # one seed: no interval
    assert ">33.3%<" in text and ">0.25<" in text  # duplicates, USD
    assert "2 searches at 1 Case" in text
    assert text.count("<svg") == 2 and "scripted" not in text
    assert text.count('<a href="ablation_curves.parquet">') == text.count('<a href="ablations.parquet">') == 2


def test_what_a_script_answered_says_so_in_the_figure_and_above_it() -> None:
    text = drawn(("asks@0", "scripted", 0.0))
    figure = text[text.index("<svg") : text.index("<figcaption")]
    assert "asks (scripted)" in figure and "drawn (" not in figure
    assert "nothing about models" in text


def test_a_label_tells_who_answered_unless_a_model_did() -> None:
    assert label("asks", []) == label("asks", ["model"]) == "asks"
    assert label("asks", ["command", "model"]) == "asks (command)"
