"""The second half of a search through a proxy: try only the small Case's promising finds at the large one.

Prices tell a family's promise. Fewer ranks, layers or tensors cost less. So the least ratio of large to small
price among the replayed Programs bounds the large price of any other family, as far as the cost model can say.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from math import inf

from overlayccl_core.rewrites.apply import Step
from overlayccl_core.rewrites.recipe import Recipe
from overlayccl_core.search.archive import Archive
from overlayccl_core.search.candidate import Candidate
from overlayccl_core.search.proposal import Sketch

DEARER = 2.0  # steps with a larger price ratio at the small Case are not tried at the large one


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
