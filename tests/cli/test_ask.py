"""`overlayccl ask`: what would be sent is shown whole, and nothing is sent before it is asked for."""

import json
import sys
from pathlib import Path

import pytest
import yaml

from overlayccl_core.asking.record import FOLDER
from tests.cli.repository import REPOSITORY, Call

ANSWERS = f"{sys.executable} {REPOSITORY / 'examples/answer.py'}"


@pytest.fixture
def asking(root: Path, tmp_path: Path) -> Path:
    """A search that is answered by the example's program, which leaves a mark when it is started."""
    mark = tmp_path / "started"
    fields = yaml.safe_load((REPOSITORY / "config/searches/command.yaml").read_text())
    fields["command"] = f"sh -c 'touch {mark}; exec {ANSWERS}'"
    (root / "config/searches/marked.yaml").write_text(yaml.safe_dump(fields))
    return mark


def test_a_dry_run_shows_the_question_and_its_price_and_sends_nothing(call: Call, asking: Path) -> None:
    done = call("ask", "--problem", "uniform_a2a", "--search", "marked", "--dry-run")
    assert done.code == 0 and not done.err
    for told in ("# The Problem: uniform_a2a at", "all_reduce(x", "Name 5 strategies"):
        assert told in done.out, told
    assert "Nothing was sent." in done.words and "its own price" in done.words
    assert not asking.exists()


def test_a_dry_run_for_claude_needs_no_key_and_tells_dated_dollars(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    done = call("ask", "--problem", "uniform_a2a", "--dry-run")
    assert done.code == 0 and "USD (prices of 20" in done.words and "Nothing was sent." in done.words
    asked = call("ask", "--problem", "uniform_a2a")
    assert asked.code != 0 and "ANTHROPIC_API_KEY" in asked.err and "What leaves" in asked.out


def test_an_answer_is_printed_and_kept_where_the_search_looks_for_it(
    call: Call, asking: Path, root: Path
) -> None:
    done = call("ask", "--problem", "uniform_a2a", "--search", "marked")
    assert done.code == 0 and asking.exists()
    assert '"name": "bruck"' in done.out
    assert "Answered by sketches" in done.words and "price is not known" in done.words
    [kept] = root.glob(f"results/local/problems/uniform_a2a/search/marked/{FOLDER}/*.json")
    assert json.loads(kept.read_text())["answer"]["made_by"] == "scripted"
    asking.unlink()
    again = call("ask", "--problem", "uniform_a2a", "--search", "marked")
    assert "Known already by sketches" in again.words and not asking.exists()


def test_in_an_unpacked_archive_no_program_runs_that_was_not_typed(
    call: Call, asking: Path, root: Path
) -> None:
    said = root / "archive.json"
    said.write_text("{}")
    try:
        done = call("ask", "--problem", "uniform_a2a", "--search", "marked")
        assert done.code == 2 and "this is an archive" in done.err and "touch" in done.err
        done = call("ask", "--problem", "uniform_a2a", "--search", "marked", "--command", ANSWERS)
        assert done.code == 0 and "by sketches" in done.words
    finally:
        said.unlink()
    assert not asking.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--problem", "grad_ar", "--search", "offline"), "offline asks nobody"),
        (("--problem", "grad_arr"), "did you mean 'grad_ar'?"),
        (("--problem", "grad_ar", "--search", "cloude"), "no search 'cloude': "),
    ],
)
def test_wrong_input_is_one_message(call: Call, arguments: tuple[str, ...], said: str) -> None:
    done = call("ask", *arguments, "--dry-run")
    assert done.code == 2 and said in " ".join(done.err.split()) and not done.out


def test_nobody_who_answers_is_one_message_and_exit_1(call: Call, root: Path) -> None:
    fields = yaml.safe_load((REPOSITORY / "config/searches/command.yaml").read_text())
    (root / "config/searches/silent.yaml").write_text(yaml.safe_dump(fields | {"command": "false"}))
    done = call("ask", "--problem", "uniform_a2a", "--search", "silent")
    assert done.code == 1 and "No answer: " in done.words
