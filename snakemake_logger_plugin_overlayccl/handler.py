"""From Snakemake's records to the screen.

Until the first job begins, and in dry runs, all is shown as Snakemake shows it. Then the jobs are shown, and of
Snakemake's own records the warnings and the errors; all of them are in its log file. What went wrong is said again
at the end, so that it is the last thing on the screen.
"""

import atexit
import logging
import os
import sys

from snakemake.logging import ColorizingTextHandler
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from snakemake_logger_plugin_overlayccl.board import Board, last_words
from snakemake_logger_plugin_overlayccl.expected import Expectations, name_of
from snakemake_logger_plugin_overlayccl.screen import Lines, Screen, Terminal
from workflow_scripts.progress import SHOWN_BY_SNAKEMAKE

AT_THE_END = ("Complete log", "Elapsed time")  # of what Snakemake says in passing


class LogHandler(LogHandlerBase):
    """The handler that Snakemake makes of `--logger overlayccl`."""

    def __post_init__(self) -> None:
        self.board = Board(expectations=Expectations())
        self.screen: Screen | None = None  # as long as no job has begun
        self.failed: list[str] = []
        self.closed = False
        settings = self.common_settings
        stream = sys.stdout if settings.stdout else sys.stderr
        self.plain = ColorizingTextHandler(nocolor=settings.nocolor, stream=stream)
        if not settings.dryrun:
            os.environ[SHOWN_BY_SNAKEMAKE] = "1"
            atexit.register(self.close)

    def emit(self, record: logging.LogRecord) -> None:
        """One record, after the default filter."""
        try:
            self._emit(record)
        except Exception:
            self.handleError(record)

    def _emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "event", None)
        if not self.common_settings.dryrun:
            self._follow(event, record)
        if self.screen is None:
            self.plain.setFormatter(self.formatter)
            self.plain.emit(record)
        elif record.levelno >= logging.WARNING or str(record.msg).startswith(AT_THE_END):
            self.screen.write(self.format(record))

    def _follow(self, event: LogEvent | None, record: logging.LogRecord) -> None:
        fields = record.__dict__
        match event:
            case LogEvent.RUN_INFO:
                self.board.expectations.left()  # before benchmark files are written anew
                self.board.total = int((fields.get("stats") or {}).get("total", 0))
            case LogEvent.JOB_INFO:
                self._begin()
                if fields["log"]:  # what has none, as `all`, only names files
                    name = name_of(fields["rule_name"], fields["wildcards"])
                    self.board.start(fields, name)
                    self._note(f"{name}: begins")
            case LogEvent.JOB_FINISHED:
                if ended := self.board.end(fields["job_id"]):
                    self._note(f"{ended[0]}: done in {ended[1]:.0f} s")
            case LogEvent.PROGRESS:
                self.board.done, self.board.total = fields["done"], fields["total"]
            case LogEvent.JOB_ERROR:
                ended = self.board.end(fields["jobid"])
                name = ended[0] if ended else fields["rule_name"]
                self.failed.append(f"{name} failed, and this is why:\n{last_words(fields['log'])}".rstrip())
            case _:
                pass

    def _begin(self) -> None:
        if self.screen is None:
            terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
            self.screen = Terminal(self.board.lines) if terminal else Lines(self.board.lines)
            self.screen.begin()

    def _note(self, text: str) -> None:
        if self.screen is not None:
            self.screen.note(text)

    def close(self) -> None:
        """Give the screen back; what failed is its last word."""
        if self.screen is not None and not self.closed:
            self.closed = True
            self.screen.end()
            for text in self.failed:
                self.screen.write(f"\n{text}")
        super().close()

    @property
    def writes_to_stream(self) -> bool:
        """Standard error."""
        return True

    @property
    def writes_to_file(self) -> bool:
        """Snakemake keeps its own log file."""
        return False

    @property
    def has_filter(self) -> bool:
        """--quiet and the like are Snakemake's business."""
        return False

    @property
    def has_formatter(self) -> bool:
        """Errors are shown in Snakemake's words."""
        return False

    @property
    def needs_rulegraph(self) -> bool:
        """Not shown."""
        return False
