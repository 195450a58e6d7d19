"""From a strategy to a Program: a source in the restricted language, or (for references) a function of ours."""

from collections.abc import Callable
from typing import Any

from overlayccl_core.program import interpreter
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.recorder import IO, recording
from overlayccl_core.program.scopes import Parameters
from overlayccl_core.program.ways import WaysOf, ways_of


def trace_source(source: str, function: str, problem: Problem, ways: WaysOf = ways_of) -> Program:
    """Trace one strategy of a source at a Problem; the source is interpreted, never executed.

    Args:
        ways: Finds the files of ways imported by the source.
    Raises:
        Rejected: With the line, if the source is not in the language or not a legal Program.
        NotApplicable: The strategy declares it.
    """
    with recording(problem) as recorder:
        scope = interpreter.load(source, ways=ways)
        recorder.parameters = Parameters(dict(problem.parameters))
        interpreter.call(scope, function, IO(recorder), recorder.parameters)
        return recorder.finish()


def trace_function(function: Callable[[IO, Any], None], problem: Problem) -> Program:
    """Trace a function of this package (a Problem's reference, a probe) by running it."""
    with recording(problem) as recorder:
        recorder.parameters = _Attributes(problem)
        function(IO(recorder), recorder.parameters)
        return recorder.finish()


class _Attributes:
    """A Problem's parameters as attributes."""

    def __init__(self, problem: Problem) -> None:
        self._parameters = Parameters(dict(problem.parameters))

    def __getattr__(self, name: str) -> Any:
        return self._parameters.get(name)
