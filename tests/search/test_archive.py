"""The archive search: it finds the form that a cost model favours, and nothing that must not be found."""

from collections.abc import Iterator

import pytest

from overlayccl_core import catalog
from overlayccl_core.costmodel.features import Features, features
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.program.kinds import COLLECTIVES, IssueOrder, Kind
from overlayccl_core.program.lowering import overlaps
from overlayccl_core.program.problem import Problem
from overlayccl_core.rewrites.apply import DoesNotApply, apply, rule_names, steps_at
from overlayccl_core.search.candidate import Origin
from overlayccl_core.search.labels import orders
from overlayccl_core.search.loop import SearchStop
from overlayccl_core.search.proposal import ProposalOutcome
from overlayccl_core.search.proposers.offline import Offline
from tests.capabilities import library_of
from tests.known_cases import case
from tests.search.costs import (
    OFFLINE,
    at_random,
    bases_of,
    favouring,
    found_at,
    plain,
    pricing_of,
    seeker_of,
    us_of,
)

FOUR_KIB = {"microbatches": 3, "layers": 2, "shape": [1, 8, 128]}
TINY = {"microbatches": 2, "layers": 2, "shape": [1, 2, 6]}
WIDE = 400  # Programs of a breadth-first closure


def tp_mlp(entry: dict[str, object] = FOUR_KIB) -> Problem:
    return catalog.build(case("tp_mlp", entry))


@pytest.mark.parametrize("kind", [kind for kind in COLLECTIVES if kind is not Kind.REDUCE_SCATTER])
def test_the_primitive_that_is_quick_to_call_is_found_from_developer_alone(kind: Kind) -> None:
    best = found_at(tp_mlp(), favouring(kind.value)).best
    assert best is not None
    assert {x.kind for x in best.program.collectives} == {kind}
    assert best.recipe.base == "developer"


def test_a_sum_whose_bits_depend_on_the_rank_is_not_found() -> None:
    """A reduce_scatter of copies would be quickest, and total is replicated."""
    best = found_at(tp_mlp(), favouring(Kind.REDUCE_SCATTER.value)).best
    assert best is not None
    assert {x.kind for x in best.program.collectives} == {Kind.ALL_REDUCE}


def test_where_all_cost_alike_what_is_written_is_merged_and_kept() -> None:
    best = found_at(tp_mlp(), plain).best
    assert best is not None
    assert [x.kind for x in best.program.collectives] == [Kind.ALL_REDUCE] * 2


def closure(problem: Problem) -> Iterator[Features]:
    """Features of everything that rules reach breadth first, labels included."""
    rules = [name for name in rule_names() if name != "wire_dtype"]
    todo = [bases_of(problem)[0].program]
    seen = {todo[0].value_digest}
    for program in todo:
        yield features(program)
        for step in steps_at(program, rules) if len(seen) < WIDE else ():
            try:
                new = apply(program, step)
            except DoesNotApply:
                continue
            if new.value_digest not in seen:
                seen.add(new.value_digest)
                todo.append(new)


def test_it_is_no_worse_than_a_wide_breadth_first_closure() -> None:
    problem = tp_mlp(TINY)
    everything = list(closure(problem))
    assert len(everything) >= WIDE
    for seed in range(3):
        seeker = seeker_of(problem, pricing_of(at_random(seed)))
        seeker.explore(Offline(OFFLINE))
        best = min(us_of(features(c.program), at_random(seed)) for c in seeker.archive.candidates)
        assert best <= min(us_of(counted, at_random(seed)) for counted in everything) * (1 + 1e-9), seed


@pytest.mark.parametrize("name", ["tp_mlp", "uniform_a2a", "grad_ar"])
def test_it_ends_by_itself_and_is_the_same_every_time(name: str) -> None:
    problem = catalog.build(case(name))
    one, two = found_at(problem, plain), found_at(problem, plain)
    assert one.explored.stop is SearchStop.NO_NEW_ELITE
    assert one.attempts == two.attempts
    assert [c.program.digest for c in one.candidates] == [c.program.digest for c in two.candidates]


def test_what_is_known_by_its_value_is_counted_as_a_duplicate_and_priced_once() -> None:
    problem = catalog.build(case("uniform_a2a"))
    result = found_at(problem, plain, bases=bases_of(problem))
    rules = [c for c in result.candidates if c.origin is Origin.RULE]
    assert len({c.program.value_digest for c in rules}) == len(rules)
    native = catalog.reference_program(problem).value_digest
    met = [s.outcome for s in result.attempts if s.value_digest == native]
    assert met.count(ProposalOutcome.PROGRAM) == 1
    assert ProposalOutcome.DUPLICATE in met


def test_every_program_tells_where_it_comes_from() -> None:
    result = found_at(tp_mlp(TINY), plain)
    known = {c.program.value_digest for c in result.candidates}
    for candidate in result.candidates:
        assert (candidate.parent is None) == (candidate.origin is not Origin.RULE)
        assert candidate.parent is None or candidate.parent in known
        assert bool(candidate.recipe.steps) == (candidate.origin is Origin.RULE)


