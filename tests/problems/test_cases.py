"""Cases of all Problems: ids and bytes, small stand-ins, placements, and fields that do not fit."""

import re
from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.program.kinds import Placement
from tests.known_cases import SMALL, case

PARTIAL, REPLICATE, VARYING = Placement.PARTIAL, Placement.REPLICATE, Placement.VARYING
TP = {"microbatches": 8, "layers": 8, "shape": [1, 64, 128]}
BLOCK = {"microbatches": 1, "layers": 2, "shape": [1, 64, 128]}
FSDP = {"microbatches": 2, "layers": 2, "shape": [64, 32]}
RING = {"heads": 4, "sequence": 256, "head_dim": 16}
PP = {"microbatches": 4, "shape": [1, 3, 5]}
RAGGED = [[1, 4, 0, 2], [3, 0, 5, 1], [0, 0, 0, 0], [1, 1, 3, 0]]
SUMMED = {"kind": "all_reduce_sum", "elements": 6}
KIB = 1024
ONE_WAY, ALL_REDUCE = 0.75, 1.5  # bus factors of four ranks


@pytest.mark.parametrize(
    ("problem", "entry", "id_", "payload_bytes", "bus_factor"),
    [
        ("tp_mlp", TP, "n4-m8-l8-32KiB-f32", 64 * 32 * KIB, ALL_REDUCE),
        ("layer_block_ar", BLOCK, "n4-m1-l2-32KiB-f32", 2 * 32 * KIB, ALL_REDUCE),
        ("layer_block_ar", BLOCK | {"site": "entry"}, "n4-m1-l2-32KiB-entry-f32", 2 * 32 * KIB, ALL_REDUCE),
        ("grad_ar", {"sizes": [3, 4]}, "n4-t2-28B-f32", 28, ALL_REDUCE),
        ("grad_ar", {"sizes": [3, 4], "overlap": True}, "n4-t2-28B-overlap-f32", 28, ALL_REDUCE),
        ("fsdp_prefetch", FSDP, "n4-m2-l2-8KiB-f32", 4 * 8 * KIB, ONE_WAY),
        (
            *("fsdp_prefetch", FSDP | {"shards": "columns", "site": "regather"}),
            *("n4-m2-l2-8KiB-columns-regather-f32", 4 * 8 * KIB, ONE_WAY),
        ),
        ("ring_kv", RING, "n4-h4-s256-64KiB-f32", 2 * 64 * KIB, ONE_WAY),
        ("attention", RING, "n4-h4-s256-64KiB-f32", 2 * 64 * KIB, ONE_WAY),
        ("uniform_a2a", {"payload": "64KiB"}, "n4-64KiB-f32", 64 * KIB, ONE_WAY),
        ("pp_send_recv", PP, "n4-m4-60B-gpipe-f32", 4 * 60, 1),
        ("all_to_next", {"elements": 15}, "n4-60B-f32", 60, 1),
        ("all_to_next", {"payload": "1KiB", "round": True}, "n4-1KiB-round-f32", KIB, 1),
        (
            *("alltoallv", {"pattern": "skewed", "rows": 16, "width": 64}),
            *("n4-skewed-7KiB-f32", 7 * KIB, ONE_WAY),
        ),
        ("alltoallv", {"counts": RAGGED, "width": 3}, "n4-counts-108B-f32", 9 * 3 * 4, ONE_WAY),
        ("dist_ce", {"tokens": 16, "vocabulary": 24}, "n4-t16-v24-f32", 3 * 16 * 4, ALL_REDUCE),
        ("captured", {"calls": [SUMMED]}, "n4-all_reduce_sum-6-f32", 24, ALL_REDUCE),
        (
            *("captured", {"calls": [SUMMED, {"kind": "all_gather", "elements": 6, "after": [0]}]}),
            *("n4-c2-48B-433c07-f32", 48, (ALL_REDUCE + 3) / 2),
        ),
        (
            *("dist_ce", {"tokens": 16, "vocabulary": 24, "range": 60}),
            *("n4-t16-v24-within60-f32", 3 * 16 * 4, ALL_REDUCE),
        ),
    ],
)
def test_a_case_has_a_readable_id_bytes_and_a_bus_factor(
    problem: str, entry: dict[str, Any], id_: str, payload_bytes: int, bus_factor: float
) -> None:
    at = case(problem, entry)
    assert at.id == f"{problem}/{id_}"
    assert (catalog.payload_bytes(at), catalog.bus_factor(at)) == (payload_bytes, bus_factor)


def test_the_id_tells_the_site_groups_nodes_and_dtype() -> None:
    where = {"ranks": 32, "ranks_per_node": 16, "groups": 7, "strided": True, "dtype": "bfloat16"}
    at = case("tp_mlp", TP | {"site": "entry"}, **where)
    assert at.id == "tp_mlp/n32s7-r16-m8-l8-16KiB-entry-bf16"


