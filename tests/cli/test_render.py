"""Tables on a screen: long names are broken where their words are joined, and a Program has one row."""

import polars as pl
import pytest

from overlayccl_core.cli.render import at_joints, case_parts, console
from overlayccl_core.tables.summary import SUMMARY
from tests.rows import row

PLACE = {"problem": "tp_mlp", "case": "tp_mlp/n4", "direction": "forward", "status": "program"}


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("simplified_transpose_of_permute_ring", 22, ["simplified_transpose_", "of_permute_ring"]),
        ("grad_ar/n4-t27-3.5MiB-overlap-f32", 15, ["grad_ar/n4-t27-", "3.5MiB-overlap-", "f32"]),
        ("unbroken", 4, ["unbroken"]),
        ("flat\n= hand bundled", 8, ["flat", "= hand", "bundled"]),
    ],
)
def test_a_name_is_broken_where_its_words_are_joined(text: str, width: int, lines: list[str]) -> None:
    assert at_joints(text, width).split("\n") == lines


def test_strategies_that_are_one_program_share_a_row(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    console.cache_clear()
    same = {"role": "other", "program": "aa", "proof": "pass", "numerics": "exact", "measured_us": 4e3}
    rows = [
        row(
            SUMMARY,
            **PLACE,
            candidate="developer",
            role="developer",
            program="bb",
            proof="pass",
            numerics="exact",
        ),
        row(SUMMARY, **PLACE, candidate="single_graph", **same),
        row(SUMMARY, **PLACE, candidate="merged", **(same | {"role": "hand_bundled"})),
        row(SUMMARY, **PLACE, candidate="unmeant", role="other", program=None, proof="not_applicable"),
        row(SUMMARY, **PLACE, candidate="refused", role="other", program=None, proof="not_in_language"),
    ]
    for part in case_parts(pl.DataFrame(rows, schema=SUMMARY.schema)):
        console().print(part)
    said = " ".join(capsys.readouterr().out.split())
    console.cache_clear()
    assert "single_graph = merged *" in said and said.count("merged") == 1
    assert "unmeant" in said and "refused" in said


@pytest.mark.parametrize(("link_gbps", "shown"), [(None, "0.05, 0.075"), (0.125, "0.05, 0.075, 60%")])
def test_busbw_is_beside_the_share_of_a_declared_link(
    link_gbps: float | None,
    shown: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    console.cache_clear()
    timed = {"candidate": "flat", "role": "other", "program": "aa", "proof": "pass", "numerics": "exact"}
    one = row(SUMMARY, **PLACE, **timed, measured_us=4e3, algbw_gbps=0.05, busbw_gbps=0.075)
    for part in case_parts(pl.DataFrame([one], schema=SUMMARY.schema), link_gbps):
        console().print(part)
    said = " ".join(capsys.readouterr().out.split())
    console.cache_clear()
    assert shown in said and ("of the link" in said) == ("60%" in said) == (link_gbps is not None)
