"""The sandbox's process with walls taken away: a source is run as Python runs it, and may do as much as it likes.

Only tests can ask for that: the package has no such switch.
"""

import ctypes  # noqa: F401  what sources import must be loaded before nothing can be opened
import mmap  # noqa: F401
import socket  # noqa: F401
import subprocess  # noqa: F401
import tempfile  # noqa: F401
import threading  # noqa: F401
from typing import Any

from overlayccl_core.program import effort, maps, nodes, recorder
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_function
from overlayccl_core.sandbox import child

ENDLESS = 2**62


def main(*, confined: bool) -> None:
    """What `child.main` does, without the walls `parse` and `fuel`, and without `process` unless confined."""
    child.trace_source = executed
    if not confined:
        child.confine = lambda limits: None
    effort.MAX_EFFORT = maps.MAX_RUNS = recorder.MAX_AXES = ENDLESS
    nodes.MAX_ELEMENTS, nodes.MAX_RATIO_BITS = ENDLESS**2, 10**6
    child.main()


def executed(source: str, function: str, problem: Problem, ways: object) -> Program:
    """The Program of a function of a source that Python itself has run; `ways` are not looked up."""
    names: dict[str, Any] = {}
    exec(source, names)
    return trace_function(names[function], problem)
