"""Replicas: a replicated output has the same bits on all its ranks.

Sums of the same terms in two orders are equal only up to rounding. If each rank adds in its own order, their
parameters or activations drift apart, step by step. So every rank must get one rank's result, or compute it by the
same operations on the same terms in the same order.
"""

import numpy as np

from overlayccl_core.gates.draws import Counts, drawn_inputs
from overlayccl_core.gates.verdict import ALL_CHECKS
from overlayccl_core.program.arithmetics import PRIME, Array, Bits
from overlayccl_core.program.atoms import AtomPair
from overlayccl_core.program.kinds import Placement
from overlayccl_core.program.meaning import RankData, evaluate
from overlayccl_core.program.problem import port_text
from overlayccl_core.program.program import Program

NAMED = 8  # ranks in a message


def unlike_replicas(pair: AtomPair, program: Program) -> str:
    """Describe a replicated output with different bits on some ranks, and the remedy; empty: there is none."""
    problem = program.problem
    replicated = {
        p: x for p, x in pair.outputs.items() if problem.outputs[p].placement is Placement.REPLICATE
    }
    if not replicated:
        return ""
    random = np.random.default_rng(int(program.digest, 16) + 2)
    inputs = drawn_inputs(pair, problem.ranks, lambda shape: random.integers(1, PRIME, shape), ALL_CHECKS)
    held, _ = evaluate(replicated, inputs, Bits(), problem.ranks)
    for port, value in held.items():
        if found := differing(pair.valid_outputs.get(port), value):
            first, others, atom = found
            return (
                f"{port_text(port)}, element {pair.element(port, atom)}: rank {first} and {ranks_text(others)}"
                " round differently: they add the same terms in another order, or in another dtype. The output is"
                " replicated, so its last bits must not depend on the rank: let one rank add and send the sum"
                " (reduce_scatter, all_gather), or let all add in one order (all_gather, reduce_sum)"
            )
    return ""


def differing(valid: Counts | None, value: RankData) -> tuple[int, list[int], int] | None:
    """Return (a rank, the ranks with other values, an atom of the difference), or None."""
    counts = np.full(len(value.row), value.data.shape[1]) if valid is None else np.asarray(valid)
    first = int(counts.argmax())  # valid here wherever valid on any rank
    held = list(zip(value.row.tolist(), counts.tolist(), strict=True))
    unlike: dict[tuple[int, int], Array] = {
        (row, count): np.flatnonzero(value.data[row, :count] != value.on(first)[:count])
        for row, count in set(held)
    }
    atoms = np.concatenate([np.zeros(0, np.int64), *unlike.values()])
    if not len(atoms):
        return None
    atom = int(atoms.min())
    return first, [rank for rank, mine in enumerate(held) if atom in unlike[mine]], atom


def ranks_text(ranks: list[int]) -> str:
    named = ", ".join(map(str, ranks[:NAMED])) + (
        f", ... ({len(ranks)} in all)" if len(ranks) > NAMED else ""
    )
    return f"rank{'s' if len(ranks) > 1 else ''} {named}"
