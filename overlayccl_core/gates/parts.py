"""Several parts of the data (tokens, heads) in one output of a nonlinear Program.

No data shows this well: a term that is 0 in every draw may be anything else. So it is read off the Program. An
output with a row for each part is made of that part alone; an output of all parts is the mean of such an output.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.program.arithmetics import PRIME, Array, Modular, is_max
from overlayccl_core.program.attention import OPERATIONS
from overlayccl_core.program.facts import value_numbers
from overlayccl_core.program.kinds import DType, Kind
from overlayccl_core.program.meaning import RankData, evaluate
from overlayccl_core.program.nodes import Node, Outputs, Port, Replacement, make_input, topological
from overlayccl_core.program.problem import Nonlinear, Problem, port_text
from overlayccl_core.program.program import Program
from overlayccl_core.program.rowwise import Form
from overlayccl_core.program.substitution import substitute

Ints = NDArray[np.int64]

_FIRST, _SEVERAL = 1, -1  # owners: of the first part, of several; 0: of none
_TRIALS = 2


def joined_wrongly(program: Program, brought: Nonlinear, random: np.random.Generator) -> str:
    """Describe an output with a forbidden join of several parts, and the remedy; empty: there is none."""
    count = max(brought.parts.values())
    for port, value in _owners(program, brought).items():
        if port in brought.parts:
            rows = value.data.reshape(len(value.data), count, -1)
            strange = ((rows != 0) & (rows != _FIRST + np.arange(count)[:, None])).any((0, 2))
            if strange.any():
                return (
                    f"{port_text(port)}: row {strange.argmax()} of {count} is made of other rows' data, too: "
                    "compute each of its own data alone"
                )
    for port, of in brought.means.items():
        if not _is_mean(program, port, of, random):
            return (
                f"{port_text(port)}: it is not the mean of what {port_text(of)} has, as written: add those up, and "
                "scale the sum"
            )
    return ""


def _is_mean(program: Program, port: Port, of: Port, random: np.random.Generator) -> bool:
    """Tell whether an output is the mean of another, for any results of its nonlinear operations.

    Random values replace these results: by the lemma of Schwartz and Zippel a wrong output passes two trials with a
    probability below 2^-60.
    """
    ranks = program.problem.ranks
    outputs, numbers = _linear_end({name: program.outputs[name] for name in (port, of)}, program.problem)
    for _ in range(_TRIALS):
        inputs = {
            x.port: random.integers(PRIME, size=(ranks, x.size))[numbers[x.port]]
            for x in topological(outputs.values())
            if x.kind is Kind.INPUT
        }
        held, _ = evaluate(outputs, inputs, _Residues(), ranks)
        total = held[of].on_all().sum(1)
        if ((held[port].on_all()[:, 0] * program.problem.outputs[of].size - total) % PRIME).any():
            return False
    return True


def _linear_end(outputs: Outputs, problem: Problem) -> tuple[Outputs, dict[Port, Ints]]:
    """Replace nonlinear nodes by inputs; number each input's values by rank, equal where ranks hold the same."""
    nodes = [x for x in topological(outputs.values()) if x.kind is Kind.INPUT or _is_opaque(x)]
    numbers: dict[Port, Ints] = {}
    replacements: dict[Node, Replacement] = {}
    for number, node in enumerate(nodes):
        port = ("opaque", number)
        numbers[port] = value_numbers(node, problem.ranks)
        put = make_input(port, equal=False, size=node.size, dtype=node.dtype)
        replacements[node] = lambda go, put=put: put  # type: ignore[misc]
    return substitute(outputs, replacements), numbers


def _is_opaque(node: Node) -> bool:
    return is_max(node) or (node.kind is Kind.ROWWISE and not node.row.operation.linear)


class _Residues(Modular):
    """Residues, with the linear operations on rows."""

    def rowwise(self, operands: list[Array], first: Ints, node: Node) -> Array:
        """Evaluate a linear operation; inputs replaced the others."""
        made = node.row.operation.meaning(*node.row.rows(operands))
        return made.reshape(len(made), -1) % PRIME


def _owners(program: Program, brought: Nonlinear) -> Mapping[Port, RankData]:
    """Return the part behind each element of each output."""
    inputs = {}
    for port, spec in program.problem.inputs.items():
        count = brought.parts.get(port)
        owner = np.zeros(1, np.int32) if count is None else _FIRST + np.arange(count, dtype=np.int32)
        inputs[port] = np.repeat(owner, spec.size // len(owner))[None]
    return evaluate(program.outputs, inputs, _Owners(), program.problem.ranks)[0]


class _Owners:
    """Arithmetic of owners: an element is made of no part, of one, or of several."""

    def dtype(self, node_dtype: DType) -> Any:
        return np.int32

    def scale(self, data: Array, node: Node) -> Array:
        return data

    def cast(self, data: Array, node: Node) -> Array:
        """Keep the owners."""
        return data

    def add_blocks(self, data: Array, node: Node) -> Array:
        """Join the owners of all blocks."""
        return _owner(data.reshape(len(data), node.count, node.size), 1)

    def combine(self, data: Array, members: Ints, node: Node) -> Array:
        """Join the owners of all members."""
        return np.stack([_owner(data[np.unique(some)], 0) for some in members])

    def rowwise(self, operands: list[Array], first: Ints, node: Node) -> Array:
        """Join the owners of all operands, over whole rows if an element is made of a row."""
        if node.row.operation.form is Form.HEADS:
            made = _of_heads(operands, node)
            return np.broadcast_to(made, (max(len(made), len(first)), node.size))
        rows = node.row.rows(operands)
        if node.row.operation.form in (Form.REDUCE, Form.PICK):
            rows = [_owner(x, -1)[..., None] for x in rows]
        elif node.row.operation.form is Form.ONE_HOT:
            rows = [np.repeat(x, node.row.width, -1) for x in rows]
        made = _joined(rows)
        return np.broadcast_to(made.reshape(len(made), -1), (max(len(made), len(first)), node.size))


def _of_heads(operands: list[Array], node: Node) -> Array:
    """Return the owners of attention: a head is made of its own operands, and without keys each query is."""
    of, operation = node.row.heads_of([x.shape[1] for x in operands]), OPERATIONS[node.row.name]
    count = of.heads * (1 if "k" in operation.operands else of.queries)
    made = _joined([_owner(x.reshape(len(x), count, -1), -1) for x in operands])
    return np.concatenate([np.repeat(made, prod(of.shape(x)) // count, 1) for x in operation.results], 1)


def _joined(operands: list[Array]) -> Array:
    made, *others = operands
    for other in others:
        both = np.where(other == 0, made, np.where(made == 0, other, _SEVERAL))
        made = np.where(made == other, made, both)
    return made


def _owner(x: Array, axis: int) -> Array:
    """Return the one part among these, or _SEVERAL."""
    high, low = x.max(axis), x.min(axis)
    if (high != low).any():
        low = np.where(x == 0, np.expand_dims(high, axis), x).min(axis)
    owner: Array = np.where(high == low, high, _SEVERAL)
    return owner
