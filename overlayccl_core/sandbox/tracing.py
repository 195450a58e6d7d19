"""Tracing of an untrusted source, in a process of its own confined to computing.

It returns data, read as JSON, checked against the schema of Programs and rebuilt with the constructors. So a
hijacked process can at most send another legal Program, and every Program is proven.
"""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import IO

import numpy

import overlayccl_core
from overlayccl_core.program.case import Case
from overlayccl_core.program.json_form import InvalidProgram, from_json
from overlayccl_core.program.kinds import DType, NotApplicable, Rejected
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.problem_json import problem_to_json
from overlayccl_core.program.program import Program
from overlayccl_core.program.ways import all_ways
from overlayccl_core.sandbox import child
from overlayccl_core.sandbox.confine import LIMITS, CannotConfine, Limits

START_S = 120.0  # for the imports, slow on a busy machine; the source runs only after them
CHUNK_BYTES = 2**20

_COMMAND = f"import sys; sys.path += sys.argv[1:]; from {child.__name__} import main; main()"
_PATHS = tuple(str(Path(str(m.__file__)).parents[1]) for m in (overlayccl_core, numpy))
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")  # threads take memory
_ENVIRONMENT = dict.fromkeys(_THREADS, "1")


def trace_confined(source: str, function: str, problem: Problem, *, limits: Limits = LIMITS) -> Program:
    """Return the Program of `trace_source`, from a confined process.

    Raises:
        Rejected: As by `trace_source`; or a limit or a wall stopped the source.
        NotApplicable: As by `trace_source`.
        CannotConfine: This system cannot confine a process (a ValueError).
    """
    asked_of = problem_to_json(problem)
    of_child = {"limits": asdict(limits), "ways": all_ways()}
    asked = {"source": source, "function": function, "problem": asked_of, **of_child}
    return program_of(_answer(json.dumps(asked), limits), problem)


def check() -> None:
    """Raise CannotConfine if no process can be confined here; call it before anything is paid for."""
    case = Case(problem="nothing", ranks=2, ranks_per_node=2, dtype=DType.FLOAT32, name="", parameters=())
    nothing = Problem(case=case, inputs={}, outputs={}, segments=(), parameters={})
    with suppress(Rejected):  # the source is empty
        trace_confined("", "", nothing)


def program_of(answer: bytes, problem: Problem) -> Program:
    """Return the Program in a confined process's answer, of the asked Problem.

    Otherwise raise the answer's exception, or Rejected if it is no answer.
    """
    try:
        data = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise Rejected(f"what traced the strategy gave no JSON: {error}") from None
    match data:
        case {"program": {"problem": of} as written, **more} if not more:
            if of != problem_to_json(problem):
                raise Rejected("what traced the strategy gave a Program of another Problem")
            try:
                events = from_json(written).events
            except InvalidProgram as error:
                raise Rejected(f"what traced the strategy gave no Program: {error}") from None
            return Program(problem, events)
        case {"rejected": str() as message, "line": int() | None as line, **more} if not more:
            raise Rejected(message) if line is None else Rejected(message).at(line)
        case {"not_applicable": str() as reason, **more} if not more:
            raise NotApplicable(reason)
        case _:
            raise Rejected("what traced the strategy gave neither a Program nor a reason")


def _answer(question: str, limits: Limits) -> bytes:
    """Return a confined process's answer to a question."""
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as complaints:
        asked.write(question.encode())
        asked.seek(0)
        with _process(asked, complaints) as process:
            assert process.stdout is not None
            out = process.stdout.fileno()
            confined = f"{child.CONFINED}\n".encode()
            first = _read(out, len(confined), monotonic() + START_S)
            if first != confined:
                why = first + _read(out, CHUNK_BYTES, monotonic() + START_S)
                complaints.seek(0)
                raise CannotConfine(_no_start(why + complaints.read()))
            deadline = monotonic() + limits.wall_s
            answer = _read(out, limits.output_bytes + 1, deadline)
            if len(answer) > limits.output_bytes:
                raise Rejected(f"the Program takes more than {limits.output_bytes} bytes: make a smaller one")
            code = _exit_code(process, deadline)
    if code is None:
        raise Rejected(f"tracing did not end within {limits.wall_s:g} s: compute less")
    if code:
        raise Rejected(_ended_by(code, limits))
    return answer


@contextmanager
def _process(asked: IO[bytes], complaints: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Start the child in an empty folder of its own; kill it at the end in any case."""
    command = [sys.executable, "-I", "-S", "-W", "ignore", "-c", _COMMAND, *_PATHS]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            command, stdin=asked, stdout=subprocess.PIPE, stderr=complaints, cwd=folder, env=_ENVIRONMENT
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def _read(pipe: int, most: int, deadline: float) -> bytes:
    """Read until the pipe is closed, `most` bytes have come or the time is over."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    read = bytearray()
    while len(read) < most and poll.poll(max(0.0, 1000 * (deadline - monotonic()))):
        piece = os.read(pipe, min(CHUNK_BYTES, most - len(read)))
        if not piece:
            break
        read += piece
    return bytes(read)


def _exit_code(process: subprocess.Popen[bytes], deadline: float) -> int | None:
    """Return the exit code; None: it did not end in time."""
    try:
        return process.wait(max(0.0, deadline - monotonic()))
    except subprocess.TimeoutExpired:
        return None


def _ended_by(code: int, limits: Limits) -> str:
    if code == -signal.SIGXCPU:
        return f"tracing takes more than {limits.cpu_s} s of CPU: compute less"
    if code < 0:
        return f"the process that traced the strategy was ended by {signal.Signals(-code).name}"
    return f"the process that traced the strategy ended with code {code} and no answer"


def _no_start(said: bytes) -> str:
    lines = said.decode(errors="replace").strip().splitlines() or ["it said nothing"]
    return f"the process that traces strategies did not start: {lines[-1]}"
