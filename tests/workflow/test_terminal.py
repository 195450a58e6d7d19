"""The live display in a terminal: it is there while jobs run, and what it took it gives back."""

import os
import pty
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from run_display.handler import KEPT
from tests.workflow.repository import ROOT

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
SNAKEFILE = """
from types import SimpleNamespace
from run_display.handler import show
show(workflow, SimpleNamespace())
rule all:
    input: "waited"
rule wait:
    output: "waited"
    log: "wait.log"
    shell: "sleep {seconds}; touch {{output}}"
"""


class Run:
    """Snakemake in a terminal of its own."""

    def __init__(self, folder: Path, seconds: float) -> None:
        (folder / "Snakefile").write_text(SNAKEFILE.format(seconds=seconds))
        self.terminal, slave = pty.openpty()
        self.before = termios.tcgetattr(self.terminal)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "snakemake", "--cores", "1"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.shown = ""

    def until(self, text: str | None) -> None:
        """Read what is shown until it has a text, or (None) to the end."""
        while text is None or text not in self.shown:
            try:
                self.shown += os.read(self.terminal, 4096).decode()
            except OSError:  # nobody holds the other side any more
                assert text is None, self.shown
                return


@pytest.mark.parametrize("interrupted", [True, False], ids=["Ctrl-C", "to the end"])
def test_a_terminal_is_given_back_as_it_was(tmp_path: Path, interrupted: bool) -> None:
    run = Run(tmp_path, seconds=60 if interrupted else 1)
    run.until("0 of 2 jobs done")
    assert HIDE_CURSOR in run.shown and "wait" in run.shown
    if interrupted:
        os.killpg(run.process.pid, signal.SIGINT)  # what a terminal does at Ctrl-C
    run.until(None)
    assert (run.process.wait(timeout=120) != 0) is interrupted
    assert run.shown.rindex(SHOW_CURSOR) > run.shown.rindex(HIDE_CURSOR)
    assert termios.tcgetattr(run.terminal) == run.before
    last = run.shown[run.shown.rindex(SHOW_CURSOR) :]
    assert "jobs done" not in last  # the live lines are gone
    if interrupted:
        assert run.shown.rstrip().endswith(f"interrupted (wait): {KEPT}")
        assert not any(word in run.shown for word in ("Error", "RuleException", "failed"))
    os.close(run.terminal)
