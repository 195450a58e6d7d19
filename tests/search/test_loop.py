"""What is worth keeping is proven; what is shown wrong is nobody's elite."""

from overlayccl_core import catalog
from overlayccl_core.program.nodes import make_scale
from overlayccl_core.program.program import Program
from overlayccl_core.program.schedule import schedule
from overlayccl_core.rewrites.recipe import Recipe
from overlayccl_core.search.archive import Base
from overlayccl_core.search.candidate import Origin
from overlayccl_core.search.proposers.offline import Offline
from tests.known_cases import case
from tests.search.costs import OFFLINE, bases_of, plain, pricing_of, seeker_of

TINY = catalog.build(case("tp_mlp", {"microbatches": 2, "layers": 2, "shape": [1, 2, 6]}))


def wrong() -> Base:
    """Merged sums, doubled: as cheap as it gets."""
    merged = next(b.program for b in bases_of(TINY) if b.recipe.base == "merged_over_microbatches")
    doubled = {port: make_scale(x, 2) for port, x in merged.outputs.items()}
    program: Program = schedule(TINY, doubled)
    return Base(program=program, recipe=Recipe(base="wrong"), origin=Origin.KNOWN)


def test_a_wrong_program_is_no_elite_and_its_family_keeps_the_next() -> None:
    free_scales = pricing_of(lambda column: 0.0 if "scale" in column.name else plain(column))
    seeker = seeker_of(TINY, free_scales, bases=[wrong(), *bases_of(TINY)[:1]])
    result = seeker.result(Offline(OFFLINE))
    digest = wrong().program.digest
    assert not seeker.archive.prover.verdicts[digest].passed
    assert digest not in {c.program.digest for c in result.elites}
    assert "all_reduce:world4:1" in {c.family for c in result.elites}
    assert result.best is not None and result.best in result.elites


def test_every_elite_that_can_run_is_proven_and_so_are_some_others_at_random() -> None:
    def proven_of(seed: int) -> set[str]:
        seeker = seeker_of(TINY, pricing_of(plain), search=OFFLINE.changed(seed=seed))
        result = seeker.result(Offline(seeker.search))
        proven = {d for d, verdict in seeker.archive.prover.verdicts.items() if verdict.passed}
        elites = {c.program.digest for c in result.elites if c.feasible}
        assert elites <= proven
        assert len(proven - elites) >= OFFLINE.random >= 4
        return proven - elites

    assert proven_of(0) == proven_of(0) != proven_of(1)


def test_a_program_is_proven_of_so_many_of_the_cheapest_families() -> None:
    def proven_of(families: int) -> tuple[list[str], int]:
        seeker = seeker_of(TINY, pricing_of(plain), search=OFFLINE.changed(families=families, random=0))
        elites = seeker.result(Offline(seeker.search)).elites
        return [c.family for c in elites if c.program.digest in seeker.archive.prover.verdicts], len(elites)

    all_, count = proven_of(1000)
    assert len(all_) > 3
    few, same = proven_of(3)
    assert (few, same) == (all_[:3], count)


def test_labels_need_no_proof_of_their_own() -> None:
    seeker = seeker_of(TINY, pricing_of(plain), bases=bases_of(TINY))
    result = seeker.result(Offline(OFFLINE))
    by_recipe = {c.recipe: c for c in result.candidates}
    single = by_recipe[Recipe(base="single_graph")]
    assert seeker.archive.prover.proven(single)
    assert (
        seeker.archive.prover.verdicts[single.program.digest]
        is seeker.archive.prover.verdicts[by_recipe[Recipe(base="developer")].program.digest]
    )
