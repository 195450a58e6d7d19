"""A record comes back as it was written, or is refused by name; two runs at once leave whole files."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from overlayccl_core.asking.conversation import Answer, ReplyOutcome, Stop, ToolCall, Usage
from overlayccl_core.asking.record import FOLDER, CallRecord, Records, read, spent
from tests.asking.requests import Told, ledger, request

ANSWER = Answer(
    text="Größe \\ud800 \x00",
    calls=(ToolCall(id="1", name="probe", input={"deep": [{"n": None}], "x": 1.5}),),
    stop=Stop.TOOL_CALLS,
    usage=Usage(input=1, output=2, cache_read=3, cache_write=4),
    model="dear",
    opaque=({"type": "thinking", "signature": "abc"},),
)


def record(tree: Path) -> tuple[Path, CallRecord]:
    ledger(Told([ANSWER]), tree).ask(request(), purpose="sketch", style="enumerate")
    (file,) = (tree / "a" / FOLDER).iterdir()
    return file, read(file)


def test_an_answer_comes_back_as_it_was(tmp_path: Path) -> None:
    _, kept = record(tmp_path)
    assert kept.answer == ANSWER and kept.usage == ANSWER.usage and kept.seconds == 1.0
    assert (kept.purpose, kept.style, kept.outcome) == ("sketch", "enumerate", Stop.TOOL_CALLS)


def test_equal_records_are_equal_files(tmp_path: Path) -> None:
    (one, _), (other, _) = record(tmp_path / "x"), record(tmp_path / "y")
    assert one.name == other.name and one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": "overlayccl call 0"}, "format must be"),
        ({"digest": "0" * 64}, "digests are not those"),
        ({"request": {}}, "digests are not those"),
        ({"outcome": "lost"}, "do not go together"),
        ({"usd": -1.0}, "usd must be a number"),
        ({"outcome": "perfect"}, "outcome"),
        ({"answer": {"text": 5}}, "answer.text"),
        ({"usd": "free"}, "usd"),
    ],
)
def test_what_is_no_record_is_refused_by_name(tmp_path: Path, change: dict[str, object], said: str) -> None:
    file, _ = record(tmp_path)
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(ValueError) as error:
        read(file)
    assert str(file) in str(error.value) and said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", b"null"])
def test_what_is_no_json_is_refused_by_name(tmp_path: Path, data: bytes) -> None:
    file, _ = record(tmp_path)
    file.write_bytes(data)
    with pytest.raises(ValueError, match="is no record of a call"):
        list(Records(file.parent).answered())


def test_a_record_under_another_name_answers_nothing(tmp_path: Path) -> None:
    file, _ = record(tmp_path)
    other = "0" * 64
    file.rename(file.with_name(f"{other}.json"))
    with pytest.raises(ValueError, match="of another request"):
        Records(file.parent).find(other)


def test_reservations_of_two_runs_are_two_files(tmp_path: Path) -> None:
    _, kept = record(tmp_path)
    asked = replace(kept, outcome=ReplyOutcome.ASKED, answer=None, usd=0.5)
    records = Records(tmp_path / "b" / FOLDER)
    first, second = records.reserve(asked), records.reserve(asked)
    assert first != second and spent(tmp_path / "b") == 1.0
    records.settle(first, kept)
    records.settle(second, replace(asked, usd=0.25))
    assert records.find(kept.digest) == kept
    assert spent(tmp_path / "b") == pytest.approx(0.25 + (kept.usd or 0.0))


def test_only_records_below_their_folders_count(tmp_path: Path) -> None:
    record(tmp_path)
    (tmp_path / "a" / "other.json").write_text("{}")
    assert spent(tmp_path) > 0 and spent(tmp_path / "none") == 0
