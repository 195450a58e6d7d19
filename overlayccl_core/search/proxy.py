"""Large Cases: a small Case stands for one, is searched in its place, and what it found is replayed.

The small Case has the tiers of the large one with fewer ranks, so its Programs are priced as if their groups had
the sizes that the large one's have.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from overlayccl_core.configuration.searches import Proxy
from overlayccl_core.costmodel.features import Column, Features, features
from overlayccl_core.costmodel.price import Price, price_features
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.program.case import Case
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.recipe import Recipe
from overlayccl_core.search.archive import Archive
from overlayccl_core.search.candidate import Candidate
from overlayccl_core.search.judge import Pricing
from overlayccl_core.search.proposal import Sketch

_REACH = re.compile(r"\.(node|network)(\d+)\.")


def is_large(case: Case, nodes: int, limits: Proxy) -> bool:
    """Whether a Case, whose developer's Program has so many nodes, is searched at a smaller one."""
    return nodes > limits.nodes or case.ranks >= limits.ranks


def pricing_as(small: Case, large: Case, theta: Theta) -> Pricing:
    """Prices of the small Case's Programs with the coefficients of the large one's groups."""
    sizes = {
        ("network", small.ranks): large.ranks,
        ("network", small.ranks // small.ranks_per_node): large.ranks // large.ranks_per_node,
        ("node", small.ranks_per_node): large.ranks_per_node,
    }

    def price(program: Program) -> Price:
        return price_features(with_sizes(features(program), sizes), theta)

    return price


def with_sizes(counted: Features, sizes: Mapping[tuple[str, int], int]) -> Features:
    """Features with the groups of each (reach, size) taken for groups of another size."""
    renamed: dict[Column, float] = {}
    for column, amount in counted.items():
        name = _REACH.sub(
            lambda m: f".{m[1]}{sizes.get((m[1], int(m[2])), int(m[2]))}.",
            column.name,
        )
        same = replace(column, name=name)
        renamed[same] = renamed.get(same, 0.0) + amount
    return renamed


class Replayed:
    """Recipes replayed into an archive, what they begin alike with once.

    sketches: those that recipes may begin with; each is traced and proven anew, as a small Case shows nothing of
    a source that counts on its size.
    """

    def __init__(self, archive: Archive, sketches: Iterable[Sketch] = ()) -> None:
        self._archive = archive
        self._sketches = {sketch.recipe: sketch for sketch in sketches}
        self._done: dict[Recipe, Candidate | None] = {}

    def follow(self, recipe: Recipe) -> Candidate | None:
        """The candidate of a recipe; None if its base is not there or a step comes to nothing."""
        if recipe not in self._done:
            self._done[recipe] = self._followed(recipe)
        return self._done[recipe]

    def _followed(self, recipe: Recipe) -> Candidate | None:
        if sketch := self._sketches.get(recipe):
            return self._archive.try_sketch(sketch)
        if not recipe.steps:
            return self._archive.of_recipe(recipe)
        parent = self.follow(replace(recipe, steps=recipe.steps[:-1]))
        return parent and self._archive.try_step(parent, recipe.steps[-1])
