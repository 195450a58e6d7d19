"""Any program as a language model: JSON request on its standard input, answer on its standard output."""

import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import Any, Literal

from pydantic import Field

from overlayccl_core.asking.clean import cleaned, one_line, secrets
from overlayccl_core.asking.conversation import (
    Answer,
    MadeBy,
    NoAnswer,
    ReplyOutcome,
    Request,
    Stop,
    ToolCall,
    Usage,
)
from overlayccl_core.configuration.fields import Fields
from overlayccl_core.loader import SAFE_PATH

LONGEST_BYTES = 4 << 20  # of an answer: ten times a model's longest
MOST_TOKENS = 10**12  # of a call: more is no count, and fits no table
_POLL_S = 0.05  # between checks whether a silent program has ended


class _Call(Fields):
    """A call of a tool."""

    name: str
    input: dict[str, Any]


class _Tokens(Fields):
    """Tokens of the call; they cost money if the model has a price."""

    input: int = Field(default=0, ge=0, le=MOST_TOKENS)
    output: int = Field(default=0, ge=0, le=MOST_TOKENS)
    cache_read: int = Field(default=0, ge=0, le=MOST_TOKENS)
    cache_write: int = Field(default=0, ge=0, le=MOST_TOKENS)


class _Said(Fields):
    """The fields of a program's answer, in place of plain text."""

    text: str = ""
    tool_calls: tuple[_Call, ...] = Field(default=(), description='a list of {"name": ..., "input": {...}}')
    usage: _Tokens | None = Field(default=None, description="tokens: input, output, cache_read, cache_write")
    model: str = ""
    made_by: Literal["scripted", "model", "command"] = Field(
        default="command",
        description='"scripted" for answers of a script or a person, "model" for a model\'s',
    )


@dataclass(frozen=True, slots=True)
class Command:
    """A LanguageModel: starts a program for every request.

    Standard input is one JSON object: `Request.to_json()` and the `purpose`. Standard output, in UTF-8, is the
    answer's text, or an object with some of the fields `text`, `tool_calls`, `usage`, `model` and `made_by` and no
    other. The program has this process's environment and its own process group; the whole group is killed when the
    program ends or exceeds `seconds`.

    Attributes:
        words: The program and its arguments.
    """

    words: Sequence[str]
    seconds: float
    recorded: bool = False

    def answer(self, request: Request, *, purpose: str) -> Answer:
        """Return the program's answer, or raise NoAnswer with the failure and its fix."""
        hidden = secrets()
        said = self._output(json.dumps(request.to_json() | {"purpose": purpose}).encode(), hidden)
        try:
            text = said.decode().strip()
        except UnicodeDecodeError as error:
            raise self._failed(f"does not write UTF-8 (byte {error.start}): let it write UTF-8") from None
        try:
            return _answer(_said(text, hidden), request)
        except (ValueError, RecursionError) as error:
            raise self._failed(
                f"writes no answer ({one_line(error, hidden)})", ReplyOutcome.MALFORMED
            ) from None

    def _output(self, given: bytes, hidden: Iterable[str]) -> bytes:
        """Return the program's output, if it ends well and in time."""
        with TemporaryFile() as stdin:
            stdin.write(given)
            stdin.seek(0)
            try:
                process = subprocess.Popen(
                    list(self.words),
                    # SAFE_PATH is for a run's jobs; this program may import its neighbours
                    env={name: value for name, value in os.environ.items() if name != SAFE_PATH},
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                said = f"cannot be started ({one_line(error, hidden)}): name a program that is there"
                raise self._failed(said, final=True) from None
        with process:
            try:
                output, errors = self._both(process)
            finally:
                _end(process)
        if process.returncode:
            last = one_line(errors.decode(errors="replace").strip().rpartition("\n")[2], hidden)
            raise self._failed(
                f"ends with {process.returncode} ({last or 'and says nothing'}): run it by hand"
            )
        return output

    def _both(self, process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
        """Collect both outputs until the program ends, even if its children hold them open."""
        output, errors = bytearray(), bytearray()
        end = time.monotonic() + self.seconds
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ, output)  # type: ignore[arg-type]
            ready.register(process.stderr, selectors.EVENT_READ, errors)  # type: ignore[arg-type]
            ended = False
            while ready.get_map() or not ended:
                some = ready.select(_POLL_S)
                if ended and not some:
                    break
                for key, _ in some:
                    chunk = os.read(key.fd, 1 << 16)
                    key.data.extend(chunk)
                    if not chunk:
                        ready.unregister(key.fileobj)
                if len(output) > LONGEST_BYTES:
                    raise self._failed(
                        f"writes more than {LONGEST_BYTES >> 20} MiB: let it write the answer alone"
                    )
                del errors[:-LONGEST_BYTES]
                ended = process.poll() is not None
                if time.monotonic() > end:
                    if ended:
                        break
                    raise self._failed(f"takes longer than {self.seconds:g} s: give it more seconds")
        return bytes(output), bytes(errors)

    def _failed(
        self, said: str, outcome: ReplyOutcome = ReplyOutcome.FAILED, *, final: bool = False
    ) -> NoAnswer:
        words = one_line(" ".join(self.words), secrets())
        return NoAnswer(f"command {words!r} {said}", outcome=outcome, final=final)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill all remaining processes of its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _said(text: str, hidden: Iterable[str]) -> _Said:
    """Parse an object of known fields, else keep the text. ValueError: a field is wrong."""
    data: object = None
    if text.startswith("{"):
        try:
            data = json.loads(text)
        except ValueError:
            data = None
    if isinstance(data, dict) and data and set(data) <= set(_Said.model_fields):
        return _Said.from_data(cleaned(data, hidden))
    return _Said(text=cleaned(text, hidden))


def _answer(said: _Said, request: Request) -> Answer:
    calls = tuple(
        ToolCall(id=f"{request.digest[:8]}-{number}", name=call.name, input=call.input)
        for number, call in enumerate(said.tool_calls)
    )
    return Answer(
        text=said.text,
        calls=calls,
        stop=Stop.TOOL_CALLS if calls else Stop.END,
        usage=None if said.usage is None else Usage(**dict(said.usage)),
        model=said.model,
        made_by=MadeBy(said.made_by),
    )
