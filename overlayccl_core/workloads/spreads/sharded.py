"""Sharded: the parameters of each block over all ranks, gathered to run it (FSDP)."""

from dataclasses import replace
from math import ceil, prod
from typing import TYPE_CHECKING

from overlayccl_core.configuration.models import Site
from overlayccl_core.measuring.frameworks import Framework
from overlayccl_core.program.problem import Direction
from overlayccl_core.workloads.spreads.spread import Spread

if TYPE_CHECKING:
    from overlayccl_core.workloads.llama import Model

# The rows of a block's flat parameter are padded to a multiple, so most counts of ranks divide them.
ROWS = 48


class Sharded(Spread):
    """Each block gathered for the forward and the backward pass of each microbatch, its gradients handed out.

    The gradients of embedding, norm and head are averaged.
    """

    framework = Framework.FSDP

    def check(self, model: "Model", ranks: int) -> None:
        if flat_rows(model) % ranks:
            raise ValueError(
                "ranks must divide the rows of a block's parameters, which are padded to a multiple of "
                f"{ROWS} (got {ranks} and {flat_rows(model)}): leave the model out, or take as many ranks as "
                f"divide {ROWS}"
            )

    def sites(self, model: "Model", microbatches: int, ranks: int) -> tuple[Site, ...]:
        replicated = [n for name, n in model.elements().items() if not name.startswith("blocks.")]
        gradients = Site(name="gradients", problem="grad_ar", entry={"sizes": replicated})
        weights = {
            "microbatches": microbatches,
            "layers": model.layers,
            "shape": [flat_rows(model), model.width],
        }
        gather = Site(name="gather", problem="fsdp_prefetch", entry=weights)
        regather = Site(name="regather", problem="fsdp_prefetch", entry={**weights, "site": "regather"})
        scatter = replace(gather, name="scatter", direction=Direction.BACKWARD)
        return (scatter, gradients, regather, gather)

    def rank_parameters(self, model: "Model", ranks: int) -> int:
        ends = sum(n for name, n in model.elements().items() if not name.startswith("blocks."))
        return ends + model.layers * flat_rows(model) * model.width // ranks


def flat_rows(model: "Model") -> int:
    """Return the rows of a block's one parameter [rows, width].

    Its parameters lie behind one another, padded, as in FSDP's FlatParameter (Zhao et al. 2023).
    """
    elements = sum(prod(shape) for name, shape in model.parameter_sizes() if name.startswith("blocks.0."))
    return ceil(elements / model.width / ROWS) * ROWS