def test_fewer_bits_are_invented_only_where_that_is_asked_for() -> None:
    assert not any(c.lossy for c in found_at(tp_mlp(TINY), plain).candidates)
    asked = found_at(tp_mlp(TINY), plain, search=OFFLINE.changed(lossy=True))
    assert any(c.lossy for c in asked.candidates)


def test_strategies_in_fewer_bits_are_listed_and_never_the_best() -> None:
    def half(column: object) -> float:
        return 0.0 if "cast" in str(column) or "narrow" in str(column) else plain(column)  # type: ignore[arg-type]

    result = found_at(tp_mlp(), half, bases=bases_of(tp_mlp()))
    assert any(c.lossy for c in result.elites)
    assert result.best is not None and not result.best.lossy


def able(*kinds: Kind) -> Capabilities:
    """A library that offers some collectives only."""
    return library_of(kind.value for kind in kinds)


def test_what_the_library_cannot_do_is_expanded_and_never_chosen() -> None:
    only = able(Kind.ALL_GATHER)  # developer's own all_reduce is not there
    result = found_at(tp_mlp(), favouring("all_to_all"), capabilities=only)
    assert result.best is not None
    assert {x.kind for x in result.best.program.collectives} == {Kind.ALL_GATHER}
    cheaper = [c for c in result.candidates if c.order < result.best.order]
    assert cheaper and not any(c.feasible for c in cheaper)
    assert any(
        s.outcome is ProposalOutcome.INFEASIBLE and "not supported" in s.message for s in result.attempts
    )


def test_what_does_not_fit_in_memory_is_never_chosen() -> None:
    free = found_at(tp_mlp(), favouring("all_to_all")).best
    assert free is not None
    budget = int(dict(free.legal.evidence)["peak_bytes"]) - 1
    tight = found_at(tp_mlp(), favouring("all_to_all"), memory_budget_bytes=budget)
    assert tight.best is not None and tight.best.program.digest != free.program.digest
    (same,) = (c for c in tight.candidates if c.program.digest == free.program.digest)
    assert not same.feasible and same.family.endswith("infeasible")


def test_the_winner_is_priced_under_other_labels_too() -> None:
    def together_dear(column: object) -> float:
        return plain(column) * (10 if ".together" in str(column) else 1)  # type: ignore[arg-type]

    def together_free(column: object) -> float:
        return 0.0 if ".together" in str(column) else plain(column)  # type: ignore[arg-type]

    best = found_at(tp_mlp(TINY), together_free).best
    assert best is not None and orders(best.program) == [IssueOrder.TWO]  # across layers, as `early` is not
    best = found_at(tp_mlp(TINY), together_dear).best
    assert best is not None and not orders(best.program)


def test_of_orders_with_equal_events_the_first_is_kept() -> None:
    """With three microbatches four calls in flight are all that there are; two are fewer."""
    archive = seeker_of(tp_mlp(FOUR_KIB), pricing_of(plain)).begin().archive
    written = next(c for c in archive.candidates if c.family == "all_reduce:world4:1")
    tried = {str(orders(c.program)) for c in archive.candidates if c.parent == written.program.value_digest}
    assert tried == {f"[{order!r}]" for order in (IssueOrder.EARLY, IssueOrder.TWO, IssueOrder.FOUR)}
    assert "no other order of calls" in {attempt.message for attempt in archive.attempts}


def test_where_ranks_compile_no_order_of_calls_is_tried() -> None:
    """However cheap collectives in flight together are: all of a graph that can be so are so."""

    def together_free(column: object) -> float:
        return 0.0 if ".together" in str(column) else plain(column)  # type: ignore[arg-type]

    compiled = catalog.build(case("tp_mlp", TINY, uniform=True))
    result = found_at(compiled, together_free)
    tried = {step[0] for attempt in result.attempts for step in attempt.steps}
    assert "drop_boundary" in tried and tried.isdisjoint({"early_issue", "in_flight"})
    assert result.best is not None and result.best.family == "all_reduce:world4:1"


def test_a_family_keeps_its_cheapest_and_it_is_proven() -> None:
    result = found_at(tp_mlp(TINY), plain)
    assert len({c.family for c in result.elites}) == len(result.elites)
    for elite in result.elites:
        same = [c for c in result.candidates if c.family == elite.family]
        assert elite.order == min(c.order for c in same)


def test_a_sum_that_can_hide_behind_what_the_model_has_left_over_is_tried_at_the_same_price() -> None:
    alone = {"microbatches": 1, "layers": 2, "shape": [1, 2, 6]}
    for site in ("exit", "entry"):
        found = found_at(tp_mlp({**alone, "site": site}), plain).candidates
        assert any(overlaps(c.program) for c in found) is (site == "entry")
