"""A program that answers, and programs that do anything else."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from overlayccl_core.asking.command import Command
from overlayccl_core.asking.conversation import MadeBy, NoAnswer, ReplyOutcome, Stop, Usage
from overlayccl_core.loader import SAFE_PATH
from tests.asking.requests import request

SECRET = "sk-planted-0123456789abcdef"


def python(code: str, *, seconds: float = 20.0) -> Command:
    return Command((sys.executable, "-c", code), seconds)


def failed(command: Command) -> NoAnswer:
    with pytest.raises(NoAnswer) as error:
        command.answer(request(), purpose="sketch")
    assert "\n" not in str(error.value)
    return error.value


def test_a_program_gets_the_request_and_says_the_answer() -> None:
    code = (
        "import json, sys; said = json.load(sys.stdin); print(said['purpose'], said['messages'][0]['text'])"
    )
    answer = python(code).answer(request("Größe?"), purpose="sketch")
    assert (answer.text, answer.stop, answer.usage) == ("sketch Größe?", Stop.END, None)
    assert answer.made_by is MadeBy.COMMAND


def test_a_program_may_say_more_than_a_text() -> None:
    said = {
        "text": "I probe.",
        "tool_calls": [{"name": "probe", "input": {"n": 1}}, {"name": "probe", "input": {}}],
        "usage": {"input": 5, "output": 6},
        "model": "mine-7b",
        "made_by": "scripted",
    }
    answer = python(f"print({json.dumps(said)!r})").answer(request(), purpose="sketch")
    assert (answer.text, answer.model, answer.made_by) == ("I probe.", "mine-7b", MadeBy.SCRIPTED)
    assert answer.stop is Stop.TOOL_CALLS and answer.usage == Usage(input=5, output=6)
    assert [call.input for call in answer.calls] == [{"n": 1}, {}]
    assert len({call.id for call in answer.calls}) == 2


def test_a_program_may_import_what_lies_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The jobs of a run may not: what tells them so is not handed on."""
    monkeypatch.setenv(SAFE_PATH, "1")
    answer = python("import sys; print(sys.flags.safe_path)").answer(request(), purpose="sketch")
    assert answer.text == "False"


@pytest.mark.parametrize(
    "text", ["", "{", "{}", '{"sketches": []}', '{"text": "a", "other": 1}', "[1]", "null"]
)
def test_what_is_no_object_of_these_fields_is_the_text(text: str) -> None:
    assert python(f"print({text!r})").answer(request(), purpose="sketch").text == text


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ('{"text": 5}', "text: "),
        ('{"tool_calls": [{"name": "probe"}]}', "tool_calls.0.input: must"),
        ('{"usage": {"input": -1}}', "usage.input: "),
        ('{"made_by": "me"}', "made_by: "),
        ('{"tool_calls": [{"name": "a", "input": {"x": NaN}}]}', ""),
        ('{"tool_calls": [{"name": "a", "input": {"x": ' + "[" * 100 + "]" * 100 + "}}]}", "50 levels"),
    ],
)
def test_a_wrong_field_is_named(said: str, message: str) -> None:
    error = failed(python(f"print({said!r})"))
    assert error.outcome is ReplyOutcome.MALFORMED and message in str(error) and not error.final


def test_what_is_no_unicode_is_refused_and_what_cannot_be_written_is_escaped() -> None:
    error = failed(python(r"import sys; sys.stdout.buffer.write(b'ok \xff')"))
    assert error.outcome is ReplyOutcome.FAILED and "UTF-8 (byte 3)" in str(error)
    answer = python(r"""print('{"text": "\\ud800"}')""").answer(request(), purpose="sketch")
    assert answer.text == r"\ud800"


def test_a_program_that_is_not_there_ends_all(tmp_path: Path) -> None:
    for word in ("no-such-program", str(tmp_path), ""):
        error = failed(Command((word,), 5.0))
        assert error.final and error.outcome is ReplyOutcome.FAILED and "name a program" in str(error)


def test_a_program_that_fails_is_quoted() -> None:
    error = failed(python("import sys; print('half'); sys.exit('no such sketch\\nbecause of this')"))
    assert "with 1 (because of this)" in str(error) and not error.final


def starts_a_child(pid: Path, then: str) -> str:
    return (
        "import pathlib, subprocess, time; child = subprocess.Popen(['sleep', '600']); "
        f"pathlib.Path({str(pid)!r}).write_text(str(child.pid)); {then}"
    )


def test_a_program_that_hangs_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    error = failed(python(starts_a_child(pid, "time.sleep(600)"), seconds=3.0))
    assert "takes longer than 3 s" in str(error)
    assert gone(int(pid.read_text()))


def test_what_a_program_leaves_behind_is_killed_and_not_waited_for(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    answer = python(starts_a_child(pid, "print('yes')")).answer(request(), purpose="sketch")
    assert answer.text == "yes" and gone(int(pid.read_text()))


def gone(pid: int) -> bool:
    for _ in range(100):
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_program_that_writes_100_mb_is_stopped_or_not_kept(stream: str) -> None:
    code = f"import sys\nfor _ in range(100): sys.{stream}.write('x' * 1000000)\nsys.exit(1)"
    error = failed(python(code))
    assert ("more than 4 MiB" if stream == "stdout" else "ends with 1 (xxx") in str(error)
    assert len(str(error)) < 1000


def test_a_secret_of_the_environment_is_in_no_answer_and_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_VENDOR_API_KEY", SECRET)
    said = "import os, sys; key = os.environ['OTHER_VENDOR_API_KEY']; "
    answer = python(said + "print(key)").answer(request(), purpose="sketch")
    error = failed(python(said + "sys.exit('401 for ' + key)"))
    assert SECRET not in repr(answer) + str(error)
    assert "401 for [secret removed]" in str(error)
    assert SECRET not in str(failed(Command(("no-such-program", SECRET), 5.0)))
