"""From a strategy to a Program: a source in the restricted language, or (for references) a function of ours."""

from collections.abc import Callable
from typing import Any

from overlayccl_core.program import restricted
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.runtime import Parameters
from overlayccl_core.program.tracer import IO, tracing


def trace_source(source: str, function: str, problem: Problem) -> Program:
    """Trace one strategy of a source at a Problem; the source is interpreted, never executed.

    Raises Rejected (with the line) if it is not in the language or not a legal Program, NotApplicable if the
    strategy says so of itself.
    """
    with tracing(problem) as tracer:
        scope = restricted.load(source)
        restricted.call(scope, function, IO(tracer), dict(problem.parameters))
        return tracer.finish()


def trace_function(function: Callable[[IO, Any], None], problem: Problem) -> Program:
    """Trace a function of this package (a Problem's reference, a probe) by running it."""
    with tracing(problem) as tracer:
        function(IO(tracer), _Attributes(problem))
        return tracer.finish()


class _Attributes:
    """A Problem's parameters as attributes."""

    def __init__(self, problem: Problem) -> None:
        self._parameters = Parameters(dict(problem.parameters))

    def __getattr__(self, name: str) -> Any:
        return self._parameters.get(name)
