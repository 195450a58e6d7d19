"""A search is made again from recorded answers: no program runs that it names; what was cut need not come again."""

import json
from pathlib import Path
from typing import Any

import pytest

from overlayccl_core.archiving.searched import left_open, without_asking
from overlayccl_core.search.loop import SearchStop
from overlayccl_core.search.proposers import command
from overlayccl_core.tables.calls import CALLS
from overlayccl_core.tables.search_ends import SEARCH_ENDS
from overlayccl_core.tables.table import write

FIELDS = 6  # the place of a search's fields in its command


def told(search: dict[str, object]) -> list[str]:
    search = {"name": "mine", "seconds": 9.0, "repairs": 1} | search
    words = ["python", "-P", "-m", "workflow_scripts.stage", "search"]
    return [*words, "--search", json.dumps(search), "--answers", "results/local/answers"]


def test_a_search_that_asked_is_told_its_recorded_answers_and_no_program_or_vendor(tmp_path: Path) -> None:
    for asked in ({"proposer": "command", "command": "rm -rf ."}, {"proposer": "claude", "claude": {}}):
        words = without_asking(told(asked), tmp_path)
        search = json.loads(words[FIELDS])
        assert search.pop("seconds") > 1e6  # another processor may take longer
        assert search == {
            "name": "mine",
            "repairs": 1,
            "proposer": "replay",
            "answers": "results/local/answers",
        }
        assert words[:FIELDS] + words[FIELDS + 1 :] == told(asked)[:FIELDS] + told(asked)[FIELDS + 1 :]


def test_answers_that_are_not_in_the_archive_are_not_looked_for(tmp_path: Path) -> None:
    for place in ("/etc", "../elsewhere"):
        with pytest.raises(ValueError, match="not in the archive"):
            without_asking(told({"proposer": "replay", "answers": place}), tmp_path)
    words = without_asking(told({"proposer": "replay", "answers": "results/local"}), tmp_path)
    assert json.loads(words[FIELDS])["answers"] == "results/local"


def test_a_search_with_a_desk_of_its_own_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command.Search, "desk", lambda *_: None)
    with pytest.raises(ValueError, match="way of its own"):
        without_asking(told({"proposer": "command", "command": "mine"}), Path())


def test_a_search_that_asks_nobody_and_what_is_no_search_stay() -> None:
    search = json.loads(without_asking(told({"proposer": "offline"}), Path())[FIELDS])
    assert search == {"name": "mine", "repairs": 1, "proposer": "offline"} | {"seconds": search["seconds"]}
    other = ["python", "-P", "-m", "workflow_scripts.stage", "fit"]
    assert without_asking(other, Path()) == other


OUTPUTS = ("calls.parquet", "calls.sidecar.json", "search_ends.parquet", "candidates.parquet")


def row(table: Any, **said: Any) -> dict[str, Any]:
    """Of a table, with what matters."""
    of: dict[Any, Any] = {"String": "forward", "Int64": 0, "Float64": 0.0, "Boolean": False}
    return {one.name: said.get(one.name, of[str(one.dtype)]) for one in table.columns}


@pytest.mark.parametrize(
    ("why", "made_by", "said", "tables"),
    [
        (SearchStop.NO_NEW_ELITE, "model", "", ()),
        (SearchStop.SECONDS, "model", "guard of seconds", ("calls", "candidates", "search_ends")),
        (SearchStop.NO_NEW_ELITE, None, "1 of its questions", ("calls", "search_ends")),
    ],
)
def test_what_time_cut_or_nobody_answered_need_not_come_out_the_same(
    tmp_path: Path, why: SearchStop, made_by: str | None, said: str, tables: tuple[str, ...]
) -> None:
    write(SEARCH_ENDS, [row(SEARCH_ENDS, why=why)], tmp_path / "search_ends.parquet")
    outcome = "end" if made_by else "lost"
    write(CALLS, [row(CALLS, made_by=made_by, outcome=outcome)], tmp_path / "calls.parquet")
    assert {t: said in w for t, w in left_open(tmp_path, OUTPUTS).items()} == dict.fromkeys(tables, True)
    assert not left_open(tmp_path, ("theta.parquet",))
