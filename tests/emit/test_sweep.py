"""Every Problem's module with whatever tensors, process groups and defaults a script has, on two ranks."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.emit.deployed_case import DeployedCase
from overlayccl_core.launching.launch import Launch
from overlayccl_core.program.case import Case
from tests.emit.deployed_modules import case_of_ways, entry, way, write
from tests.emit.sweep_worker import LAYOUTS
from tests.known_cases import programs
from tests.on_ranks import launch

pytestmark = pytest.mark.ranks
RANKS = 2
IMAGE = [2, 3, 2, 4]
COUNTS = [[1, 3], [2, 4]]
# Each Problem's entry, its chosen way forward and (if another) backward, shapes of ports of one axis.
SWEPT: Mapping[str, tuple[Mapping[str, Any], tuple[str, ...], Mapping[str, list[int]]]] = {
    "tp_mlp": ({"microbatches": 2, "layers": 2, "shape": IMAGE}, ("merged_over_microbatches",), {}),
    "tp_mlp entry": (
        {"microbatches": 2, "layers": 1, "shape": [1, 5, 6], "site": "entry"}, ("all_to_all_of_copies",), {},
    ),
    "layer_block_ar": ({"microbatches": 2, "layers": 1, "shape": IMAGE}, ("two_sums",), {}),
    "layer_block_ar entry": (
        {"microbatches": 2, "layers": 1, "shape": IMAGE, "site": "entry"}, ("two_sums",), {},
    ),
    "uniform_a2a": ({"chunk": 3, "width": 4}, ("permute_ring", "native"), {}),
    "alltoallv": ({"counts": COUNTS, "width": 3}, ("packed_gather_take", "permute_ring"), {}),
    "ring_kv": ({"heads": 2, "sequence": 6, "head_dim": 3}, ("joined",), {}),
    "all_to_next": ({"elements": 48, "round": True}, ("pair_gather",), {"given": IMAGE}),
    "fsdp_prefetch": ({"microbatches": 2, "layers": 2, "shape": [6, 4]}, ("gathered_once",), {}),
    "grad_ar": ({"sizes": [48, 48, 48]}, ("reduce_scatter_all_gather",), {"gradient": IMAGE}),
    "pp_send_recv": ({"microbatches": 2, "shape": IMAGE}, ("pair_gather",), {}),
    "attention": ({"heads": 2, "sequence": 6, "head_dim": 3}, ("joined", "ring_of_gradients"), {}),
    "dist_ce": (
        {"tokens": 6, "vocabulary": 10, "range": 40}, ("max_then_stacked", "divided_by_the_sum"),
        {"targets": [2, 3]},
    ),
}  # fmt: skip
PLAIN = {  # of Problems that are not linear: their backward has a library of its own
    "attention": ("gathered", "gathered_and_scattered"),
    "dist_ce": ("three_all_reduce", "softmax_minus_one_hot"),
}
DTYPES = ("float32", "bfloat16")
KINDS = {
    "none": "NoneType",
    "type": "torch.float64 on cpu",
    "shape": "(",
    "meta": "on meta",
    "sparse": "sparse_coo tensor",
    "mkldnn": "mkldnn tensor",
    "freed": "tensor beyond the end of its storage",
    "nested": "nested tensor",
    "jagged": "NestedTensor",
    "distributed": "DTensor",
    "wrapped": "Wrapped",
    "lazy": "UninitializedParameter",
}


def case_of(name: str, dtype: str = "float32") -> Case:
    problem = name.split()[0]
    return catalog.case(problem, SWEPT[name][0], ranks=RANKS, ranks_per_node=RANKS, dtype=dtype)


def deployed_case(name: str, dtype: str) -> DeployedCase:
    case, ways = case_of(name, dtype), SWEPT[name][1]
    if name not in PLAIN:
        return entry(case, ways[0], backward=ways[1] if len(ways) > 1 else "")
    forward, backward = (programs(problem) for problem in catalog.directions(case))
    plain = way("plain", *(of[one] for of, one in zip((forward, backward), PLAIN[name], strict=True)))
    return case_of_ways(way("tried", forward[ways[0]], backward[ways[1]]), plain)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], list[Any]]:
    """(scenario, name) -> what both ranks saw; all of it in one launch."""
    folder = tmp_path_factory.mktemp("swept")
    scenarios: dict[tuple[str, str], tuple[str, str, dict[str, Any]]] = {}
    for name in SWEPT:
        stem, shapes = name.replace(" ", "_"), SWEPT[name][2]
        write(folder, stem, [deployed_case(name, dtype) for dtype in DTYPES])
        for dtype in DTYPES:
            arguments = {"case": case_of(name, dtype).id, "shapes": shapes}
            scenarios["layouts", f"{name} {dtype}"] = ("layouts", f"{stem}.py", arguments)
        here = {"case": case_of(name).id}
        scenarios["kinds", name] = ("kinds", f"{stem}.py", {**here, "shapes": shapes})
        scenarios["elsewhere", name] = ("elsewhere", f"{stem}.py", here)
        scenarios["groups", name] = ("groups", f"{stem}.py", here)
    scenarios["counted", ""] = ("counted", "alltoallv.py", {"case": case_of("alltoallv").id})
    scenarios["padded", ""] = ("padded", "dist_ce.py", {"case": case_of("dist_ce").id})
    (folder / "scenarios.json").write_text(json.dumps(list(scenarios.values())))
    names = tuple(" ".join(key) for key in scenarios)
    launch(Launch(worker="tests.emit.sweep_worker", folder=folder, ranks=RANKS, names=names))
    by_rank = [json.loads((folder / f"seen-{rank}.json").read_text()) for rank in range(RANKS)]
    return {key: [one[i] for one in by_rank] for i, key in enumerate(scenarios)}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", SWEPT)
def test_values_are_those_of_contiguous_tensors_and_layouts_those_of_the_inputs(
    seen: dict[tuple[str, str], list[Any]], name: str, layout: str
) -> None:
    for dtype in DTYPES:
        for of_rank in seen["layouts", f"{name} {dtype}"]:
            assert of_rank[layout] == [], dtype


@pytest.mark.parametrize("name", SWEPT)
def test_what_is_no_plain_tensor_is_refused_on_all_ranks_in_one_sentence(
    seen: dict[tuple[str, str], list[Any]], name: str
) -> None:
    zero, one = seen["kinds", name]
    assert zero == one
    for kind, holds in KINDS.items():
        assert zero[kind].startswith("ValueError: rank 1: "), (kind, zero[kind])
        assert holds in zero[kind].split("at 0 in place of")[0], (kind, zero[kind])


@pytest.mark.parametrize("name", SWEPT)
def test_groups_that_a_module_makes_have_the_timeout_of_the_scripts(
    seen: dict[tuple[str, str], list[Any]], name: str
) -> None:
    for of_rank in seen["groups", name]:
        assert of_rank["made"] and set(of_rank["made"]) == {of_rank["world"]}


@pytest.mark.parametrize("name", SWEPT)
def test_a_group_of_other_ranks_or_in_another_order_is_refused(
    seen: dict[tuple[str, str], list[Any]], name: str
) -> None:
    """Blocks lie in the order of the group: a wrong one gives wrong results without a word."""
    for of_rank in seen["groups", name]:
        assert all(part in of_rank["sorted"] for part in ("ValueError", "(1, 0)", "(0, 1)"))


@pytest.mark.parametrize("name", SWEPT)
def test_a_default_device_of_the_scripts_changes_nothing(
    seen: dict[tuple[str, str], list[Any]], name: str
) -> None:
    assert seen["elsewhere", name] == [{"selftest": "", "call": ""}] * RANKS


ALONE = {  # what rank 1 does alone -> what is said of it
    "other": "got [4, 2]",
    "events of others": "got [4, 2]",
    "missing on one": "group 0 of",
    "too few": "group 0 of",
    "no integers": "group 0 of",
    "no list": "group 0 of",
    "misspelt on one": "has no argument 'count': it takes counts",
    "events misspelt on one": "the forward of alltoallv/",
    "too large on one": f"and got [{2**70}, 4]",
    "none on one": "and got no 2 integers",
    "nothing on one": "takes a list of 1 tensors on cpu; got 0",
    "no list on one": "'NoneType' object is not iterable",
    "beside on one": "has no argument 'rows'",
}


@pytest.mark.parametrize("way", ["chosen", "plain", "checked"])
def test_counts_are_brought_and_are_the_proven_ones_or_the_rank_raises_whose_are_not(
    seen: dict[tuple[str, str], list[Any]], way: str
) -> None:
    """Checked, all ranks say which it is."""
    zero, one = (of_rank[way] for of_rank in seen["counted", ""])
    checked = way == "checked"
    for told in (zero, one):
        assert not (told["right"] or told["as a tensor"] or told["events"])
        assert "'count': it takes counts" in told["misspelt"]
        assert "got no 2 integers" in told["missing"] and "the forward of" in told["events without"]
    assert ("counts=[1, 3]" in one["missing"]) is checked  # rank 0's, of whom all say it
    for what, shown in ALONE.items():
        begins = "ValueError: rank 1: " if checked else "ValueError: "
        assert one[what].startswith(begins) and shown in one[what], (what, one[what])
        assert zero[what] == (one[what] if checked else "")
    for what in ("other", "missing on one", "too few", "no integers", "no list"):
        assert "counts=[2, 4]" in one[what]


def test_padding_of_minus_infinity_is_exact_and_what_is_out_of_the_declared_range_is_refused(
    seen: dict[tuple[str, str], list[Any]],
) -> None:
    for of_rank in seen["padded", ""]:
        assert of_rank["losses"] < 1e-5 and of_rank["gradients"] < 1e-6 and of_rank["zeros"]
        assert "logits has values from" in of_rank["beyond"] and "-40 to 40 are allowed" in of_rank["beyond"]
        assert "from nan to nan" in of_rank["nan"]
        beyond, unknown, right = of_rank["events"]
        assert "-40 to 40 are allowed" in beyond and not right
        assert "targets has ids from" in unknown and "0 to 9 are allowed" in unknown
