"""A search as it is made again: whoever was asked then is not asked, the answers in the archive speak."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from overlayccl_core.search import asked
from overlayccl_core.search.loop import Stop
from overlayccl_core.search.proposer import asks
from overlayccl_core.search.proposers import replay
from overlayccl_core.tables.calls import CALLS
from overlayccl_core.tables.search_ends import SEARCH_ENDS
from overlayccl_core.tables.table import read

SEARCH, ANSWERS = (
    "--search",
    "--answers",
)  # options of a search's command: its fields, and where it was answered
REPLAY = "replay"
NO_GUARD_S = 1e9  # another processor may take longer


def without_asking(words: Sequence[str], folder: Path) -> list[str]:
    """The command of a search with the answers that lie in an archive; of anything else, as it is.

    ValueError: why there are none.
    """
    words = list(words)
    if SEARCH not in words:
        return words
    at = words.index(SEARCH) + 1
    fields = json.loads(words[at])
    if (plugin := asks(str(fields["proposer"]))) is not None:
        if plugin.desk is not asked.desk:
            raise ValueError(f"{fields['proposer']} asks in a way of its own: what came of it is proven only")
        fields = _replayed(fields, words[words.index(ANSWERS) + 1], folder)
    words[at] = json.dumps(fields | {"seconds": NO_GUARD_S})
    return words


def _replayed(fields: Mapping[str, Any], kept: str, folder: Path) -> dict[str, Any]:
    """The fields of the same search by recorded answers: those that it kept, or those that it replayed itself."""
    answers = str(fields["answers"]) if fields["proposer"] == REPLAY else kept
    if not (folder / answers).resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"its answers lie in {answers}, which is not in the archive")
    known = {name: value for name, value in fields.items() if name in replay.Search.model_fields}
    return known | {"proposer": REPLAY, "answers": answers}


def left_open(folder: Path, outputs: Sequence[str]) -> Mapping[str, str]:
    """Table of a search -> why it need not come out the same, as its tables say themselves.

    What time cut may be anything. A question without an answer leaves its row open, and the words on the end.
    """
    of = {Path(name).stem: folder / name for name in outputs if name.endswith(".parquet")}
    if SEARCH_ENDS.name not in of:
        return {}
    if Stop.SECONDS in set(read(SEARCH_ENDS, of[SEARCH_ENDS.name])["why"]):
        return dict.fromkeys(of, "its guard of seconds cut it")
    unanswered = read(CALLS, of[CALLS.name])["made_by"].null_count()
    why = f"{unanswered} of its questions had no answer"
    return dict.fromkeys((CALLS.name, SEARCH_ENDS.name), why) if unanswered else {}
