"""Proxies of large Cases: a small Case is searched in a large one's place, and its promising finds are replayed.

The small Case has the large one's tiers with fewer ranks. Its Programs are priced, and checked against the
library's capabilities, as if their groups had the large one's sizes. Prices tell a family's promise. Fewer ranks,
layers or tensors cost less. So the least ratio of large to small price among the replayed Programs bounds the large
price of any other family, as far as the cost model can say.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from overlayccl_core.configuration.searches import Proxy
from overlayccl_core.costmodel.features import Feature, Features, features
from overlayccl_core.costmodel.price import Price, price_features
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.deployments.capabilities import Capabilities, Shape, permute_shapes
from overlayccl_core.program.case import Case
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.apply import Step
from overlayccl_core.rewrites.recipe import Recipe
from overlayccl_core.search.archive import Archive
from overlayccl_core.search.candidate import Candidate
from overlayccl_core.search.judge import Pricing
from overlayccl_core.search.proposal import Sketch

DEARER = 2.0  # steps with a larger price ratio at the small Case are not tried at the large one
_REACH = re.compile(r"\.(node|network)(\d+)\.")


def is_large(case: Case, nodes: int, limits: Proxy) -> bool:
    """Return whether a Case is searched at a smaller one. nodes: of its developer's Program."""
    return nodes > limits.nodes or case.ranks >= limits.ranks


def pricing_as(small: Case, large: Case, theta: Theta) -> Pricing:
    """Price the small Case's Programs with the coefficients of the large one's groups."""
    sizes = {
        ("network", small.ranks): large.ranks,
        ("network", small.ranks // small.ranks_per_node): large.ranks // large.ranks_per_node,
        ("node", small.ranks_per_node): large.ranks_per_node,
    }

    def price(program: Program) -> Price:
        return price_features(with_sizes(features(program), sizes), theta)

    return price


def capabilities_as(small: Case, large: Case, capabilities: Capabilities) -> Capabilities:
    """Return the library's capabilities for the small Case, its groups standing for the large one's."""
    large_permutes = permute_shapes(large.ranks * large.groups)
    permutes = permute_shapes(small.ranks * small.groups)
    return capabilities.of_shapes(
        groups=dict(zip(_shapes(small), _shapes(large), strict=True)),
        permutes={permutes[one]: large_permutes[one] for one in permutes if one in large_permutes},
    )


def _shapes(case: Case) -> tuple[Shape, ...]:
    """Return the shapes of groups across nodes, within nodes, and of all ranks."""
    across = (case.ranks // case.ranks_per_node, case.ranks_per_node * case.stride)
    return across, (case.ranks_per_node, case.stride), (case.ranks, case.stride)


def with_sizes(counted: Features, sizes: Mapping[tuple[str, int], int]) -> Features:
    """Return features with the groups of each (reach, size) taken for groups of another size."""
    renamed: dict[Feature, float] = {}
    for column, amount in counted.items():
        name = _REACH.sub(lambda m: f".{m[1]}{sizes.get((m[1], int(m[2])), int(m[2]))}.", column.name)
        same = replace(column, name=name)
        renamed[same] = renamed.get(same, 0.0) + amount
    return renamed


@dataclass(slots=True, kw_only=True)
class FullSize:
    """The archives of a large Case (`full`) and of the small one searched in its place (`small`).

    Attributes:
        sketches: Possible beginnings of recipes; each is traced and proven anew, as its source may depend on the
            Case's size.
    """

    small: Archive
    full: Archive
    families: int  # number of cheapest families to replay, however dear
    has_time: Callable[[], bool]  # whether to go on
    sketches: Iterable[Sketch] = ()
    _done: dict[Recipe, Candidate | None] = field(default_factory=dict)
    _twins: dict[Recipe, Candidate] = field(default_factory=dict)  # large Case's recipe -> small one

    def replay_promising(self) -> bool:
        """Replay `families` runnable elites, then all that may yet be cheapest; False if time ran out."""
        followed, least = 0, inf
        best = min((c.us for c in self.full.candidates if c.feasible), default=inf)
        for elite in self.small.cheapest():
            if not elite.feasible:
                continue
            if followed >= self.families and not elite.us * least < best:
                break
            if not self.has_time():
                return False
            here = self.follow(elite.recipe)
            if here is not None and here.feasible:
                followed += 1
                best = min(best, here.us)
                if here.us < inf:
                    least = min(least, here.us / elite.us)
        return True

    def expand(self, winner: Candidate, steps: Iterable[Step]) -> bool:
        """Try steps at a candidate, except those dear or infeasible at the small Case; False if time ran out."""
        twin = self._twins.get(winner.recipe) or self.small.of_recipe(winner.recipe)
        for step in steps:
            if not self.has_time():
                return False
            there = None if twin is None else self.small.try_step(twin, step)
            if there is not None and twin is not None and _hopeless(twin, there):
                continue
            here = self.full.try_step(winner, step)
            if here is not None and there is not None:
                self._twins.setdefault(here.recipe, there)
        return True

    def follow(self, recipe: Recipe) -> Candidate | None:
        """Return the candidate of a recipe; None if its base is missing or a step fails.

        Common beginnings of recipes are replayed once.
        """
        if recipe not in self._done:
            self._done[recipe] = self._followed(recipe)
        return self._done[recipe]

    def _followed(self, recipe: Recipe) -> Candidate | None:
        sketch = next((sketch for sketch in self.sketches if sketch.recipe == recipe), None)
        if sketch is not None:
            return self.full.try_sketch(sketch)
        if not recipe.steps:
            return self.full.of_recipe(recipe)
        parent = self.follow(replace(recipe, steps=recipe.steps[:-1]))
        return parent and self.full.try_step(parent, recipe.steps[-1])


def _hopeless(before: Candidate, after: Candidate) -> bool:
    return not after.feasible or after.us > DEARER * before.us
