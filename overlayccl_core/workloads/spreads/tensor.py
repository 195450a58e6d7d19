"""Tensor parallel: each block over all ranks (Megatron-LM); replicated embedding, norms and head."""

from typing import TYPE_CHECKING

from overlayccl_core.configuration.models import Site
from overlayccl_core.measuring.frameworks import Framework
from overlayccl_core.workloads.spreads.spread import Spread

if TYPE_CHECKING:
    from overlayccl_core.workloads.llama import Model

SUMS = {"sequential": ("tp_mlp", 2), "parallel": ("layer_block_ar", 1)}
"""Kind of block -> Problem of its sums; their number in each direction."""


class Tensor(Spread):
    """Two sums a block, microbatch and direction, of a parallel block one. Each rank computes the head."""

    framework = Framework.TENSOR

    def check(self, model: "Model", ranks: int) -> None:
        for what, count in (("heads", model.heads), ("hidden", model.hidden)):
            if count % ranks:
                raise ValueError(
                    f"ranks must divide {what} of a tensor-parallel model (got {ranks} and {count}): leave the "
                    "model out, or give it a file with other sizes"
                )

    def sites(self, model: "Model", microbatches: int, ranks: int) -> tuple[Site, ...]:
        problem, each = SUMS[model.block]
        sums = {
            "microbatches": microbatches,
            "layers": each * model.layers,
            "shape": [model.batch // microbatches, model.sequence, model.width],
        }
        return tuple(
            Site(name=place, problem=problem, entry={**sums, "site": place}) for place in ("entry", "exit")
        )

    def replicas(self, ranks: int) -> tuple[int, ...]:
        return (0,) * ranks

    def rank_parameters(self, model: "Model", ranks: int) -> int:
        sizes = model.elements()
        shared = sum(n for name, n in sizes.items() if name.startswith("blocks.") and "norm" not in name)
        return sum(sizes.values()) - shared + shared // ranks

    def flops_done_again(self, model: "Model", ranks: int) -> int:
        return 6 * model.batch * model.sequence * model.elements()["head"] * (ranks - 1)
