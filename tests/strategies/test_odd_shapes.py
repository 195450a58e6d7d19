"""Known ways at odd and ragged shapes: every one is legal and proven, forward and backward."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlayccl_core import catalog
from overlayccl_core.gates import legality
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program.kinds import NotApplicable
from overlayccl_core.program.library import Role
from overlayccl_core.stages.known_ways import known_ways_of
from tests.known_cases import case, proof_of

RANKS = (2, 3, 5, 6)
ODD = st.sampled_from([1, 2, 3, 5, 7, 11])
FEW = st.integers(1, 3)
EVEN = ("pp_send_recv",)  # they refuse an odd number of ranks
NONLINEAR = ("attention", "dist_ce")  # in 16 bits a random one may be further off than its developer's


def _layer_block_ar(ranks: int) -> st.SearchStrategy[Mapping[str, Any]]:
    return st.fixed_dictionaries(
        {
            "microbatches": FEW,
            "layers": FEW,
            "shape": st.lists(ODD, min_size=1, max_size=3),
            "site": st.sampled_from(["exit", "entry"]),
        }
    )


def _ring_kv(ranks: int) -> st.SearchStrategy[Mapping[str, Any]]:
    return st.fixed_dictionaries({"heads": FEW, "sequence": ODD.map(lambda n: n * ranks), "head_dim": ODD})


def _fsdp_prefetch(ranks: int) -> st.SearchStrategy[Mapping[str, Any]]:
    def entry(shards: str) -> st.SearchStrategy[Mapping[str, Any]]:
        cut, whole = ODD.map(lambda n: n * ranks), ODD
        shape = st.tuples(cut, whole) if shards == "rows" else st.tuples(whole, cut)
        return st.fixed_dictionaries(
            {
                "microbatches": FEW,
                "layers": FEW,
                "shape": shape.map(list),
                "shards": st.just(shards),
                "site": st.sampled_from(["gather", "regather"]),
            }
        )

    return st.sampled_from(["rows", "columns"]).flatmap(entry)


def _uniform_a2a(ranks: int) -> st.SearchStrategy[Mapping[str, Any]]:
    return st.fixed_dictionaries({"chunk": ODD, "width": ODD})


def _alltoallv(ranks: int) -> st.SearchStrategy[Mapping[str, Any]]:
    patterns = st.sampled_from(["uniform", "zipf", "skewed", "zeros", "random", "increasing"])
    rows = ODD.map(lambda n: n * ranks)
    return st.fixed_dictionaries({"pattern": patterns, "rows": rows, "width": ODD})


def _grad_ar(ranks: int) -> st.SearchStrategy[Mapping[str, Any]]:
    sizes = st.lists(st.integers(1, 40), min_size=1, max_size=5)
    return st.fixed_dictionaries({"sizes": sizes, "overlap": st.booleans()})


def _pp_send_recv(ranks: int) -> st.SearchStrategy[Mapping[str, Any]]:
    def entry(schedule: str) -> st.SearchStrategy[Mapping[str, Any]]:
        held = FEW if schedule == "gpipe" else st.integers(1, 2)  # of more, not all ways are legal
        shape = st.lists(ODD, min_size=1, max_size=3)
        return st.fixed_dictionaries({"microbatches": held, "shape": shape, "schedule": st.just(schedule)})

    return st.sampled_from(["gpipe", "1f1b"]).flatmap(entry)


def _alltoallv(ranks: int) -> st.SearchStrategy[Mapping[str, Any]]:
    row = st.lists(st.integers(0, 4), min_size=ranks, max_size=ranks)
    counts = st.lists(row, min_size=ranks, max_size=ranks).filter(lambda rows: any(map(any, rows)))
    return st.fixed_dictionaries({"counts": counts, "width": ODD})


def _all_to_next(ranks: int) -> st.SearchStrategy[Mapping[str, Any]]:
    return st.fixed_dictionaries({"elements": ODD, "round": st.booleans()})


def _dist_ce(ranks: int) -> st.SearchStrategy[Mapping[str, Any]]:
    words = ODD.map(lambda n: n * ranks)  # one word on each rank is the least
    return st.fixed_dictionaries({"tokens": ODD, "vocabulary": words, "range": st.sampled_from([None, 40])})


def _attention(ranks: int) -> st.SearchStrategy[Mapping[str, Any]]:
    heads = st.sampled_from([1, 3, ranks, 2 * ranks])  # which the ranks divide, or not
    return st.fixed_dictionaries({"heads": heads, "sequence": ODD.map(lambda n: n * ranks), "head_dim": ODD})


ENTRIES = {
    "attention": _attention,
    "tp_mlp": _layer_block_ar,  # the same fields
    "uniform_a2a": _uniform_a2a,
    "alltoallv": _alltoallv,
    "grad_ar": _grad_ar,
    "pp_send_recv": _pp_send_recv,
    "dist_ce": _dist_ce,
    "layer_block_ar": _layer_block_ar,
    "ring_kv": _ring_kv,
    "fsdp_prefetch": _fsdp_prefetch,
    "all_to_next": _all_to_next,
}


@pytest.mark.parametrize("name", [name for name in ENTRIES if name not in NONLINEAR])
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_every_known_way_is_proven_at_any_shape(name: str, data: st.DataObject) -> None:
    assert_proven(name, data)


@pytest.mark.parametrize("name", NONLINEAR)
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_every_known_way_that_is_proven_by_values_is_so_at_any_shape(name: str, data: st.DataObject) -> None:
    assert_proven(name, data)


def assert_proven(name: str, data: st.DataObject) -> None:
    ranks = data.draw(st.sampled_from([n for n in RANKS if n % 2 == 0] if name in EVEN else RANKS))
    dtype = data.draw(st.sampled_from(["float32"] if name in NONLINEAR else ["float32", "bfloat16"]))
    at = case(name, data.draw(ENTRIES[name](ranks)), ranks=ranks, dtype=dtype)
    for problem in catalog.directions(at):
        for way in known_ways_of(problem):
            if not problem.linear and way.role is Role.DERIVED:
                continue  # proven exactly where they sum gradients
            try:
                program, proof = proof_of(problem, way.name)
            except NotApplicable:
                continue
            assert legality.check(program).outcome is Outcome.PASS
            assert proof.outcome is Outcome.PASS, proof.message
