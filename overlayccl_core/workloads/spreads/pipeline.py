"""Pipeline parallel: half of the blocks on a rank of the first half, the rest on one of the second."""

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from overlayccl_core.configuration.models import Site
from overlayccl_core.measuring.frameworks import Framework
from overlayccl_core.workloads.spreads.spread import Spread

if TYPE_CHECKING:
    from overlayccl_core.workloads.llama import Model

STAGES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Averaged:
    """A tensor each stage of a pipeline averages over its ranks. names: stage -> its parameter, if any."""

    names: tuple[str | None, ...]
    elements: int


class PipelineSpread(Spread):
    """The hand-over between two stages; with several pipelines, the means of their gradients.

    Rank r and rank r + ranks / 2 are one pipeline.
    """

    framework = Framework.PIPELINING

    def check(self, model: "Model", ranks: int) -> None:
        if ranks % STAGES:
            raise ValueError(
                f"ranks of a pipeline must be even, as rank r and rank r + ranks / 2 are one (got {ranks}): leave "
                "the model out, or choose a deployment with an even number"
            )

    def sites(self, model: "Model", microbatches: int, ranks: int) -> tuple[Site, ...]:
        handed_over = {
            "microbatches": microbatches,
            "shape": [model.batch // microbatches, model.sequence, model.width],
            "schedule": model.schedule,
        }
        of_a_stage = {"sizes": [one.elements for one in averaged(model)], "ranks": ranks // STAGES}
        gradients = Site(name="gradients", problem="grad_ar", entry=of_a_stage)
        between = Site(name="stages", problem="pp_send_recv", entry=handed_over)
        return (gradients, between) if ranks > STAGES else (between,)

    def replicas(self, ranks: int) -> tuple[int, ...]:
        return tuple(rank % (ranks // STAGES) for rank in range(ranks))

    def rank_parameters(self, model: "Model", ranks: int) -> int:
        return sum(one.elements for one in averaged(model))


def averaged(model: "Model") -> tuple[Averaged, ...]:
    """Return the parameters of both stages. Embedding and head are as large, so are the blocks."""
    embedding, *blocks, norm, head = sizes = model.elements()
    half = len(blocks) // STAGES
    pairs = zip_longest((embedding, *blocks[:half]), (head, *blocks[half:], norm))
    return tuple(
        Averaged(names=names, elements=max(sizes[name] for name in names if name)) for names in pairs
    )
