"""Independent parts of a proof: outputs without a common input, one of each shape.

Layers equal up to names are one component: sixteen cost as much as one. Labels do not change a value and are
dropped first.
"""

import hashlib

from overlayccl_core.program.atoms import AtomPair, Valid
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.nodes import Node, Outputs, Port, topological
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.substitution import without_labels


def components(program: Program, reference: Program) -> list[AtomPair]:
    """Return the distinct parts of (program, reference) over disjoint inputs, each with the ports of its first."""
    ours, theirs = without_labels(program.outputs), without_labels(reference.outputs)
    distinct: dict[object, AtomPair] = {}
    for ports in _connected(ours, theirs):
        pair = AtomPair.of(program.problem, {p: ours[p] for p in ports}, {p: theirs[p] for p in ports})
        distinct.setdefault(form_of(pair, program.problem), pair)
    return list(distinct.values())


def form_of(pair: AtomPair, problem: Problem) -> object:
    """Return a key, equal for pairs that differ in port names only: a proof of one holds for both."""
    shape = _shape_of([*pair.outputs.values(), *pair.wanted.values()])
    outputs = tuple((_counts(pair.valid_outputs, p), problem.outputs[p].placement) for p in pair.outputs)
    inputs = tuple(_counts(pair.valid_inputs, p) for p in pair.inputs)
    return shape, outputs, inputs


def _counts(valid: Valid, port: Port) -> bytes | None:
    return valid[port].tobytes() if port in valid else None


def _connected(ours: Outputs, theirs: Outputs) -> list[list[Port]]:
    """Group the output ports in parts without a common input."""
    part_of_input: dict[Port, int] = {}
    parts: dict[int, list[Port]] = {}
    inputs_of: dict[int, list[Port]] = {}
    for number, port in enumerate(ours):
        used = [x.port for x in topological([ours[port], theirs[port]]) if x.kind is Kind.INPUT]
        merged = sorted({part_of_input[p] for p in used if p in part_of_input})
        parts[number] = [q for part in merged for q in parts.pop(part)] + [port]
        inputs_of[number] = [q for part in merged for q in inputs_of.pop(part)] + used
        part_of_input.update(dict.fromkeys(inputs_of[number], number))
    return list(parts.values())


def _shape_of(roots: list[Node]) -> bytes:
    """Digest the graph without the names of the inputs, but with their order of first use."""
    order = topological(roots)
    number = {x: i for i, x in enumerate(order)}
    h = hashlib.blake2b(digest_size=16)
    for x in order:
        h.update(f"{x.kind.value};{x.size};{x.dtype.value};{[number[y] for y in x.operands]};".encode())
        h.update(repr(x.attr.equal).encode() if x.kind is Kind.INPUT else x.key)
    h.update(repr([number[x] for x in roots]).encode())
    return h.digest()
