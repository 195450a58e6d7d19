"""Small Cases of the Problems, and proofs of their seeds."""

from collections.abc import Mapping
from typing import Any

from overlayccl_core import catalog
from overlayccl_core.gates import equivalence
from overlayccl_core.gates.verdict import Verdict
from overlayccl_core.program.case import Case
from overlayccl_core.program.library import Role
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.recipe import replay
from overlayccl_core.stages.seed import seeds_of

SMALL: Mapping[str, Mapping[str, Any]] = {
    "tp_mlp": {"microbatches": 3, "layers": 2, "shape": [1, 5, 7]},
    "uniform_a2a": {"chunk": 3, "width": 5},
    "grad_ar": {"sizes": [7, 64, 1, 33]},
    "alltoallv": {"pattern": "random", "rows": 24, "width": 5},
    "pp_send_recv": {"microbatches": 3, "shape": [1, 5, 7]},
    "layer_block_ar": {"microbatches": 3, "layers": 2, "shape": [1, 5, 7]},
    "ring_kv": {"heads": 3, "sequence": 24, "head_dim": 5},
    "fsdp_prefetch": {"microbatches": 2, "layers": 3, "shape": [24, 5]},
}


def case(
    problem: str,
    entry: Mapping[str, Any] | None = None,
    *,
    ranks: int = 4,
    ranks_per_node: int = 0,
    **more: Any,
) -> Case:
    """A Case of a Problem; by default the small one, on 4 ranks and one tier."""
    fields = SMALL[problem] if entry is None else entry
    return catalog.case(problem, fields, ranks=ranks, ranks_per_node=ranks_per_node or ranks, **more)


def proof_of(problem: Problem, strategy: str) -> tuple[Program, Verdict]:
    """Replay one seed at a Problem and prove it, with the developer's own error as the bound of lossy ones."""
    seeds = {s.name: s for s in seeds_of(problem)}
    reference = catalog.reference_program(problem)
    developer = next(s for s in seeds.values() if s.role is Role.DEVELOPER)
    bound = equivalence.lossy_bound_of(replay(developer.recipe, problem), reference)
    program = replay(seeds[strategy].recipe, problem)
    return program, equivalence.prove(program, reference, lossy_bound=bound)