@pytest.mark.parametrize(
    ("problem", "entry", "ranks", "ranks_per_node", "id_"),
    [
        (
            *("layer_block_ar", {"microbatches": 8, "layers": 16, "shape": [1, 8, 4], "site": "entry"}),
            *(32, 8, "n8-r4-m2-l2-128B-entry-f32"),
        ),
        ("ring_kv", RING | {"sequence": 258}, 6, 6, "n4-h2-s260-32.5KiB-f32"),
        ("pp_send_recv", PP | {"microbatches": 16, "schedule": "1f1b"}, 32, 8, "n8-r4-m4-60B-1f1b-f32"),
        ("all_to_next", {"elements": 15, "round": True}, 32, 8, "n8-r4-60B-round-f32"),
        ("dist_ce", {"tokens": 8, "vocabulary": 224 * 144}, 224, 32, "n8-r4-t8-v1152-f32"),
        (
            *("fsdp_prefetch", {"microbatches": 4, "layers": 16, "shape": [30, 42], "site": "regather"}),
            *(6, 6, "n4-m2-l2-5.2KiB-regather-f32"),  # 32 rows
        ),
        (
            *("fsdp_prefetch", {"microbatches": 4, "layers": 16, "shape": [30, 42], "shards": "columns"}),
            *(6, 6, "n4-m2-l2-5.2KiB-columns-f32"),  # 44 columns
        ),
    ],
)
def test_a_search_may_use_a_smaller_case_of_the_same_shapes(
    problem: str, entry: dict[str, Any], ranks: int, ranks_per_node: int, id_: str
) -> None:
    small = catalog.proxy(case(problem, entry, ranks=ranks, ranks_per_node=ranks_per_node))
    assert small is not None and small.id == f"{problem}/{id_}"
    assert catalog.proxy(small) is None
    cut = {"rows": (32, 42), "columns": (30, 44)}
    assert problem != "fsdp_prefetch" or small["shape"] == cut[small["shards"]]


@pytest.mark.parametrize(
    ("problem", "port", "placement", "cotangent"),
    [
        ("tp_mlp", ("partial", 0, 0), PARTIAL, REPLICATE),
        ("tp_mlp", ("total", 0, 0), REPLICATE, REPLICATE),
        ("layer_block_ar", ("partial", 0, 0, 1), PARTIAL, REPLICATE),
        ("layer_block_ar", ("total", 0, 0), REPLICATE, REPLICATE),
        ("grad_ar", ("gradient", 0), VARYING, VARYING),
        ("grad_ar", ("mean", 0), REPLICATE, VARYING),
        ("fsdp_prefetch", ("shard", 0), VARYING, VARYING),
        ("fsdp_prefetch", ("full", 0, 0), REPLICATE, PARTIAL),
        ("ring_kv", ("shard", 0), VARYING, VARYING),
        ("ring_kv", ("full", 0), REPLICATE, PARTIAL),
        ("uniform_a2a", ("send",), VARYING, VARYING),
        ("uniform_a2a", ("received",), VARYING, VARYING),
        ("alltoallv", ("send",), VARYING, VARYING),
        ("alltoallv", ("received",), VARYING, VARYING),
        ("all_to_next", ("given",), VARYING, VARYING),
        ("all_to_next", ("received",), VARYING, VARYING),
        *(("attention", (name,), VARYING, VARYING) for name in ("q", "k", "v", "out", "lse")),
        *(("dist_ce", (name,), REPLICATE, REPLICATE) for name in ("losses", "mean", "shift", "log_sum")),
    ],
)
def test_values_and_gradients_of_the_ranks_relate(
    problem: str, port: tuple[str | int, ...], placement: Placement, cotangent: Placement
) -> None:
    built = catalog.build(case(problem))
    spec = {**built.inputs, **built.outputs}[port]
    assert (spec.placement, spec.cotangent) == (placement, cotangent)


