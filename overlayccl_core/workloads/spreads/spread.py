"""How a model lies on its ranks."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from overlayccl_core.configuration.models import Site
from overlayccl_core.measuring.frameworks import Framework

if TYPE_CHECKING:
    from overlayccl_core.workloads.llama import Model


class Spread(ABC):
    """How a model lies on its ranks: a parallelism. The rest of it is its step, in `training/`.

    Attributes:
        framework: Whose arms train a model in this way.
        has_whole_models: Whether every rank has all parameters whole.
    """

    framework: Framework
    has_whole_models = False

    @abstractmethod
    def check(self, model: "Model", ranks: int) -> None:
        """Raise ValueError if so many ranks do not fit."""

    @abstractmethod
    def sites(self, model: "Model", microbatches: int, ranks: int) -> tuple[Site, ...]:
        """Return the sites of a step, in the driver's order of preference."""

    def replicas(self, ranks: int) -> tuple[int, ...]:
        """Return rank -> its replica of the data: each has its own, unless overridden."""
        return tuple(range(ranks))

    def rank_parameters(self, model: "Model", ranks: int) -> int:
        """Return the elements of parameters on the fullest rank: all of them, unless overridden."""
        return sum(model.elements().values())

    def positions(self, model: "Model", ranks: int) -> int:
        """Return the positions of a text on one rank: all of them, unless overridden."""
        return model.sequence

    def flops_done_again(self, model: "Model", ranks: int) -> int:
        """Return the operations that ranks of a replica repeat, all but the first's: none, unless overridden."""
        return 0


def means_as_they_come(model: "Model") -> Site:
    """Return the site of the means of all gradients, one after another in the backward pass."""
    sizes = list(model.elements().values())
    return Site(name="gradients", problem="grad_ar", entry={"sizes": sizes, "overlap": True})
