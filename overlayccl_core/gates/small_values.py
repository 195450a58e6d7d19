"""Small values for trials on real ranks, in place of large ones.

A linear Program is tried over its atoms. Each atom has some lanes with their own values, and the ranks repeat these
(`program/tiles.py`). The work here and the bytes sent then follow from the Program's cuts of its values, not from
their sizes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from overlayccl_core.gates.draws import Counts
from overlayccl_core.gates.equivalence import cut_to_atoms
from overlayccl_core.program.arithmetics import Arithmetic, Array, Double, Real
from overlayccl_core.program.atoms import AtomPair
from overlayccl_core.program.meaning import TooLarge
from overlayccl_core.program.nodes import Outputs, Port
from overlayccl_core.program.problem import PortSpec, Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.tiles import Tiles

MOST_WORDS = 2**25  # of all inputs of all ranks, or all outputs: atoms stand for more
MOST_LANES = 255  # of an atom

TilesOf = Mapping[Port, Tiles]


@dataclass(frozen=True, slots=True, kw_only=True)
class Small:
    """Small form of a Program: drawn, evaluated and compared in its place.

    Attributes:
        valid_inputs: port -> number of valid leading elements on each rank; all of a port without an entry.
        input_tiles: port -> tiles of the Program's own values; no entry if these values are the Program's own.
    """

    problem: Problem
    outputs: Outputs  # port -> node
    inputs: Mapping[Port, int]  # port -> elements
    arithmetic: Arithmetic  # of the evaluation
    valid_inputs: Mapping[Port, Counts] = field(default_factory=dict)
    valid_outputs: Mapping[Port, Counts] = field(default_factory=dict)  # likewise
    input_tiles: TilesOf = field(default_factory=dict)
    output_tiles: TilesOf = field(default_factory=dict)  # likewise

    def told(self, inputs: Mapping[Port, Array]) -> dict[Port, Array]:
        """Return the part of inputs [ranks, elements] to send: lanes without room in their atom stay here."""
        tiles = self.input_tiles
        return {p: x[:, tiles[p].of_lanes()] if p in tiles else x for p, x in inputs.items()}

    def heard(self, port: Port, seen: Array) -> Array | None:
        """Return [ranks, elements] of an output as sent by the ranks; None if it has another size."""
        size, tiles = self.outputs[port].size, self.output_tiles.get(port)
        if tiles is None:
            return seen if seen.shape[1:] == (size,) else None
        if seen.shape[1:] != (tiles.small,):
            return None
        wide = np.zeros((len(seen), size), seen.dtype)
        wide[:, tiles.of_lanes()] = seen
        return wide

    def element(self, port: Port, index: int) -> int:
        """Return the index of the element in the Program's own output."""
        return self.output_tiles[port].element(index) if port in self.output_tiles else index


def one_atom(problem: Problem) -> Small:
    """Return a small form of a Program that cannot be evaluated here: each port is one atom."""

    def tiles(ports: Mapping[Port, PortSpec]) -> dict[Port, Tiles]:
        sizes = ((port, spec.size) for port, spec in ports.items())
        return {port: Tiles(lanes=min(MOST_LANES, size), runs=((1, size),)) for port, size in sizes}

    return Small(
        problem=problem,
        outputs={},
        inputs={port: min(MOST_LANES, spec.size) for port, spec in problem.inputs.items()},
        arithmetic=Double(),
        input_tiles=tiles(problem.inputs),
        output_tiles=tiles(problem.outputs),
    )


def small_of(program: Program) -> Small:
    """Return the Program itself if it is nonlinear or the inputs of all ranks are few, else its form over atoms.

    Raises:
        TooLarge: Even the atoms are too many.
    """
    problem = program.problem
    rows = problem.ranks * problem.case.groups
    words = sum(spec.size for spec in problem.inputs.values()) * rows
    return over_atoms(program) if words > MOST_WORDS and problem.linear else itself(program)


def itself(program: Program) -> Small:
    """Return the Program's own values, in its own dtypes."""
    problem = program.problem
    return Small(
        problem=problem,
        outputs=program.outputs,
        inputs={port: spec.size for port, spec in problem.inputs.items()},
        valid_inputs={p: spec.valid for p, spec in problem.inputs.items() if spec.valid is not None},
        valid_outputs={p: spec.valid for p, spec in problem.outputs.items() if spec.valid is not None},
        arithmetic=Real(),
    )


def over_atoms(program: Program, most_lanes: int = MOST_LANES) -> Small:
    """Return a linear Program over its atoms, in float64.

    Raises:
        TooLarge: There are too many atoms.
    """
    problem = program.problem
    pair = AtomPair.of(problem, program.outputs, program.outputs)
    cut_to_atoms(pair, problem.ranks)
    unread = {port: spec.size for port, spec in problem.inputs.items() if port not in pair.inputs}
    read = sum(x.size for x in pair.inputs.values()) + len(unread)
    written = sum(x.size for x in pair.outputs.values())
    words = max(read, written, pair.largest) * problem.ranks * problem.case.groups
    lanes = min(most_lanes, MOST_WORDS // words)
    if not lanes:
        raise TooLarge(f"values of {words} atoms on all ranks (limit {MOST_WORDS})")
    lanes -= 1 - lanes % 2  # odd: an offset by a power of two hits another lane
    widths = {port: pair.input_widths(port) for port in pair.inputs}
    widths |= {port: np.array([size]) for port, size in unread.items()}
    wide = pair.widened(lanes)
    return Small(
        problem=problem,
        outputs=wide.outputs,
        inputs={port: len(widths[port]) * lanes for port in problem.inputs},
        valid_inputs=wide.valid_inputs,
        valid_outputs=wide.valid_outputs,
        arithmetic=Double(),
        input_tiles={port: Tiles.of(lanes, widths[port]) for port in problem.inputs},
        output_tiles={port: Tiles.of(lanes, pair.output_widths(port)) for port in program.outputs},
    )