SIZES = {"count": 4, "smallest": "2KiB", "largest": "1KiB"}
ONE = {"count": 1, "smallest": 64, "largest": 64}
WRONG: dict[str, list[tuple[dict[str, Any], str]]] = {
    "tp_mlp": [
        ({**TP, "layers": 0}, "layers: .* 1 .got 0"),
        ({**TP, "layers": True}, "layers: .*integer .got T"),
        ({**TP, "shape": []}, "shape: .* 1 item"),
        ({**TP, "site": "middle"}, "site: .*or 'entry' .got"),
        ({**TP, "layer": 8}, "layer: .*mean 'layers'"),
        ({"microbatches": 1, "layers": 1}, "shape: .* there"),
    ],
    "layer_block_ar": [({**BLOCK, "layers": 0}, "layers: .* 1 .got 0")],
    "grad_ar": [
        ({}, "either sizes or tensors"),
        ({"tensors": 40}, "tensors: .*object .got 40"),
        ({"tensors": SIZES}, "most .*got 512 and 256"),
        ({"tensors": {**SIZES, "smallest": "1B"}}, "smallest .*got 0 and 256"),
        ({"sizes": [1, -1]}, "sizes.1: .* 1 .got -1"),
        ({"tensors": {**ONE, "count": 0}}, "tensors.count: .*got 0"),
        ({"sizes": [1], "tensors": ONE}, "give either"),
        ({"sizes": [1], "overlap": "yes"}, "overlap: .*'yes'.: true"),
    ],
    "fsdp_prefetch": [
        ({**FSDP, "shape": [66, 32]}, "rows .*66 over 4.* to 68"),
        ({**FSDP, "shape": [64, 30], "shards": "columns"}, "columns .*30 over 4.* 32"),
        ({**FSDP, "shape": [64]}, "shape.1: .*there: .*rows"),
        ({**FSDP, "layers": 0}, "layers: .* 1 .got 0"),
        ({**FSDP, "shards": "blocks"}, "shards: .*'columns' .got"),
        ({**FSDP, "site": "entry"}, "site: .*'regather' .got"),
    ],
    "ring_kv": [
        ({**RING, "sequence": 255}, "sequence .*255 over 4.* 256"),
        ({**RING, "heads": 0}, "heads: .* 1 .got 0"),
        ({**RING, "width": 1}, "width: .*no such field"),
    ],
    "uniform_a2a": [
        ({"payload": "8B"}, "payload .* of 16$"),
        ({"payload": "64KiB", "width": 63}, "payload .* of 1008"),
        ({"payload": "64 kilobytes"}, "payload: .*such as 64KiB"),
        ({"payload": "64KiB", "chunk": 1}, "either payload, or chunk"),
        ({"chunk": 1}, "width must .*chunk"),
    ],
    "alltoallv": [
        ({"width": 3, "pattern": "uniform", "rows": 10}, "rows .*got 10 and 4.* of 4"),
        ({"width": 3, "pattern": "uniform"}, "counts, or .* and rows"),
        ({"width": 3, "rows": 8}, "counts, or .* and rows"),
        ({"width": 3, "pattern": "normal", "rows": 8}, "pattern: .*or .*'normal'"),
        ({"width": 3, "counts": [[1, 1], [1, 1]]}, "got 2 rows of 2.* 4 x 4"),
        ({"width": 3, "counts": [[1] * 4] * 3 + [[1] * 5]}, r"\(got 4 rows of 4, 5\)"),
        ({"width": 3, "counts": [[1] * 4] * 3 + [[1, 1, -1, 1]]}, "counts.*to 0 .got -1"),
        ({"width": 3, "counts": [[1] * 4] * 3 + [[1, 1, 2, 1]], "rows": 4}, "got 5 of rank 3, .*rows 4"),
        ({"width": 3, "counts": [[0] * 4] * 4}, "counts are all 0"),
        ({"width": 0, "counts": RAGGED}, "width: .*got 0"),
    ],
    "captured": [
        ({"calls": []}, "calls: .* 1 item"),
        ({"calls": [{"kind": "broadcast", "elements": 1}]}, "kind: one of all_reduce_sum.*'broadcast'"),
        ({"calls": [{"kind": "all_gather", "elements": 0}]}, "elements: .* 1 .got 0"),
        ({"calls": [{"kind": "all_to_all", "elements": 6}]}, "6 elements over 4 .*multiple of 4"),
        ({"calls": [{"kind": "all_gather", "elements": 1, "after": [0]}]}, "earlier calls"),
    ],
    "all_to_next": [
        ({}, "either elements or payload"),
        ({"elements": 4, "payload": 16}, "either elements or payload"),
        ({"elements": 0}, "elements: .* 1 .got 0"),
        ({"payload": "6B"}, "whole elements of 4 bytes .got 6.: .* multiple of 4"),
        ({"elements": 4, "round": "yes"}, "round: .*'yes'.: the last"),
    ],
    "attention": [
        ({**RING, "sequence": 18}, "sequence must divide .*got 18 over 4.: pad it to 20"),
        ({**RING, "heads": 0}, "heads: .* 1 .got 0"),
    ],
    "dist_ce": [
        ({"tokens": 4, "vocabulary": 50257}, "got 4 and 50257.* 50260"),
        ({"tokens": 0, "vocabulary": 8}, "tokens: .* 1 .got 0"),
        ({"tokens": 4, "vocabulary": 8, "range": 0}, "range: .* 1 .got 0"),
    ],
}


@pytest.mark.parametrize(
    ("problem", "entry", "message"), [(name, *one) for name, some in WRONG.items() for one in some]
)
def test_what_does_not_fit_is_refused_with_the_field_and_the_mend(
    problem: str, entry: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{problem}: ") as refused:
        case(problem, entry)
    assert re.search(message, str(refused.value))


@pytest.mark.parametrize(
    ("problem", "entry", "ranks", "message"),
    [
        ("uniform_a2a", {"payload": "64KiB"}, 3, "payload .* of 65532"),
        *(
            ("pp_send_recv", PP, ranks, rf"ranks .*even.*\(got {ranks}\): {mend}$")
            for ranks, mend in ((3, "choose 4"), (5, "choose 6 or 4"), (225, "choose 226 or 224"))
        ),
    ],
)
def test_ranks_that_do_not_fit_are_refused(
    problem: str, entry: dict[str, Any], ranks: int, message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{problem}: {message}"):
        case(problem, entry, ranks=ranks)


def test_all_problems_are_here() -> None:
    assert set(WRONG) | {"pp_send_recv"} == set(SMALL)
