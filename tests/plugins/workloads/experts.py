"""A layer of experts, one a rank: tokens go to theirs and come back. Exchanges are sites in both directions."""

from pydantic import Field

from overlayccl_core.configuration import models
from overlayccl_core.configuration.fields import Count
from overlayccl_core.configuration.models import Shape, Site
from overlayccl_core.program.problem import Direction

EXCHANGES = ("dispatch", "combine")


class Sizes(models.Sizes):
    """Widths of the layer."""

    experts: Count = Field(description="as many as ranks")
    width: Count = Field(description="channels of a token")
    hidden: Count = Field(description="channels of an expert")

    def parameter_sizes(self) -> tuple[tuple[str, Shape], ...]:
        """A projection that all ranks have, then the experts."""
        return (
            ("entrance", (self.width, self.width)),
            ("up", (self.experts, self.width, self.hidden)),
            ("down", (self.experts, self.hidden, self.width)),
        )


class Model(Sizes, models.Model):
    """A training step on tokens that are drawn at random; `batch`: those that a rank has for each expert."""

    def check(self, ranks: int) -> None:
        """An expert a rank."""
        if self.experts != ranks:
            raise ValueError(f"experts must be as many as ranks (got {self.experts} and {ranks})")

    def sites(self, microbatches: int, ranks: int) -> tuple[Site, ...]:
        """Of each microbatch two exchanges, forward and backward; then the mean of the projection's gradient."""
        exchange = {"chunk": self.batch // microbatches, "width": self.width}
        both = [
            Site(name=f"{name}_{m}_{direction}", problem="uniform_a2a", entry=exchange, direction=direction)
            for direction in (Direction.BACKWARD, Direction.FORWARD)
            for m in range(microbatches)
            for name in EXCHANGES
        ]
        return (*both, Site(name="gradients", problem="grad_ar", entry={"sizes": [self.width**2]}))

    def replicas(self, ranks: int) -> tuple[int, ...]:
        """Tokens of its own for each rank."""
        return tuple(range(ranks))
