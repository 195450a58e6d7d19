"""Texts of strangers in a terminal: what would clear it, name it or turn its letters round is written out."""

from pathlib import Path

import pytest

from overlayccl_core.cli import render
from overlayccl_core.cli.render import console, plain_table, print_line, print_text, say
from tests.cli.repository import Call
from tests.small_problems import strategy

EVIL = "\x1b[2J\x1b]0;mine\x07\r\x9b2J\b\N{RIGHT-TO-LEFT OVERRIDE}\N{ZERO WIDTH SPACE}\N{LINE SEPARATOR}"
SHOWN = "\\x1b[2J\\x1b]0;mine\\x07\\r\\x9b2J\\x08\\u202e\\u200b\\u2028"


def harmless(text: str) -> bool:
    return not set(EVIL) - set("[2J]0;mine") & set(text)


def test_what_is_printed_acts_on_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    table = plain_table(EVIL)
    table.add_column(EVIL, no_wrap=True)
    table.add_row(EVIL)
    render.console.cache_clear()
    print_line(EVIL)
    print_text(EVIL)
    console().print(table, EVIL)
    say(EVIL)
    printed = capsys.readouterr()
    assert harmless(printed.out) and harmless(printed.err)
    assert printed.out.count(SHOWN) == 6 and printed.err == f"{SHOWN}\n"


@pytest.mark.parametrize(
    "line", [f'io.read("{EVIL}")', f'not_applicable("{EVIL}")', f'io.write("{EVIL}", io.read("gradient", 0))']
)
def test_an_error_in_a_strategy_acts_on_no_terminal(line: str, call: Call, tmp_path: Path) -> None:
    file = tmp_path / "theirs.py"
    written = line.encode("unicode_escape").decode()  # as escapes of a text, which Python reads
    file.write_text(strategy(written, "not_applicable"))
    for command in ("trace", "prove"):
        done = call(command, f"{file}::tried", "--problem", "grad_ar")
        assert done.code == 1 and "\\x1b[2J" in done.out + done.err
        assert harmless(done.out) and harmless(done.err)
