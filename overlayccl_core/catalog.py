"""Problems by name: from a Case to its Problem, its reference Program and its backward."""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import inf
from typing import Any, Protocol

from overlayccl_core import loader
from overlayccl_core.configuration.fields import Fields
from overlayccl_core.program.case import Case, ParameterValue, fewer_ranks, parameters
from overlayccl_core.program.kinds import DType, Rejected
from overlayccl_core.program.library import BACKWARD, read_library
from overlayccl_core.program.problem import Direction, Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.simplify import simplify
from overlayccl_core.program.tracing import trace_function, trace_source
from overlayccl_core.program.transpose import backward_problem, transpose

_SIZE = re.compile(r"[0-9.]+(?:[KMG]i)?B")  # of a payload, in the name of a Case
ALIKE = 1.25  # payloads of one entry at two numbers of ranks differ by less: their counts are rounded


class ProblemPlugIn(Protocol):
    """Definitions of a file in problems/ (problems/README.md)."""

    Entry: type[Fields]
    parameters: Callable[[Any, int, DType], Mapping[str, ParameterValue]]
    name: Callable[[Case], str]
    problem: Callable[[Case], Problem]
    reference: Callable[..., None]
    has_backward: Callable[[Case], bool]
    equals_backward: Callable[[Case], Case | None]
    payload_bytes: Callable[[Case], int]
    bus_factor: Callable[[Case], float]
    proxy: Callable[[Case], Mapping[str, Any]]
    examples: Callable[[int], Mapping[str, Mapping[str, Any]]]


def plug_in(name: str) -> ProblemPlugIn:
    """Return the Problem of a name; ValueError names the known ones."""
    return loader.plug_in(ProblemPlugIn, "problems", name)


def library_source(name: str) -> str:
    """Return the source of a Problem's library of known ways."""
    return loader.source("strategies", name)


def case(
    problem: str,
    entry: Mapping[str, Any],
    *,
    ranks: int,
    ranks_per_node: int,
    groups: int = 1,
    strided: bool = False,
    uniform: bool = False,
    dtype: str = "float32",
) -> Case:
    """Build the Case of one entry of the Problem's own fields, on these ranks. ValueError: field and mend."""
    plugin = plug_in(problem)
    try:
        own = plugin.parameters(plugin.Entry.from_data(entry), ranks, DType(dtype))
    except ValueError as error:
        raise ValueError(f"{problem}: {error}") from None
    unnamed = Case(
        problem=problem,
        ranks=ranks,
        ranks_per_node=ranks_per_node,
        dtype=DType(dtype),
        groups=groups,
        strided=strided,
        uniform=uniform,
        name="",
        parameters=parameters(own),
    )
    return replace(unnamed, name=plugin.name(unnamed))


def build(case: Case) -> Problem:
    """Return the forward Problem at a Case."""
    return plug_in(case.problem).problem(case)


def backward(case: Case) -> Problem | None:
    """Return the backward Problem at a Case; None if there is nothing to do."""
    plugin = plug_in(case.problem)
    if not plugin.has_backward(case):
        return None
    forward = plugin.problem(case)
    return backward_problem(forward) if forward.nonlinear is None else forward.nonlinear.backward


def directions(case: Case) -> tuple[Problem, ...]:
    """Return the forward Problem, and the backward if there is one."""
    back = backward(case)
    return (build(case),) if back is None else (build(case), back)


def in_direction(case: Case, direction: Direction) -> Problem:
    """Return the Problem of a direction at a Case; ValueError if there is nothing to do in it."""
    problem = build(case) if direction is Direction.FORWARD else backward(case)
    if problem is None:
        raise ValueError(f"{case.id} has no backward: nothing has to be exchanged there")
    return problem


def developer_program(problem: Problem) -> Program:
    """Return the Program practitioners write for a library that can do everything.

    For a backward, its simplified transpose, or (not linear) the library's own.
    """
    library = library_source(problem.case.problem)
    if problem.direction is Direction.BACKWARD and not problem.linear:
        return trace_source(library, read_library(library, BACKWARD).developers[0], problem)
    forward = trace_source(library, read_library(library).developers[0], build(problem.case))
    return forward if problem.direction is Direction.FORWARD else simplify(transpose(forward, problem))


def reference_program(problem: Problem) -> Program:
    """Return the Program all others must equal: the traced reference; for a backward, its transpose, or its own."""
    here = build(problem.case)
    if problem.direction is Direction.BACKWARD and here.nonlinear is not None:
        assert here.nonlinear.backward is not None and here.nonlinear.backward_reference is not None
        return _traced(here.nonlinear.backward_reference, here.nonlinear.backward)
    forward = _traced(plug_in(problem.case.problem).reference, here)
    return forward if problem.direction is Direction.FORWARD else transpose(forward, problem)


def _traced(reference: Callable[[Any, Any], None], problem: Problem) -> Program:
    """Trace a reference. ValueError if it is no Program of the Problem, so no strategy is blamed."""
    try:
        return trace_function(reference, problem)
    except Rejected as error:
        where = f"{inspect.getsourcefile(reference)}: {reference.__name__} at {problem.case.id}"
        raise ValueError(f"{where} is no Program of the Problem: {error}") from None


def payload_bytes(case: Case) -> int:
    """Return the S of algbw = S / time: bytes of a rank's data for the whole Program."""
    return plug_in(case.problem).payload_bytes(case)


def bus_factor(case: Case) -> float:
    """Return the factor of busbw = algbw * factor."""
    return plug_in(case.problem).bus_factor(case)


def bandwidths(case: Case, us: float) -> tuple[float, float]:
    """Return algbw, the payload over a time in us, and busbw, in 10^9 bytes a second (1 B/us = 1e-3 GB/s)."""
    algbw = payload_bytes(case) / us / 1e3
    return algbw, algbw * bus_factor(case)


def proxy(large: Case) -> Case | None:
    """Return a small Case for a search in a large one's place; None if it is no smaller."""
    small = case(large.problem, plug_in(large.problem).proxy(large), **fewer_ranks(large))
    return None if replace(small, name=large.name) == large else small


def same_sizes(case: Case, others: Iterable[Case]) -> Case | None:
    """Return the Case with the same sizes on other ranks; None without one.

    Cases of one configuration entry have the same name at any number of ranks, except for its payload where counts
    are rounded to the ranks. The nearest payload counts, up to `ALIKE`. A Case with a digest in its name
    (`Case.told_apart`) is like no other.
    """

    def name(one: Case) -> tuple[str, str, str]:
        return one.problem, _SIZE.sub("", one.name), one.dtype.value

    def times_larger(one: Case) -> float:
        low, high = sorted((payload_bytes(one), payload_bytes(case)))
        return high / low if low else inf

    named = (one for one in others if name(one) == name(case) and times_larger(one) <= ALIKE)
    return min(named, key=lambda one: (one.groups != case.groups, times_larger(one)), default=None)


def case_from_row(row: Mapping[str, Any]) -> Case:
    """Return the Case of one row of the `cases` table."""
    fields = {k: row[k] for k in ("problem", "ranks", "groups", "strided", "uniform", "ranks_per_node")}
    values = {**fields, "dtype": DType(row["dtype"]), "parameters": parameters(json.loads(row["parameters"]))}
    before, after = Case(**values, name="\0").id.split("\0")
    case = Case(**values, name=row["case"].removeprefix(before).removesuffix(after))
    if case.id != row["case"]:
        raise ValueError(
            f"cases table: {row['case']} does not belong to {before}...{after}: run the rule `cases` again"
        )
    return case
