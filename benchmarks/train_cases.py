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
}


def train_case(problem: str, dtype: str = "bfloat16") -> Case:
    """The Case of a Problem at 224 ranks."""
    return catalog.case(problem, ENTRIES[problem], ranks=RANKS, ranks_per_node=RANKS_PER_NODE, dtype=dtype)
