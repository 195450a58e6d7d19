"""Families: what counts in them and what does not."""

from overlayccl_core import catalog
from overlayccl_core.program.kinds import IssueOrder
from overlayccl_core.program.lowering import overlaps
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.rewrites.apply import Step, apply
from overlayccl_core.search.family import family_of, is_lossy
from overlayccl_core.search.labels import has_labels, may_overlap, orders, other_orders
from tests.known_cases import case
from tests.search.costs import bases_of

SUM = "all_reduce:world:1"
DROP = ("drop_boundary", SUM, "")
EARLY, AHEAD = ("early_issue", SUM, ""), ("in_flight", SUM, "2")


def developer() -> Program:
    return bases_of(catalog.build(case("tp_mlp")))[0].program


def after(*steps: Step) -> Program:
    program = developer()
    for step in steps:
        program = apply(program, step)
    return program


def test_a_family_names_kinds_groups_depth_and_labels() -> None:
    assert family_of(developer(), feasible=True) == "all_reduce:world4:1, several graphs"
    assert family_of(after(DROP), feasible=True) == "all_reduce:world4:1"
    assert family_of(after(DROP, EARLY), feasible=True) == "all_reduce:world4:1, early"
    assert family_of(after(DROP, AHEAD), feasible=True) == "all_reduce:world4:1, 2 in flight"
    two = after(DROP, ("reduce_scatter_all_gather", SUM, ""))
    assert family_of(two, feasible=True) == "reduce_scatter:world4:1 + all_gather:world4:2"


def test_buckets_are_no_family_and_what_cannot_run_is_one_of_its_own() -> None:
    merged, whole = after(DROP, ("merge", SUM, "all")), after(DROP)
    assert family_of(merged, feasible=True) == family_of(whole, feasible=True)
    assert family_of(merged, feasible=False) == "all_reduce:world4:1, infeasible"


def test_sixteen_bits_are_another_family() -> None:
    narrow = after(DROP, ("wire_dtype", SUM, "bfloat16"))
    assert is_lossy(narrow) and not is_lossy(after(DROP))
    assert family_of(narrow, feasible=True) == "all_reduce:world4:1, lossy"


def test_labels_and_what_may_be_in_flight_together() -> None:
    assert has_labels(developer()) and not has_labels(after(DROP))
    assert has_labels(after(DROP, EARLY)) and orders(after(DROP, EARLY, AHEAD)) == [IssueOrder.TWO]
    assert other_orders(after(DROP)) == (
        (EARLY,),
        *((("in_flight", SUM, knob),) for knob in ("2", "4", "all")),
    )
    assert not may_overlap(after(DROP, ("merge", SUM, "all")))


def test_where_ranks_compile_the_order_of_calls_is_no_choice() -> None:
    compiled = apply(bases_of(catalog.build(case("tp_mlp", uniform=True)))[0].program, DROP)
    assert not may_overlap(compiled) and other_orders(compiled) == () and not overlaps(compiled)


def test_a_sum_alone_may_be_in_flight_while_the_model_does_what_it_has_left_over() -> None:
    """Of one microbatch nothing else can be: each sum waits for the one before it."""
    entry = {"microbatches": 1, "layers": 2, "shape": [1, 4, 8]}
    for site, may in (("exit", False), ("entry", True)):
        at = catalog.case("tp_mlp", {**entry, "site": site}, ranks=4, ranks_per_node=4)
        program = bases_of(catalog.build(at))[0].program
        assert may_overlap(program) is may and not overlaps(program)
        assert overlaps(apply(program, ("early_issue", SUM, ""))) is may


def test_gathering_ahead_is_in_flight_where_a_write_lets_a_layer_compute() -> None:
    at = catalog.case(
        "fsdp_prefetch", {"microbatches": 1, "layers": 3, "shape": [8, 4]}, ranks=4, ranks_per_node=4
    )
    source = catalog.library_source("fsdp_prefetch")
    overlapping = {
        name: overlaps(trace_source(source, name, catalog.build(at)))
        for name in ("prefetched", "one_by_one", "gathered_once", "merged_under_256_mib")
    }
    # all gathers of `gathered_once` are in flight before the first layer; to read a shard computes nothing
    assert overlapping == {
        "prefetched": True,
        "one_by_one": False,
        "gathered_once": True,
        "merged_under_256_mib": False,
    }
