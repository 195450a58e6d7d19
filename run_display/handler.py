"""Handler from Snakemake's records to the screen.

Until the first job begins, and in dry runs, Snakemake's own output is shown. Then the jobs are shown, and of
Snakemake's records only warnings and errors; its log file has all. Failures are repeated at the end, so they stand
last on the screen. After Ctrl-C nothing has failed: the jobs then running are named.
"""

import atexit
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from snakemake.logging import ColorizingTextHandler, logger
from snakemake_interface_logger_plugins.common import LogEvent

from run_display.board import Board, last_words, was_killed
from run_display.expected import Expectations, name_of
from run_display.screen import LogScreen, Screen, Terminal
from workflow_scripts.causes import again
from workflow_scripts.progress import SHOWN_BY_SNAKEMAKE

INTERRUPTED = "Terminating processes on user request"  # Snakemake's message at Ctrl-C
KEPT = "what was measured so far is kept, and the same command goes on from there"
KILLED = "it was killed (out of memory, a time limit, or `kill`)"
AT_THE_END = ("Complete log", "Elapsed time")  # of Snakemake's messages without a level of warning


def show(workflow: Any, settings: Any) -> None:
    """Show the run of a workflow in place of Snakemake's output; called by the Snakefile.

    Do nothing if Snakemake runs nothing, works for another Snakemake, or has another logger (`--logger`).
    """
    output = workflow.output_settings
    plain = next((one for one in logger.handlers if isinstance(one, ColorizingTextHandler)), None)
    if plain is None or output.dryrun or output.skip_plugin_handlers:
        return
    os.environ[SHOWN_BY_SNAKEMAKE] = "1"
    logger.removeHandler(plain)
    board = Board(expectations=Expectations(workflow, settings))
    logger.addHandler(RunHandler(plain, board, lambda jobid: again(_job(workflow.dag, jobid), workflow)))


def _job(dag: Any, jobid: int) -> Any:
    return next(job for job in dag.jobs if dag.jobid(job) == jobid)


class RunHandler(logging.Handler):
    """Takes the place of Snakemake's own handler, with its filters and its format."""

    def __init__(self, plain: logging.Handler, board: Board, why: Callable[[int], str]) -> None:
        """Begin before the first job; `why` tells, by a beginning job's id, the reason for its rerun."""
        super().__init__(plain.level)
        self.filters = plain.filters
        self.formatter = plain.formatter
        self.plain = plain
        self.board = board
        self.why = why
        self.screen: Screen | None = None  # None before the first job
        self.failed: list[str] = []
        self.interrupted = ""  # the jobs running at Ctrl-C
        atexit.register(self.close)

    def emit(self, record: logging.LogRecord) -> None:
        """Handle one record after the default filter. Errors in here go to logging, and stop no run."""
        try:
            self._follow(getattr(record, "event", None), record)
            if self.screen is None:
                self.plain.emit(record)
            elif str(record.msg).startswith(INTERRUPTED):
                self.interrupted = ", ".join(job.name for job in self.board.running.values()) or "no job ran"
            elif (record.levelno >= logging.WARNING and not self.interrupted) or str(record.msg).startswith(
                AT_THE_END
            ):
                self.screen.write(self.format(record))
        except Exception:
            self.handleError(record)

    def _follow(self, event: LogEvent | None, record: logging.LogRecord) -> None:
        fields = record.__dict__
        match event:
            case LogEvent.RUN_INFO:
                self.board.expectations.left()  # before benchmark files are written anew
                self.board.total = int((fields.get("stats") or {}).get("total", 0))
            case LogEvent.JOB_INFO:
                self._begin()
                if fields["log"]:  # rules without a log, like `all`, only name files
                    name = name_of(fields["rule_name"], fields["wildcards"])
                    self.board.start(fields, name)
                    self._note(f"{name}: begins{self.why(fields['jobid'])}")
            case LogEvent.JOB_FINISHED:
                if ended := self.board.end(fields["job_id"]):
                    self._note(f"{ended[0]}: done in {ended[1]:.0f} s")
            case LogEvent.PROGRESS:
                self.board.done, self.board.total = fields["done"], fields["total"]
            case LogEvent.JOB_ERROR:
                ended = self.board.end(fields["jobid"])
                if self.interrupted:
                    return  # it ended on request
                name = ended[0] if ended else fields["rule_name"]
                why = [last_words(fields["log"])]
                if was_killed(fields["log"]):
                    why.append(f"{KILLED}: {KEPT}")
                self.failed.append("\n".join([f"{name} failed, and this is why:", *filter(None, why)]))
            case _:
                pass

    def _begin(self) -> None:
        if self.screen is None:
            terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
            self.screen = Terminal(self.board.lines) if terminal else LogScreen(self.board.lines)
            self.screen.begin()

    def _note(self, text: str) -> None:
        if self.screen is not None:
            self.screen.note(text)

    def close(self) -> None:
        """Give the screen back; failures are its last lines."""
        if self.screen is not None:
            self.screen.end()
            for text in self.failed:
                self.screen.write(f"\n{text}")
            if self.interrupted:
                self.screen.write(f"\ninterrupted ({self.interrupted}): {KEPT}")
        self.screen = None
        super().close()
