"""What of a search need not come out the same when it is made again, and what must all the same.

A guard of seconds cut it, as its own table says: that is believed where the job took so long, and of the Cases that
were cut. What was proposed up to there must come out again, and what is said of a Program must be what comes out of
that Program. Only labels are tried after the cut. Or a question had no answer (no money, a lost connection): then
those of `calls` without an answer, and the words on how it ended, are open, and nothing else.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.archiving.compare_files import OF_ASKING, frames_differ
from overlayccl_core.archiving.findings import Outcome
from overlayccl_core.archiving.searched import SEARCH
from overlayccl_core.search.candidate import Stage
from overlayccl_core.search.labels import LABEL_RULES
from overlayccl_core.search.loop import Stop
from overlayccl_core.search.proposer import asks
from overlayccl_core.tables.calls import CALLS
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.prices import PRICE_COLUMNS
from overlayccl_core.tables.search_ends import SEARCH_ENDS
from overlayccl_core.tables.sidecar import path_of
from overlayccl_core.tables.sketches import SKETCHES
from overlayccl_core.tables.table import read

Frame = pl.DataFrame
PLACE = ("case", "direction")
PROPOSED = ("number", "parent", "origin", "step", "function", "source", "rationale", "value_digest", "stage")
OF_A_PROGRAM = (
    *("family", "value_digest", "collectives", "wire_bytes", "peak_bytes", "legality"),
    *(column.name for column in PRICE_COLUMNS),
)  # columns of `candidates` that follow from the Program alone, whatever else was tried
NUMBER, MESSAGE = "number", "message"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOpen:
    """cut: Cases and directions that the guard cut. asks: what one Case came to may have been told to a model that
    was asked for another. unanswered: questions."""

    cut: frozenset[tuple[str, str]]
    asks: bool
    unanswered: int

    @property
    def why(self) -> str:
        """In a clause."""
        return (
            "its guard of seconds cut it" if self.cut else f"{self.unanswered} of its questions had no answer"
        )

    def excuses(self, made: Path, told: Path) -> bool:
        """Whether two tables that are not equal differ only in what need not come out the same."""
        mine, theirs = (pl.read_parquet(file) for file in (made, told))
        name = told.stem
        if name == CALLS.name:
            mine, theirs = (frame.drop(OF_ASKING) for frame in (mine, theirs))
        if not self.cut:
            mine, theirs = (_answered(name, frame) for frame in (mine, theirs))
            return _same(mine, theirs)
        if self.asks:
            return name != CANDIDATES.name or _same_of_programs(mine, theirs)
        (mine, mine_cut), (theirs, theirs_cut) = (self._parted(frame) for frame in (mine, theirs))
        if not _same(mine, theirs):
            return False
        if name == CANDIDATES.name:
            return _same_of_programs(mine_cut, theirs_cut)
        if name == SKETCHES.name:
            parts = (frame.partition_by(PLACE, as_dict=True) for frame in (mine_cut, theirs_cut))
            whole, begun = parts
            return all(place in whole and _is_begun(whole[place], rows) for place, rows in begun.items())
        return True

    def _parted(self, frame: Frame) -> tuple[Frame, Frame]:
        """(the rows of what ended by itself, of what was cut)."""
        is_cut = pl.Series([place in self.cut for place in frame.select(PLACE).iter_rows()], dtype=pl.Boolean)
        return frame.filter(~is_cut), frame.filter(is_cut)


def left_open(folder: Path, outputs: Sequence[str], words: Sequence[str]) -> LeftOpen | None:
    """Of a search, by its command and what its own tables say; None: all of it must come out the same."""
    of = {Path(name).stem: folder / name for name in outputs if name.endswith(".parquet")}
    if SEARCH_ENDS.name not in of or SEARCH not in words:
        return None
    fields = json.loads(words[words.index(SEARCH) + 1])
    ends = read(SEARCH_ENDS, of[SEARCH_ENDS.name])
    cut = set(ends.filter(pl.col("why") == Stop.SECONDS).select(PLACE).iter_rows())
    if len(cut) * float(fields["seconds"]) > _took_s(of[SEARCH_ENDS.name]):
        cut = set()  # each of them would have taken so long
    unanswered = read(CALLS, of[CALLS.name])["made_by"].null_count()
    if not (cut or unanswered):
        return None
    return LeftOpen(cut=frozenset(cut), asks=asks(str(fields["proposer"])) is not None, unanswered=unanswered)


def _took_s(table: Path) -> float:
    """Of the job that made a table, as its sidecar says, which is held to the record of the job."""
    told: Mapping[str, Any] = json.loads(path_of(table).read_bytes())
    began, ended = (datetime.fromisoformat(told[name]) for name in ("started_utc", "ended_utc"))
    return (ended - began).total_seconds()


def _answered(name: str, frame: Frame) -> Frame:
    """A table without what depends on why a question had no answer."""
    if name == CALLS.name:
        return frame.filter(pl.col("made_by").is_not_null()).drop(NUMBER)
    return frame.drop(MESSAGE) if name == SEARCH_ENDS.name else frame


def _same(mine: Frame, theirs: Frame) -> bool:
    return frames_differ(mine, theirs)[0] is not Outcome.WRONG


def _same_of_programs(whole: Frame, told: Frame) -> bool:
    """Whether what is said of the Programs that both came upon is the same."""
    key = (*PLACE, "program")
    both = (one.join(other, on=key, how="semi").sort(key) for one, other in ((whole, told), (told, whole)))
    return _same(*(frame.select(*key, *OF_A_PROGRAM) for frame in both))


def _is_begun(whole: Frame, told: Frame) -> bool:
    """Whether what was proposed of a Case is how the whole begins; then labels only, or replays at full size."""
    mine, theirs = (list(frame.select(PROPOSED).iter_rows(named=True)) for frame in (whole, told))
    common = next((k for k, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), len(mine))
    through_proxy = any(row["stage"] == Stage.PROXY for row in mine)
    return all(
        (through_proxy and row["stage"] == Stage.FULL) or _rule(row["step"]) in LABEL_RULES
        for row in theirs[common:]
    )


def _rule(step: str | None) -> str:
    return str(json.loads(step)[0]) if step else ""
