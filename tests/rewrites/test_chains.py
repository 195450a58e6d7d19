"""Every strategy of a library is reached from its plainest alone, digest for digest, by a chain of steps."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from overlayccl_core import catalog
from overlayccl_core.configuration.sizes import MIB
from overlayccl_core.gates import equivalence
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program.library import Role, read_library
from overlayccl_core.program.problem import Direction, Problem
from overlayccl_core.program.transpose import transpose
from overlayccl_core.rewrites.apply import Step, apply
from overlayccl_core.rewrites.recipe import Recipe, TransposeOf, replay
from tests.known_cases import case

SUM = "all_reduce:world:1"
ONE_GRAPH = ("drop_boundary", SUM, "")
MERGED = ("merge", SUM, "all")
BY_SHARES = ("reduce_scatter_all_gather", SUM, "")
BY_TIERS = ("two_tiers", SUM, "scatter")
MY_SLICE = ("equal_copies", "reduce_scatter:world:2", "")
EXCHANGED = ("send_what_is_read", "all_gather:world:1", "")

GATHERED = ("gather_and_sum", SUM, "")


def summed(*first: Step) -> dict[str, tuple[Step, ...]]:
    """The chains to the ways of summing."""
    return {
        "coalesced": (*first, ("coalesce", SUM, "all")),
        "reduce_scatter_all_gather": (*first, MERGED, BY_SHARES),
        "all_to_all_sum": (*first, MERGED, BY_SHARES, ("exchange_and_sum", "reduce_scatter:world:1", "")),
        "gather_and_sum": (*first, MERGED, GATHERED),
        "all_to_all_of_copies": (*first, MERGED, GATHERED, ("exchange_of_copies", "all_gather:world:1", "")),
        "bf16_on_the_wire": (*first, MERGED, ("wire_dtype", SUM, "bfloat16")),
        "hierarchical": (*first, MERGED, BY_TIERS),
    }


TP_MLP: dict[str, tuple[Step, ...]] = {
    "developer": (),
    "single_graph": (ONE_GRAPH,),
    "merged_over_microbatches": (ONE_GRAPH, MERGED),
    **summed(ONE_GRAPH),
}
UNIFORM_A2A: dict[str, tuple[Step, ...]] = {
    "gather_reduce_scatter": (),
    "gather_slice": (MY_SLICE,),
    "native": (MY_SLICE, EXCHANGED),
    "permute_ring": (MY_SLICE, EXCHANGED, ("ring", "all_to_all:world:1", "")),
    "two_step_hierarchical": (MY_SLICE, EXCHANGED, ("two_tiers", "all_to_all:world:1", "")),
}
GRAD_AR: dict[str, tuple[Step, ...]] = {
    "one_by_one": (),
    "reduce_back_to_back": (),  # the same values; the order in which they are issued is no value
    "flat": (MERGED,),
    "buckets_32_mib": (("merge", SUM, "32MiB"),),
    "buckets_64_mib": (("merge", SUM, "64MiB"),),
    "zero_1_buckets_130_mib": (  # on four ranks: 32 MiB of shares are 128 MiB gathered
        BY_SHARES,
        ("merge", "reduce_scatter:world:1", "130MiB"),
        ("merge", "all_gather:world:2", "128MiB"),
    ),
    **summed(),
}
GATHER, EXCHANGE, PERMUTE = "all_gather:world:1", "all_to_all:world:1", "collective_permute:other:1"
AS_RING = ("ring", EXCHANGE, "")
ALLTOALLV: dict[str, tuple[Step, ...]] = {
    "gather_reduce_scatter": (),
    "gather_slice": (MY_SLICE,),
    "packed_gather_take": (MY_SLICE, ("packed_layout", GATHER, "")),
    "native": (MY_SLICE, EXCHANGED),
    "permute_ring": (MY_SLICE, EXCHANGED, AS_RING),
    "packed_permute_ring": (MY_SLICE, EXCHANGED, AS_RING, ("packed_layout", PERMUTE, "")),
    "two_step_hierarchical": (MY_SLICE, EXCHANGED, ("two_tiers", EXCHANGE, "")),
}


def gathered(*first: Step) -> dict[str, tuple[Step, ...]]:
    """The chains to the ways of gathering."""
    return {
        "all_to_all_of_copies": (*first, ("exchange_of_copies", GATHER, "")),
        "permute_ring": (*first, ("ring", GATHER, "handed_on")),
        "two_step_hierarchical": (*first, ("two_tiers", GATHER, "")),
    }


RING_KV: dict[str, tuple[Step, ...]] = {
    "per_head": (),
    "per_slot": (("merge", GATHER, "1/2"),),
    "joined": (("merge", GATHER, "all"),),
    **gathered(("merge", GATHER, "all")),
}
ATTENTION: dict[str, tuple[Step, ...]] = {
    "gathered": (),
    "joined": (("merge", GATHER, "all"),),
    **gathered(("merge", GATHER, "all")),
}
LIVE = ("disjoint_support", SUM, "")
PP_SEND_RECV: dict[str, tuple[Step, ...]] = {
    "masked_all_reduce": (),
    "merged_all_reduce": (ONE_GRAPH, MERGED),
    "gather_take": (ONE_GRAPH, LIVE),
    "pair_gather": (ONE_GRAPH, LIVE, ("narrow_groups", GATHER, "")),
    "send_receive": (ONE_GRAPH, LIVE, ("permute_what_is_read", GATHER, "")),
}
ONE_GATHER_GRAPH = ("drop_boundary", GATHER, "")
FSDP_PREFETCH: dict[str, tuple[Step, ...]] = {
    "prefetched": (),
    "one_by_one": (),  # the same values, gathered later
    "in_lockstep": (ONE_GATHER_GRAPH,),
    "gathered_once": (ONE_GATHER_GRAPH,),
    "merged_under_256_mib": (ONE_GATHER_GRAPH, ("merge", GATHER, "256MiB")),
    "merged_under_512_mib": (ONE_GATHER_GRAPH, ("merge", GATHER, "512MiB")),
    **gathered(ONE_GATHER_GRAPH),
}
ADDED_BEFORE = ("one_reduction", SUM, "")
LAYER_BLOCK_AR: dict[str, tuple[Step, ...]] = {
    "two_sums": (),
    "developer": (ADDED_BEFORE,),
    "single_graph": (ADDED_BEFORE, ONE_GRAPH),
    "merged_over_microbatches": (ADDED_BEFORE, ONE_GRAPH, MERGED),
    **summed(ADDED_BEFORE, ONE_GRAPH),
}
BEFORE = ("push_through_gather", GATHER, "")
THEN_BEFORE = ("push_through_gather", "all_gather:world:2", "")
DIST_CE: dict[str, tuple[Step, ...]] = {
    "gather_logits": (),
    "three_all_reduce": (BEFORE, THEN_BEFORE, THEN_BEFORE),
    "coalesced": (BEFORE, THEN_BEFORE, THEN_BEFORE, ("coalesce", "all_reduce:world:2", "all")),
}
ONWARD, IN_FOUR = ("permute_what_is_read", GATHER, ""), ("split", PERMUTE, "4")
ALL_TO_NEXT: dict[str, tuple[Step, ...]] = {
    "gather_take": (),
    "direct": (ONWARD,),
    "in_pieces": (ONWARD, IN_FOUR),
    "all_to_all_take": (ONWARD, IN_FOUR, ("exchange_of_permutes", PERMUTE, "")),
}
CHAINS = {
    "tp_mlp": TP_MLP,
    "uniform_a2a": UNIFORM_A2A,
    "grad_ar": GRAD_AR,
    "alltoallv": ALLTOALLV,
    "ring_kv": RING_KV,
    "pp_send_recv": PP_SEND_RECV,
    "fsdp_prefetch": FSDP_PREFETCH,
    "layer_block_ar": LAYER_BLOCK_AR,
    "dist_ce": DIST_CE,
    "attention": ATTENTION,
    "all_to_next": ALL_TO_NEXT,
}
PLAINEST = {problem: next(iter(chains)) for problem, chains in CHAINS.items()}  # where all chains begin
README = Path(__file__).parents[2] / "overlayccl_core/rewrites/README.md"
NOT_REACHED = re.compile(r"^\| `(\w+)/(\w+)` \|", re.MULTILINE)  # rows of its table

MIXED_MIB = (3, 30, 1, 12, 9, 20, 5, 26, 2, 2, 18, 7)  # 25, 32 and 64 MiB cut these in different places


class At(NamedTuple):
    """A Case and a direction at which the chains are tried."""

    problem: str
    entry: dict[str, Any] | None = None
    ranks: int = 4
    ranks_per_node: int = 0
    backward: bool = False
    dtype: str = "float32"

    def build(self) -> Problem:
        at = case(
            self.problem,
            self.entry,
            ranks=self.ranks,
            ranks_per_node=self.ranks_per_node,
            dtype=self.dtype,
        )
        directions = {p.direction: p for p in catalog.directions(at)}
        return directions[Direction.BACKWARD if self.backward else Direction.FORWARD]


ENTRY = {
    "microbatches": 2,
    "layers": 3,
    "shape": [1, 3, 3],
    "site": "entry",
}  # 18 elements: padded on 4 ranks
LARGER_THAN = {"zero_1_buckets_130_mib": 130}  # MiB that they are for
LARGE = {"sizes": [mib * MIB // 4 for mib in MIXED_MIB]}
PLACES = {
    "exit": At("tp_mlp"),
    "exit, two tiers": At("tp_mlp", ranks_per_node=2),
    "entry": At("tp_mlp", ENTRY),
    "entry, two tiers": At("tp_mlp", ENTRY, ranks_per_node=2),
    "exit, 6 ranks in nodes of 3": At("tp_mlp", ranks=6, ranks_per_node=3),
    "exchange": At("uniform_a2a"),
    "exchange, two tiers": At("uniform_a2a", ranks=6, ranks_per_node=2),
    "exchange backward": At("uniform_a2a", backward=True),
    "exchange backward, two tiers": At("uniform_a2a", ranks_per_node=2, backward=True),
    "gradients": At("grad_ar", ranks=3),
    "gradients, two tiers": At("grad_ar", ranks_per_node=2),
    "large gradients": At("grad_ar", LARGE),
    "large gradients, overlapped": At("grad_ar", {**LARGE, "overlap": True}),
    "large gradients, bfloat16": At("grad_ar", LARGE, dtype="bfloat16"),
    "rows": At("alltoallv"),
    "rows of experts": At("alltoallv", {"pattern": "zipf", "rows": 48, "width": 3}),
    "rows, two tiers": At(
        "alltoallv", {"pattern": "zipf", "rows": 48, "width": 3}, ranks=6, ranks_per_node=3
    ),
    "rows backward": At("alltoallv", {"pattern": "zipf", "rows": 48, "width": 3}, backward=True),
    "keys and values": At("ring_kv"),
    "keys and values, 6 ranks": At("ring_kv", ranks=6),
    "activations": At("pp_send_recv"),
    "activations, 6 ranks": At("pp_send_recv", ranks=6),
    "activations, 1f1b": At("pp_send_recv", {"microbatches": 4, "shape": [1, 5, 7], "schedule": "1f1b"}),
    "to the next, round": At("all_to_next", {"elements": 12, "round": True}),
    "to the next, round, two tiers": At("all_to_next", {"elements": 16, "round": True}, ranks_per_node=2),
    "parameters": At("fsdp_prefetch"),
    "parameters by columns, gathered again": At(
        "fsdp_prefetch",
        {"microbatches": 2, "layers": 3, "shape": [5, 24], "shards": "columns", "site": "regather"},
    ),
    "large parameters": At("fsdp_prefetch", {"microbatches": 2, "layers": 7, "shape": [4096, 6144]}),
    "parallel block": At("layer_block_ar"),
    "parallel block, entry": At("layer_block_ar", {**ENTRY, "microbatches": 3}),
    "attention": At("attention"),
    "attention in 16 bits, two nodes": At("attention", ranks_per_node=2, dtype="bfloat16"),
    "logits": At("dist_ce", {"tokens": 8, "vocabulary": 24}),
    "logits of one token, 6 ranks": At("dist_ce", {"tokens": 1, "vocabulary": 30}, ranks=6),
    "logits in 16 bits": At("dist_ce", {"tokens": 5, "vocabulary": 16}, dtype="bfloat16"),
}


def targets(at: At) -> list[str]:
    """The strategies that have a meaning there."""
    meaningless = set() if 0 < at.ranks_per_node < at.ranks else {"hierarchical", "two_step_hierarchical"}
    if at.entry and at.entry.get("schedule") == "1f1b":
        meaningless.add("merged_all_reduce")  # which waits for itself there
    if at.entry and at.entry.get("overlap"):
        meaningless.add("zero_1_buckets_130_mib")  # `merge` gathers first what the outputs begin with
    bytes_of = {"float32": 4, "bfloat16": 2}[at.dtype] * sum((at.entry or {}).get("sizes", ()))
    if at.dtype == "bfloat16":
        meaningless.add("bf16_on_the_wire")
    meaningless |= {name for name, mib in LARGER_THAN.items() if bytes_of <= mib * MIB}
    return [name for name in CHAINS[at.problem] if name not in meaningless]


@pytest.mark.parametrize("problem", CHAINS)
def test_what_is_not_reached_stands_in_the_readme_and_all_else_in_the_table(problem: str) -> None:
    library = read_library(catalog.library_source(problem)).strategies
    written = {name for name, role in library if role is not Role.DERIVED}
    not_reached = {name for of, name in NOT_REACHED.findall(README.read_text()) if of == problem}
    assert not_reached.isdisjoint(CHAINS[problem])
    assert {*CHAINS[problem], *not_reached} == written


@pytest.mark.parametrize(
    ("place", "target"), [(place, target) for place, at in PLACES.items() for target in targets(at)]
)
def test_a_chain_from_the_plainest_meets_the_strategy(place: str, target: str) -> None:
    at = PLACES[place]
    problem = at.build()
    replayed = replay(Recipe(base=PLAINEST[at.problem], steps=CHAINS[at.problem][target]), problem)
    assert replayed.value_digest == replay(Recipe(base=target), problem).value_digest


@pytest.mark.parametrize("target", targets(At("uniform_a2a", ranks_per_node=2)))
def test_the_transpose_of_a_chain_is_the_transpose_of_the_strategy(target: str) -> None:
    problem = At("uniform_a2a", ranks_per_node=2, backward=True).build()
    chain = Recipe(base=PLAINEST["uniform_a2a"], steps=UNIFORM_A2A[target])
    replayed = replay(Recipe(base=TransposeOf(recipe=chain)), problem)
    way = replay(Recipe(base=TransposeOf(recipe=Recipe(base=target))), problem)
    assert replayed.value_digest == way.value_digest


def test_what_autograd_gives_of_the_plainest_exchange_reaches_the_native_one() -> None:
    problem = At("uniform_a2a", backward=True).build()
    program = transpose(replay(Recipe(base=PLAINEST["uniform_a2a"]), At("uniform_a2a").build()), problem)
    for step in UNIFORM_A2A["native"]:
        program = apply(program, step)
    assert program.value_digest == replay(Recipe(base="native"), problem).value_digest


def test_caps_of_32_and_64_mib_give_different_buckets() -> None:
    for place in ("large gradients", "large gradients, overlapped"):
        problem = PLACES[place].build()
        names = ("buckets_32_mib", "buckets_64_mib", "flat")
        assert len({replay(Recipe(base=name), problem).value_digest for name in names}) == 3


def test_a_cap_of_50_mib_gives_the_lists_of_a_backward_pass() -> None:
    problem = PLACES["large gradients, overlapped"].build()
    calls = replay(Recipe(base="coalesced_50_mib_reversed"), problem).calls
    assert [len(call) for call in calls] == [4, 2, 4, 2]


DIRECTLY = ("permute_directly", PERMUTE, "")
IN_ONE_EXCHANGE = ("exchange_of_permutes", PERMUTE, "")
OF_COPIES = ("gather_of_copies", EXCHANGE, "")
IN_PARTS = ("all_reduce_of_parts", "all_gather:world:2", "")
SCATTERED = ("reduce_scatter_of_sum", EXCHANGE, "")
GATHERED_SUM = ("all_reduce_of_gather", GATHER, "")
MERGED_SUMS, SHARES = "merged_over_microbatches", "reduce_scatter_all_gather"


@pytest.mark.parametrize(
    ("places", "base", "steps", "target"),
    [
        (("exit", "entry"), SHARES, (IN_PARTS,), MERGED_SUMS),
        (("exit", "entry"), "all_to_all_sum", (SCATTERED,), SHARES),
        (("exit", "entry"), "all_to_all_of_copies", (OF_COPIES, GATHERED_SUM), MERGED_SUMS),
        (("exchange", "rows", "rows of experts"), "permute_ring", (IN_ONE_EXCHANGE,), "native"),
        (("keys and values",), "per_slot", (("ring", GATHER, ""), IN_ONE_EXCHANGE, OF_COPIES), "per_slot"),
        (
            ("keys and values",),
            "per_slot",
            (("ring", GATHER, "handed_on"), DIRECTLY, IN_ONE_EXCHANGE, OF_COPIES),
            "per_slot",
        ),
        (("activations",), "gather_take", (("permute_what_is_read", GATHER, ""),), "send_receive"),
        (
            ("activations",),
            "pair_gather",
            (("permute_what_is_read", "all_gather:other:1", ""),),
            "send_receive",
        ),
        (
            ("large gradients, overlapped",),
            "one_by_one",
            (("coalesce", SUM, "50MiB"),),
            "coalesced_50_mib_reversed",
        ),
    ],
)
def test_ways_back_and_ways_across_meet_a_strategy(
    places: tuple[str, ...], base: str, steps: tuple[Step, ...], target: str
) -> None:
    for place in places:
        problem = PLACES[place].build()
        replayed = replay(Recipe(base=base, steps=steps), problem)
        assert replayed.value_digest == replay(Recipe(base=target), problem).value_digest, place


def test_caps_of_256_and_512_mib_are_of_what_is_gathered() -> None:
    problem = PLACES["large parameters"].build()  # 96 MiB each
    names = ("merged_under_256_mib", "merged_under_512_mib", "gathered_once")
    assert [len(replay(Recipe(base=name), problem).collectives) for name in names] == [4, 2, 7]


@pytest.mark.parametrize(
    "at",
    [
        At("tp_mlp", {"microbatches": 3, "layers": 4, "shape": [2, 3, 5]}, ranks=8, ranks_per_node=4),
        At("tp_mlp", {"microbatches": 2, "layers": 1, "shape": [1, 4, 7]}, ranks=64, ranks_per_node=32),
        At("uniform_a2a", {"chunk": 2, "width": 3}, ranks=8, ranks_per_node=4),
        At("grad_ar", {"sizes": [5, 300, 2]}, ranks=64, ranks_per_node=32),
        At("alltoallv", {"pattern": "zipf", "rows": 64, "width": 3}, ranks=8, ranks_per_node=4),
        At("ring_kv", {"heads": 2, "sequence": 24, "head_dim": 3}, ranks=8),
        At("pp_send_recv", {"microbatches": 4, "shape": [1, 2, 3]}, ranks=96, ranks_per_node=32),
        At("fsdp_prefetch", {"microbatches": 2, "layers": 3, "shape": [64, 5]}, ranks=64, ranks_per_node=32),
        At("layer_block_ar", {"microbatches": 3, "layers": 2, "shape": [2, 3, 5]}, ranks=8, ranks_per_node=4),
        At("dist_ce", {"tokens": 20, "vocabulary": 1152}, ranks=64, ranks_per_node=32),
        At("attention", {"heads": 2, "sequence": 24, "head_dim": 3}, ranks=8, ranks_per_node=4),
    ],
    ids=lambda at: f"{at.problem}-n{at.ranks}",
)
def test_chains_replay_at_another_size_and_are_proven_there(at: At) -> None:
    problem = at.build()
    reference = catalog.reference_program(problem)
    for target, steps in ((target, CHAINS[at.problem][target]) for target in targets(at)):
        program = replay(Recipe(base=PLAINEST[at.problem], steps=steps), problem)
        assert program.value_digest == replay(Recipe(base=target), problem).value_digest, target
        assert equivalence.prove(program, reference).outcome is Outcome.PASS, target
