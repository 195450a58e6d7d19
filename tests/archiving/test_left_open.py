"""What need not come out the same of a search that is made again, and that nothing else is excused by it."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from overlayccl_core.archiving.left_open import LeftOpen, left_open
from overlayccl_core.configuration import searches
from overlayccl_core.search.allowance import Asking
from overlayccl_core.search.loop import Stop
from overlayccl_core.stages import search
from overlayccl_core.tables.calls import CALLS
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.search_ends import SEARCH_ENDS
from overlayccl_core.tables.sketches import SKETCHES
from overlayccl_core.tables.table import write
from tests.archiving.forging import rewritten
from tests.stages.flow import ROOT, capabilities, flow_of, quiet

TABLES = (SKETCHES, CANDIDATES, SEARCH_ENDS, CALLS)
ENTRY = {"microbatches": 2, "layers": 2, "shape": [1, 16, 16], "site": "entry"}
GUARD_S, AFTER = 600.0, 40  # looks at the clock until it jumps
COMMAND = ("python", "-m", "workflow_scripts.search", "--search")


class Clock:
    """Stands, and jumps beyond the guard at one look; never: None."""

    def __init__(self, at: int | None) -> None:
        self.at, self.looks = at, 0

    def __call__(self) -> float:
        self.looks += 1
        return 0.0 if self.at is None or self.looks < self.at else 2 * GUARD_S


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    return flow_of(
        tmp_path_factory.mktemp("flow"), "tp_mlp", [ENTRY, {k: v for k, v in ENTRY.items() if k != "site"}]
    )


@pytest.fixture(scope="module")
def searched(flow: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int | None], Path]:
    def of(at: int | None) -> Path:
        place = tmp_path_factory.mktemp("search")
        tables = search.run(
            *(flow.deployment, searches.load("offline", ROOT / "config/searches"), flow.listed, flow.seeds),
            *(flow.theta, flow.judged, capabilities()),
            asking=Asking(answers=place / "answers", tree=place, max_usd=None),
            clock=Clock(at),
            progress=quiet,
        )
        for table in TABLES:
            write(table, tables[table.name], place / f"{table.name}.parquet")
        return place

    return of


@pytest.fixture(scope="module")
def whole(searched: Callable[[int | None], Path]) -> Path:
    return searched(None)


@pytest.fixture
def cut(searched: Callable[[int | None], Path]) -> Path:
    place = searched(AFTER)
    took(place, GUARD_S + 1)
    return place


def took(place: Path, seconds: float) -> None:
    """Write the sidecar of a job that took so long."""
    minutes, rest = divmod(seconds, 60)
    ended = f"2026-11-24T00:{int(minutes):02}:{rest:09.6f}+00:00"
    told = {"started_utc": "2026-11-24T00:00:00+00:00", "ended_utc": ended}
    (place / "search_ends.sidecar.json").write_text(json.dumps(told))


def opened(place: Path, proposer: str = "offline") -> LeftOpen | None:
    outputs = [f"{table.name}.parquet" for table in TABLES]
    return left_open(place, outputs, [*COMMAND, json.dumps({"seconds": GUARD_S, "proposer": proposer})])


def excused(whole: Path, told: Path) -> set[str]:
    """The tables that may differ as they do, or do not."""
    found = opened(told)
    assert found is not None
    names = [table.name for table in TABLES]
    return {name for name in names if found.excuses(whole / f"{name}.parquet", told / f"{name}.parquet")}


ALL = {table.name for table in TABLES}


def test_what_a_guard_cut_is_excused(whole: Path, cut: Path) -> None:
    why = list(pl.read_parquet(cut / "search_ends.parquet")["why"])
    assert why.count(Stop.SECONDS) == 1 and Stop.NO_NEW_ELITE in why  # the other Case ended by itself
    few, all_ = (pl.read_parquet(place / "sketches.parquet").height for place in (cut, whole))
    assert few < all_
    assert excused(whole, cut) == ALL


def test_a_job_that_was_quicker_than_its_guard_was_not_cut(cut: Path) -> None:
    took(cut, GUARD_S - 1)
    assert opened(cut) is None


def narrowed(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(low_us=pl.col("predicted_us") * 0.99)


def without_one(frame: pl.DataFrame) -> pl.DataFrame:
    return frame[[0, 1, 2, *range(4, frame.height)]]


def other_words(frame: pl.DataFrame) -> pl.DataFrame:
    """Of the Case that was not cut."""
    return frame.with_columns(
        message=pl.when(pl.col("why") == Stop.SECONDS).then("message").otherwise(pl.lit("it went well"))
    )


@pytest.mark.parametrize(
    ("table", "change"),
    [("candidates", narrowed), ("sketches", without_one), ("search_ends", other_words)],
)
def test_a_forged_row_is_not_excused_by_it(
    whole: Path, cut: Path, table: str, change: Callable[[pl.DataFrame], pl.DataFrame]
) -> None:
    rewritten(cut / f"{table}.parquet", change)
    assert excused(whole, cut) == ALL - {table}


def test_a_question_without_an_answer_excuses_itself_alone(whole: Path, tmp_path: Path) -> None:
    place = whole
    head = {
        "case": "tp_mlp/n4",
        "direction": "forward",
        "search": "mine",
        "purpose": "compose",
        "style": "once",
    }
    tokens = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "usd", "seconds")
    answer = {
        **head,
        **dict.fromkeys(tokens),
        "model": "m",
        "digest": "0" * 64,
        "recorded": True,
        "message": "",
    }
    answered = {**answer, "number": 0, "made_by": "model", "outcome": "end"}
    lost = {**answer, "number": 1, "made_by": None, "outcome": "lost", "message": "the line is dead"}
    not_recorded = {**lost, "outcome": "not_recorded", "message": "no such file"}
    for name, rows in (("made", [answered, not_recorded]), ("told", [answered, lost]), ("forged", [lost])):
        for table in (SKETCHES, CANDIDATES, SEARCH_ENDS):
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / f"{table.name}.parquet").write_bytes(
                (place / f"{table.name}.parquet").read_bytes()
            )
        write(CALLS, rows, tmp_path / name / "calls.parquet")
        took(tmp_path / name, 1.0)
    for name in ("told", "forged"):
        rewritten(
            tmp_path / name / "search_ends.parquet",
            lambda f: f.with_columns(pl.col("message") + "; asked no more: the line is dead"),
        )
    assert excused(tmp_path / "made", tmp_path / "told") == ALL
    assert excused(tmp_path / "made", tmp_path / "forged") == ALL - {"calls"}
    rewritten(tmp_path / "told" / "search_ends.parquet", lambda f: f.with_columns(pl.col("programs") + 1))
    rewritten(tmp_path / "told" / "candidates.parquet", narrowed)
    assert excused(tmp_path / "made", tmp_path / "told") == {"sketches", "calls"}
