"""Recorded answers are found by what is said; a miss says which request it is and how to record it."""

from dataclasses import replace
from pathlib import Path

import pytest

from overlayccl_core.asking.conversation import Answer, MadeBy, NoAnswer, ReplyOutcome, Request
from overlayccl_core.asking.record import FOLDER
from overlayccl_core.asking.replay import Replay
from tests.asking.requests import YES, Told, ledger, request


def recorded(tree: Path, *pairs: tuple[Request, Answer]) -> Path:
    for what, answer in pairs:
        ledger(Told([answer]), tree).ask(what, purpose="sketch", style="enumerate")
    return tree / "a" / FOLDER


def test_an_answer_is_found_whoever_was_asked(tmp_path: Path) -> None:
    scripted = replace(YES, made_by=MadeBy.SCRIPTED)
    folder = recorded(tmp_path, (request(), scripted))
    assert Replay(folder).answer(request(model="other", max_tokens=5), purpose="sketch") == scripted


def test_an_answer_is_found_anywhere_in_a_tree_of_results(tmp_path: Path) -> None:
    recorded(tmp_path, (request(), YES))
    for elsewhere in (tmp_path, tmp_path / "a"):
        (elsewhere / "theta.sidecar.json").write_text('{"host": "no answer"}')
    assert Replay(tmp_path).answer(request(model="other"), purpose="sketch") == YES


def test_of_several_that_of_the_very_request_is_taken_else_always_the_same(tmp_path: Path) -> None:
    asked = [request(model=name) for name in ("a", "b", "c")]
    folder = recorded(tmp_path, *((what, Answer(text=what.model)) for what in asked))
    for what in asked:
        assert Replay(folder).answer(what, purpose="sketch").text == what.model
    others = {Replay(folder).answer(request(model="d"), purpose="sketch").text for _ in range(3)}
    assert others == {min(asked, key=lambda what: what.digest).model}


def test_a_miss_says_which_request_and_how_to_record_it(tmp_path: Path) -> None:
    folder = recorded(tmp_path, (request(), YES))
    missing = request("Reduce waits.\nMore of it.")
    with pytest.raises(NoAnswer) as error:
        Replay(folder).answer(missing, purpose="refine")
    said = str(error.value)
    assert error.value.outcome is ReplyOutcome.NOT_RECORDED and not error.value.final
    assert (
        missing.prompt_digest[:12] in said and "refine: 'Reduce waits.'" in said and "proposer=claude" in said
    )


def test_a_folder_that_is_not_there_ends_all(tmp_path: Path) -> None:
    with pytest.raises(NoAnswer, match="there is no folder") as error:
        Replay(tmp_path / "none").answer(request(), purpose="sketch")
    assert error.value.final


def test_a_call_without_an_answer_is_not_replayed(tmp_path: Path) -> None:
    lost = Told([NoAnswer("lost", outcome=ReplyOutcome.LOST)])
    with pytest.raises(NoAnswer):
        ledger(lost, tmp_path).ask(request(), purpose="sketch", style="enumerate")
    with pytest.raises(NoAnswer) as error:
        Replay(tmp_path / "a" / FOLDER).answer(request(), purpose="sketch")
    assert error.value.outcome is ReplyOutcome.NOT_RECORDED


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    folder = recorded(tmp_path, (request(), YES))
    (folder / "notes.json").write_text('{"text": "mine"}')
    with pytest.raises(NoAnswer, match=r"notes\.json is no record") as error:
        Replay(folder).answer(request(), purpose="sketch")
    assert error.value.final and error.value.outcome is ReplyOutcome.DAMAGED
