"""What the report says of language models: who was asked, at what cost, and what became of every sketch."""

from pathlib import Path
from typing import Any

from overlayccl_core.report import language_models
from overlayccl_core.report.blocks import NOTHING, SCRIPTED, Block, TableBlock, Text
from overlayccl_core.report.tree import Tree
from overlayccl_core.tables.calls import CALLS
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.search_ends import SEARCH_ENDS
from overlayccl_core.tables.sketches import SKETCHES
from overlayccl_core.tables.trials import TRIALS
from tests.report.fixture_rows import put
from tests.rows import row

WHERE = {"case": "tp_mlp/n4", "direction": "forward", "search": "asks"}
FOLDER = Path("problems/tp_mlp/search/asks")


def call(number: int, **more: Any) -> dict[str, Any]:
    answered = {
        "made_by": "model",
        "model": "some-model",
        "input_tokens": 1000,
        "output_tokens": 200,
        "cache_read_tokens": 500,
        "cache_write_tokens": 0,
        "usd": 0.25,
        "seconds": 2.0,
    }
    return row(CALLS, **WHERE, **{"number": number, "purpose": "implement", "style": "enumerate", "outcome": "end"}
               | answered | more)  # fmt: skip


def sketch(number: int, outcome: str, **more: Any) -> dict[str, Any]:
    fields = {
        "origin": "sketch",
        "function": f"tried_{number}",
        "purpose": "implement",
        "rationale": "it saves",
    }
    return row(SKETCHES, **WHERE, **{"number": number, "outcome": outcome, "stage": "full"} | fields | more)


def told(
    run: Path, calls: list[dict[str, Any]], sketches: list[dict[str, Any]], *, polished: bool | None = None
) -> list[Block]:
    put(CALLS, calls, run / FOLDER / "calls.parquet")
    put(SKETCHES, sketches, run / FOLDER / "sketches.parquet")
    put(SEARCH_ENDS, [row(SEARCH_ENDS, **WHERE, polished=polished)], run / FOLDER / "search_ends.parquet")
    put(CANDIDATES, [row(CANDIDATES, **WHERE, value_digest="right", predicted_us=us, program=f"{us}")
                     for us in (1500.0, 1200.0)], run / FOLDER / "candidates.parquet")  # fmt: skip
    return language_models.blocks(Tree(path=run))


def totals(blocks: list[Block]) -> dict[str, str]:
    table = next(b for b in blocks if isinstance(b, TableBlock))
    [cells] = table.rows
    return dict(zip(table.headers, cells, strict=True))


def test_a_run_that_asked_nobody_has_no_such_part(whole: Path) -> None:
    assert language_models.blocks(Tree(path=whole)) == []


def test_what_was_asked_is_counted_and_priced(run: Path) -> None:
    calls = [call(0), call(1, recorded=True), call(2, made_by=None, outcome="lost", usd=None)]
    outcomes = [
        sketch(0, "program", value_digest="right"),
        sketch(1, "duplicate"),
        sketch(2, "rejected", message="no"),
    ]
    row_ = totals(told(run, calls, outcomes, polished=True))
    assert (
        row_["Problem: search, style"] == "tp_mlp: asks, enumerate"
        and row_["who answered"] == "some-model (model)"
    )
    assert [row_[c] for c in ("questions", "of them recorded", "without an answer")] == ["3", "1", "1"]
    assert [row_[c] for c in ("tokens said", "of them cached", "answered")] == ["4,500", "1,500", "600"]
    assert row_["USD"] == "0.5000"
    assert [row_[c] for c in ("sketches", "right", "known already", "polished")] == ["3", "2", "1", "yes"]


def test_what_nobody_counted_is_no_zero(run: Path) -> None:
    unknown = dict.fromkeys(
        ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "usd", "seconds")
    )
    blocks = told(
        run, [call(0, made_by="scripted", model="", **unknown)], [sketch(0, "duplicate", origin="rule")]
    )
    row_ = totals(blocks)
    assert {row_[c] for c in ("tokens said", "answered", "USD", "asked for", "polished")} == {NOTHING}
    assert row_["who answered"] == "a program (scripted)"
    warnings = [b.text for b in blocks if isinstance(b, Text) and b.tone == "warning"]
    assert warnings == [SCRIPTED]
    assert len([b for b in blocks if isinstance(b, TableBlock)]) == 1  # no sketch came


def test_every_sketch_has_what_became_of_it_and_its_cheapest_price(run: Path) -> None:
    aim = {"purpose": "refine", "aim": "collectives", "aim_us": 1500.0, "aimed_us": 1200.0}
    rows = [
        sketch(0, "program", value_digest="right", **aim),
        sketch(1, "rejected", message="line 3: no such word"),
    ]
    table = [b for b in told(run, [call(0)], rows) if isinstance(b, TableBlock)][1]
    assert table.title.endswith("each sketch") and table.folded
    assert table.rows[0][1:] == (
        "tried_0", "refine: collectives of 1.5 ms, now 1.2 ms", table.rows[0][3], "1.2 ms", "it saves",
    )  # fmt: skip
    assert table.rows[1][3].endswith(": line 3: no such word") and table.rows[1][4] == NOTHING


def test_what_failed_on_the_ranks_is_told_with_what_was_said(run: Path) -> None:
    def ran(*statuses: str) -> list[Block]:
        rows = [row(TRIALS, **WHERE, candidate=f"found-{n}", status=status, message="no such group")
                for n, status in enumerate(statuses)]  # fmt: skip
        put(TRIALS, rows, run / FOLDER / "trials.parquet")
        return told(run, [call(0)], [sketch(0, "program")])

    def tones(blocks: list[Block], said: str) -> list[str]:
        return [b.tone for b in blocks if isinstance(b, Text) and said in b.text]

    assert tones(ran("right_values", "right_values"), "2 sketches; all ran") == ["good"]
    blocks = ran("right_values", "hung")
    assert tones(blocks, "; 1 failed, ") == ["warning"]
    [failed] = [
        b for b in blocks if isinstance(b, TableBlock) and b.title == "Sketches that failed on the ranks"
    ]
    assert failed.rows == (("tp_mlp/n4 forward", "asks", "found-1", "hung", "no such group"),)


def test_more_sketches_than_anyone_reads_are_cut_and_said(run: Path) -> None:
    rows = [sketch(n, "duplicate") for n in range(language_models.MOST_SKETCHES + 5)]
    table = [b for b in told(run, [call(0)], rows) if isinstance(b, TableBlock)][1]
    assert len(table.rows) == language_models.MOST_SKETCHES
    assert table.title.endswith("each sketch, the first 60 of 65")
