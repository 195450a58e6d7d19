"""Repetition of a search: the archived answers replace questions to a language model."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from overlayccl_core.search import model_search
from overlayccl_core.search.loop import SearchStop
from overlayccl_core.search.proposer import asks
from overlayccl_core.search.proposers import replay
from overlayccl_core.tables.calls import CALLS
from overlayccl_core.tables.search_ends import SEARCH_ENDS
from overlayccl_core.tables.table import read

SEARCH, ANSWERS = ("--search", "--answers")  # options of a search's command: fields, folder of answers
REPLAY = "replay"
NO_GUARD_S = 1e9  # other processors may take longer


def without_asking(words: Sequence[str], folder: Path) -> list[str]:
    """Return the command of a search with the archived answers; any other command unchanged.

    Raises:
        ValueError: There are no such answers; the message says why.
    """
    words = list(words)
    if SEARCH not in words:
        return words
    at = words.index(SEARCH) + 1
    fields = json.loads(words[at])
    if (plugin := asks(str(fields["proposer"]))) is not None:
        if plugin.Search.desk is not model_search.Search.desk:
            raise ValueError(f"{fields['proposer']} asks in a way of its own: what came of it is proven only")
        fields = _replayed(fields, words[words.index(ANSWERS) + 1], folder)
    words[at] = json.dumps(fields | {"seconds": NO_GUARD_S})
    return words


def _replayed(fields: Mapping[str, Any], kept: str, folder: Path) -> dict[str, Any]:
    """Return the fields of the same search by recorded answers: its own, or those that it replayed itself."""
    answers = str(fields["answers"]) if fields["proposer"] == REPLAY else kept
    if not (folder / answers).resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"its answers lie in {answers}, which is not in the archive")
    known = {name: value for name, value in fields.items() if name in replay.Search.model_fields}
    return known | {"proposer": REPLAY, "answers": answers}


def left_open(folder: Path, outputs: Sequence[str]) -> Mapping[str, str]:
    """Return table of a search -> why it may differ, as its own tables say.

    A search cut by time may have any result. An unanswered question leaves its row of `calls` open, and the
    text of the end.
    """
    of = {Path(name).stem: folder / name for name in outputs if name.endswith(".parquet")}
    if SEARCH_ENDS.name not in of:
        return {}
    if SearchStop.SECONDS in set(read(SEARCH_ENDS, of[SEARCH_ENDS.name])["why"]):
        return dict.fromkeys(of, "its guard of seconds cut it")
    unanswered = read(CALLS, of[CALLS.name])["made_by"].null_count()
    why = f"{unanswered} of its questions had no answer"
    return dict.fromkeys((CALLS.name, SEARCH_ENDS.name), why) if unanswered else {}
