"""The Cases of a large training run: 7 nodes of 32 ranks, the shapes of a Llama-like model and of an MoE layer."""

from collections.abc import Mapping
from math import prod
from typing import Any

from overlayccl_core import catalog
from overlayccl_core.program.case import Case
from overlayccl_core.workloads.llama import Sizes

RANKS, RANKS_PER_NODE = 224, 32
_LLAMA = Sizes(width=2048, hidden=5376, layers=4, vocabulary=32256).parameter_sizes()
ENTRIES: Mapping[str, Mapping[str, Any]] = {
    "tp_mlp": {"microbatches": 4, "layers": 32, "shape": [1, 2048, 4096]},
    "uniform_a2a": {"chunk": 10, "width": 2048},
    "grad_ar": {"sizes": [prod(shape) for _, shape in _LLAMA]},
    "alltoallv": {"pattern": "uniform", "rows": 10 * RANKS, "width": 2048},  # expert-choice routing
    "pp_send_recv": {"microbatches": 4, "shape": [1, 2048, 4096]},
    "layer_block_ar": {"microbatches": 4, "layers": 16, "shape": [1, 2048, 4096]},
    "ring_kv": {"heads": 32, "sequence": 2048, "head_dim": 128},
    "fsdp_prefetch": {"microbatches": 4, "layers": 16, "shape": [14336, 4096]},
}


def train_case(problem: str, dtype: str = "bfloat16", ranks: int = RANKS) -> Case:
    """The Case of a Problem at 224 ranks, or at another number of them: in nodes of 32, or one tier."""
    entry = divisible(problem, ENTRIES[problem], ranks)
    return catalog.case(problem, entry, ranks=ranks, ranks_per_node=min(ranks, RANKS_PER_NODE), dtype=dtype)


def divisible(problem: str, entry: Mapping[str, Any], ranks: int) -> Mapping[str, Any]:
    """The same entry with what is cut over the ranks padded to what divides."""
    if problem == "ring_kv":
        return {**entry, "sequence": _padded(entry["sequence"], ranks)}
    if problem == "fsdp_prefetch":
        shape, axis = list(entry["shape"]), ("rows", "columns").index(entry.get("shards", "rows"))
        shape[axis] = _padded(shape[axis], ranks)
        return {**entry, "shape": shape}
    return entry


def _padded(extent: int, ranks: int) -> int:
    return -(-extent // ranks) * ranks
