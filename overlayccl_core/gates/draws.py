"""Inputs of a proof: independent for every rank and port, arbitrary where they are not valid."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.gates.verdict import Check
from overlayccl_core.program.arithmetics import Array
from overlayccl_core.program.meaning import guard
from overlayccl_core.program.nodes import Node, Port
from overlayccl_core.program.problem import Problem

Draw = Callable[[tuple[int, int]], Array]


def drawn_inputs(
    nodes: Mapping[Port, Node], problem: Problem, draw: Draw, checks: frozenset[Check]
) -> dict[Port, Array]:
    """port -> [K, size], K = 1 where all ranks hold the same and N elsewhere."""
    guard(sum((1 if x.attr.equal else problem.ranks) * x.size for x in nodes.values()))
    inputs: dict[Port, Array] = {}
    shared: dict[tuple[int, int], Array] = {}
    for port, x in sorted(nodes.items(), key=lambda item: repr(item[0])):
        shape = (1 if x.attr.equal else problem.ranks, x.size)
        data = draw(shape)
        if Check.INDEPENDENT_PORTS not in checks:
            data = shared.setdefault(shape, data)
        if Check.INDEPENDENT_RANKS not in checks:
            data = np.repeat(data[:1], len(data), 0)
        if Check.INVALID_INPUTS not in checks:
            data = with_invalid(data, problem, port, 0)
        inputs[port] = data
    return inputs


def with_invalid(data: Array, problem: Problem, port: Port, value: float) -> Array:
    """The data with `value` on the ranks where the port is not valid."""
    invalid = invalid_ranks(problem, port)
    if len(invalid) == 0:
        return data
    changed = np.array(np.broadcast_to(data, (problem.ranks, data.shape[1])))
    changed[invalid] = value
    return changed


def invalid_ranks(problem: Problem, port: Port) -> NDArray[np.int64]:
    """The ranks on which an input means nothing."""
    valid = problem.inputs[port].valid_ranks
    return np.setdiff1d(np.arange(problem.ranks), np.arange(problem.ranks) if valid is None else valid)


def compared_ranks(problem: Problem, port: Port, *rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """One rank of each class that agrees in all `rows`, among the ranks where an output means something."""
    valid = problem.outputs[port].valid_ranks
    ranks = np.arange(problem.ranks) if valid is None else np.array(valid)
    _, first = np.unique(np.stack([row[ranks] for row in rows]), axis=1, return_index=True)
    compared: NDArray[np.int64] = ranks[np.sort(first)]
    return compared
