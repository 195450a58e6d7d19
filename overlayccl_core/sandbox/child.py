"""Process tracing one source: it reads the question, confines itself, traces, writes the answer.

On stdin: a JSON object `{source, function, problem, limits, ways}`. On stdout: a line, CONFINED or the reason
against it; then a JSON object with one of `program`, `rejected` (with `line`), `not_applicable`. All imports of
tracing come first, and `ways` brings the files of ways: afterwards no file can be opened.
"""

import json
import os
import sys
from typing import Any

import numpy.ma

from overlayccl_core.program.json_form import to_json
from overlayccl_core.program.kinds import NotApplicable, Rejected
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.problem_json import problem_from_json
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.sandbox.confine import CannotConfine, Limits, confine

CONFINED = "confined"
NEEDED_LATER = (numpy.ma,)  # by numpy.unique


def main() -> None:
    """Answer one question. End the process at once: the filter could refuse any clean-up."""
    asked = json.load(sys.stdin)
    problem = problem_from_json(asked["problem"])
    try:
        confine(Limits(**asked["limits"]))
    except CannotConfine as error:
        _say(" ".join(str(error).split()))
        return
    _say(CONFINED)
    try:
        answer = _traced(asked["source"], asked["function"], problem, asked["ways"])
        _say(json.dumps(answer, separators=(",", ":")))
    except MemoryError:
        _say(json.dumps({"rejected": "the strategy takes too much memory: make less", "line": None}))
    os._exit(0)


def _traced(source: str, function: str, problem: Problem, ways: dict[str, list[str]]) -> dict[str, Any]:
    def ways_of(name: str) -> tuple[str, ...]:
        if name not in ways:
            raise Rejected(f"there are no ways {name!r}: there are {', '.join(ways)}")
        return tuple(ways[name])

    try:
        return {"program": to_json(trace_source(source, function, problem, ways_of))}
    except Rejected as error:
        return {"rejected": error.args[0], "line": error.line}
    except NotApplicable as reason:
        return {"not_applicable": str(reason)}
    except MemoryError:
        raise
    except Exception as error:  # a hole in the language, or a limit: no Program in any case
        return {"rejected": f"tracing failed: {type(error).__name__}: {error}", "line": None}


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
