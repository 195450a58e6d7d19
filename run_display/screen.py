"""Output of lines: above a live display in a terminal; else one after another, with progress every 30 s."""

import os
import sys
import threading
from collections.abc import Callable
from datetime import datetime

from rich.ansi import AnsiDecoder
from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

EVERY_S = 30.0
A_SECOND = 2
ERROR_FD, OUT_FD = 2, 1


class LogScreen:
    """Screen for logs and pipes."""

    def __init__(self, lines: Callable[[], list[str]], *, every_s: float = EVERY_S) -> None:
        self._lines = lines
        self._every_s = every_s
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Begin to print progress."""
        self._thread = threading.Thread(target=self._repeat, daemon=True)
        self._thread.start()

    def write(self, text: str) -> None:
        """Print lines to stay."""
        print(text, file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        """Print lines with the time of day."""
        self.write(f"[{datetime.now():%H:%M:%S}] {text}")

    def end(self) -> None:
        """Stop printing progress."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _repeat(self) -> None:
        while not self._ended.wait(self._every_s):
            for line in self._lines():
                self.note(" ".join(line.split()))


class Terminal:
    """A live line for each job at the bottom of a terminal, everything else above it.

    While it is live, a pipe takes standard error (and standard output, if it is the terminal) of this process and
    its children. Their lines are printed above the live lines, not into them.
    """

    def __init__(self, lines: Callable[[], list[str]]) -> None:
        self._lines = lines
        self._live: Live | None = None
        self._saved: dict[int, int] = {}
        self._reader: threading.Thread | None = None

    def begin(self) -> None:
        """Take the terminal."""
        captured = [ERROR_FD, *([OUT_FD] if os.isatty(OUT_FD) else [])]
        self._flush()
        self._saved = {fd: os.dup(fd) for fd in captured}
        console = Console(file=os.fdopen(os.dup(self._saved[ERROR_FD]), "w"), soft_wrap=True)
        receiving, sending = os.pipe()
        for fd in captured:
            os.dup2(sending, fd)
        os.close(sending)
        os.environ.setdefault("COLUMNS", str(console.width))
        if "NO_COLOR" not in os.environ:
            os.environ.setdefault("FORCE_COLOR", "1")
        self._live = Live(
            console=console,
            get_renderable=self._picture,
            refresh_per_second=A_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()
        self._reader = threading.Thread(target=self._pass_on, args=(receiving,), daemon=True)
        self._reader.start()

    def write(self, text: str) -> None:
        """Print above the live lines."""
        if self._live is None:
            print(text, file=sys.stderr, flush=True)
        else:
            self._live.console.print(Text.from_ansi(text))

    def note(self, text: str) -> None:
        """Do nothing: the live lines show it."""

    def end(self) -> None:
        """Give the terminal back."""
        if self._live is None:
            return
        self._flush()
        for fd, saved in self._saved.items():
            os.dup2(saved, fd)
            os.close(saved)
        if self._reader is not None:
            self._reader.join(timeout=1.0)  # a surviving process may still hold the pipe
        self._live.stop()
        self._live = None

    def _pass_on(self, receiving: int) -> None:
        decoder = AnsiDecoder()
        with os.fdopen(receiving, errors="replace") as pipe:
            for line in pipe:
                if self._live is not None:
                    self._live.console.print(decoder.decode_line(line.rstrip("\n")))

    def _picture(self) -> RenderableType:
        return Text("\n".join(self._lines()), no_wrap=True, overflow="ellipsis")

    def _flush(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()


Screen = LogScreen | Terminal
