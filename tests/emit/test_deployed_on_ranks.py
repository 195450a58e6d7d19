"""Deployed modules on real ranks: gradients, counters, the way back to plain calls, refusals, the selftest."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.emit.deployed_case import Stamp
from overlayccl_core.launching.launch import Launch
from overlayccl_core.program.case import Case
from overlayccl_core.program.numerics import LOSSY_TOLERANCE, REORDERED_TOLERANCE
from tests.emit.deployed_modules import entry, tried, write
from tests.emit.test_deployed import WAVEFRONT
from tests.emit.tiny_model import SHAPE
from tests.on_ranks import launch

pytestmark = pytest.mark.ranks
RANKS = 4
M, L = 3, 2
GATHERED = """
each = reshape(all_gather(io.read("gradient", 0)), (p.world_size, -1))
io.write("mean", 0, scale(reduce_sum(each, 0), 1, p.world_size))
"""
Scenario = tuple[str, str, dict[str, Any]]


def tp(site: str, ranks: int = RANKS, microbatches: int = M, **size: Any) -> Case:
    fields = {"microbatches": microbatches, "layers": L, "shape": list(SHAPE), "site": site}
    return catalog.case(
        "tp_mlp", fields, ranks=ranks, ranks_per_node=size.pop("ranks_per_node", ranks), **size
    )


def play(
    folder: Path, scenarios: Mapping[str, Scenario], ranks: int = RANKS, worker: str = "deployed_worker"
) -> dict[str, list[Any]]:
    """scenario -> what every rank saw; all of them in one launch."""
    (folder / "scenarios.json").write_text(json.dumps(list(scenarios.values())))
    names = tuple(scenarios)
    launch(Launch(worker=f"tests.emit.{worker}", folder=folder, ranks=ranks, names=names))
    by_rank = [json.loads((folder / f"seen-{rank}.json").read_text()) for rank in range(ranks)]
    return {name: [one[i] for one in by_rank] for i, name in enumerate(scenarios)}


def first_tag(path: Path) -> int:
    """The tag of a module's first permute."""
    tag = re.search(r"= collective_permute\(\w+, \w+, (\d+), permutes\)", path.read_text())
    assert tag
    return int(tag[1])


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """All scenarios of 4 ranks in one group."""
    folder = tmp_path_factory.mktemp("deployed")
    sites = {"leave": tp("exit").id, "enter": tp("entry").id, "layers": L, "microbatches": M}
    for name in (
        "merged_over_microbatches",
        "all_to_all_of_copies",
        "reduce_scatter_all_gather",
        "developer",
    ):
        write(folder, name, [entry(tp("exit"), name), entry(tp("entry"), name)])
    merged = "merged_over_microbatches.py"
    blocks = {
        site: catalog.case("layer_block_ar", dict(tp(site).parameters), ranks=RANKS, ranks_per_node=RANKS)
        for site in ("exit", "entry")
    }
    of_blocks = {"leave": blocks["exit"].id, "enter": blocks["entry"].id, "layers": L, "microbatches": M}
    for name in ("developer", "two_sums"):
        write(folder, f"blocks_{name}", [entry(blocks["exit"], name), entry(blocks["entry"], name)])
    sizes = [5, 16, 1, 7]
    means = catalog.case("grad_ar", {"sizes": sizes}, ranks=RANKS, ranks_per_node=RANKS)
    write(folder, "flat", [entry(means, "flat")])
    one = catalog.case("grad_ar", {"sizes": [6]}, ranks=RANKS, ranks_per_node=RANKS)
    write(folder, "gathered", [entry(one, forward=tried(one, GATHERED))])
    chunks = catalog.case("uniform_a2a", {"chunk": 3, "width": 4}, ranks=RANKS, ranks_per_node=RANKS)
    ring = write(folder, "ring", [entry(chunks, "permute_ring", backward="native")])
    small = tp("exit", ranks=2)
    two = tp("exit", microbatches=2)
    write(folder, "refusing", [entry(two, "developer"), entry(small, "developer")])
    write(
        folder, "other_version", [entry(two, "merged_over_microbatches")],
        Stamp(library="gloo", versions={"torch": "1.0"}),
    )  # fmt: skip
    lossy = entry(tp("entry"), "bf16_on_the_wire", numerics="lossy")
    write(folder, "right", [entry(tp("exit"), "all_to_all_sum"), lossy])
    dropped = """
        for layer in p.layer_order:
            io.write("total", 0, layer, all_reduce(io.read("partial", 0, layer)))
            io.read("partial", 1, layer)
            io.write("total", 1, layer, zeros(p.shape))
    """
    body = "\n".join(line[8:] for line in dropped.strip("\n").split("\n"))
    write(folder, "wrong", [entry(two, forward=tried(two, body), backward="developer")])
    strided = {"ranks": 2, "groups": 2, "strided": True}
    write(folder, "strided", [entry(tp("exit", **strided), "merged_over_microbatches")])
    write(folder, "wavefront", [entry(two, forward=tried(two, WAVEFRONT), backward="developer")])
    return play(folder, {
        "gradients merged": ("gradients", merged, sites),
        "gradients copies": ("gradients", "all_to_all_of_copies.py", sites),
        "gradients parts": ("gradients", "reduce_scatter_all_gather.py", sites),
        "gradients developer": ("gradients", "developer.py", sites),
        "parallel developer": ("parallel", "blocks_developer.py", of_blocks),
        "parallel sums": ("parallel", "blocks_two_sums.py", of_blocks),
        "plain": ("plain", merged, sites),
        "driven": ("driven", merged, sites),
        "means": ("averaged", "flat.py", {"case": means.id, "sizes": sizes}),
        "strided": ("strided", "gathered.py", {"case": one.id, "size": 6}),
        "exchange": ("exchanged", "ring.py", {"case": chunks.id, "chunk": 3, "width": 4}),
        "met": ("met", "ring.py", {"case": chunks.id, "count": 12, "tag": 0, "library": "gloo"}),
        "met without tags": (
            "met", "ring.py", {"case": chunks.id, "count": 12, "tag": first_tag(ring), "library": "nccl"},
        ),
        "changed": ("changed", merged, {"leave": tp("exit").id, "enter": tp("entry").id}),
        "refusals": (
            "refusals", "refusing.py", {"case": two.id, "foreign": tp("entry").id, "small": small.id},
        ),
        "checked": ("checked", merged, {"case": tp("exit").id}),
        "checked strided": ("checked", "strided.py", {"case": tp("exit", ranks=2, groups=2, strided=True).id}),
        "versions": ("versions", "other_version.py", {"case": two.id}),
        "right": ("tested", "right.py", {}),
        "wrong": ("tested", "wrong.py", {}),
        "ungrouped": ("ungrouped", "wavefront.py", {"case": two.id}),
    })  # fmt: skip


def test_gradients_through_groups_are_those_of_the_unsharded_model(seen: dict[str, list[Any]]) -> None:
    for name in ("merged", "copies", "parts", "developer"):
        assert max(rank["error"] for rank in seen[f"gradients {name}"]) < REORDERED_TOLERANCE, name
    assert max(rank["error"] for rank in seen["plain"] + seen["driven"]) < REORDERED_TOLERANCE


def test_gradients_through_parallel_blocks_are_those_of_the_unsharded_model(
    seen: dict[str, list[Any]],
) -> None:
    for rank in seen["parallel developer"]:
        assert rank["error"] < REORDERED_TOLERANCE
        assert rank["out"]["calls"] == rank["into"]["calls"] == {"all_reduce": M * L}
    assert max(rank["error"] for rank in seen["parallel sums"]) < REORDERED_TOLERANCE


def test_every_call_of_the_library_is_counted(seen: dict[str, list[Any]]) -> None:
    """One step: the exit in the forward pass, the entry in the backward pass."""
    wanted = {
        "gradients merged": {"all_reduce": L},
        "gradients copies": {"all_to_all": L},
        "gradients parts": {"reduce_scatter": L, "all_gather": L},
        "gradients developer": {"all_reduce": M * L},
        "plain": {"all_reduce": M * L},
    }
    for name, calls in wanted.items():
        for rank in seen[name]:
            assert rank["out"]["calls"] == rank["into"]["calls"] == calls, name


def test_the_stamp_says_what_runs(seen: dict[str, list[Any]]) -> None:
    chosen, plain = seen["gradients merged"][0]["out"], seen["plain"][0]["out"]
    assert (chosen["runs"], plain["runs"]) == ("chosen", "plain")
    deployed = entry(tp("exit"), "merged_over_microbatches")
    for one in (chosen, plain):
        way = deployed.ways[one["runs"]]
        assert one["program"] == {d: proven.program.digest for d, proven in way.items()}
        assert one["recipe"] == {d: proven.recipe for d, proven in way.items()}
        assert one["plain_program"] == plain["program"]
    assert chosen["strategy"] == dict.fromkeys(("forward", "backward"), "merged_over_microbatches")
    assert chosen["proven"] == chosen["found"] and chosen["differs"] == []


def test_means_have_the_shapes_of_the_gradients_and_pass_no_gradient_on(seen: dict[str, list[Any]]) -> None:
    for rank in seen["means"]:
        assert rank["values"] and rank["shapes"] and rank["kept"]
        assert "passes no gradients on" in rank["refused"]
        assert "no backward of its own" in rank["no backward"]
        assert rank["changed in place"] == 1 + (RANKS - 1) / 2


def test_inputs_need_not_be_contiguous(seen: dict[str, list[Any]]) -> None:
    assert all(rank["values"] for rank in seen["strided"])


@pytest.mark.parametrize(("name", "groups"), [("met", 0), ("met without tags", 1)])
def test_sends_of_the_script_do_not_meet_permutes(seen: dict[str, list[Any]], name: str, groups: int) -> None:
    """By tags of the module's own; where the library knows none (the same tag here), by a group of its own."""
    for rank in seen[name]:
        assert rank["values"] and rank["own"]
        assert rank["calls"] == {"collective_permute": RANKS - 1} and rank["groups"] == groups


def test_outputs_and_gradients_are_changed_in_place_one_by_one(seen: dict[str, list[Any]]) -> None:
    for rank in seen["changed"]:
        assert rank["changed"] == RANKS + 1 and rank["inputs"] == [1, 2]
        assert rank["gradients"] == [2 * (RANKS + 1), 2 * 2 * RANKS]
        assert rank["apart"] and rank["entered"] == 2 * RANKS


def test_what_an_identity_gives_is_the_input_and_not_changed_in_silence(seen: dict[str, list[Any]]) -> None:
    for rank in seen["changed"]:
        assert "modified inplace" in rank["identity"]


def test_a_backward_of_its_own_is_chosen_apart_from_the_forward(seen: dict[str, list[Any]]) -> None:
    for rank in seen["exchange"]:
        assert rank["values"] and rank["gradients"]
        assert rank["stamp"]["calls"] == {"collective_permute": RANKS - 1, "all_to_all": 1}


def test_other_cases_worlds_shapes_types_and_numbers_are_refused(seen: dict[str, list[Any]]) -> None:
    here = tp("exit", microbatches=2).id
    for of_rank in seen["refusals"]:
        for what in ("case", "world", "members", "flat", "number", "shape", "dtype"):
            assert of_rank[what].startswith("ValueError") and here in of_rank[what], what
            assert f"{RANKS} ranks, {2 * L} inputs of {SHAPE} torch.float32" in of_rank[what], what
        assert tp("entry").id in of_rank["case"]
        assert f"is not of {RANKS} ranks" in of_rank["world"]
        assert "list of 2 tensors" in of_rank["number"] and "got 1" in of_rank["number"]
        assert "float64" in of_rank["dtype"]
        assert "groups 0 to 1 (got 2)" in of_rank["group"] and "(got '0')" in of_rank["text"]
        assert "groups of 4 ranks" in of_rank["flat"] and "(got (0, 1, 2, 3))" in of_rank["flat"]
        assert "OVERLAYCCL_PLAIN must be" in of_rank["plain"]
        for name in ("PLAIN", "CHECK"):
            wanted = f"ranks differ in OVERLAYCCL_{name}: False on rank 0, True on rank 1"
            assert wanted in of_rank[f"mixed {name}"]


def test_in_the_checked_mode_all_ranks_fail_together_and_name_who_began(seen: dict[str, list[Any]]) -> None:
    group = f"group 0 of {tp('exit').id}"
    other = group.replace("group 0", "group 1")
    wanted = {
        "shape": (
            f"ValueError: rank 2: {group} takes a list of {M} tensors on cpu; got {M}, and (3,) torch.float32",
            f" on cpu at 0 in place of partial[0, 0] {SHAPE}",
        ),
        "none": (
            f"ValueError: rank 2: {group} takes",
            f"got {M}, and NoneType at 0 in place of partial[0, 0]",
        ),
        "nothing": (f"ValueError: rank 2: {group} takes", "got 0: partial[0, 0] is not there"),
        "no list": (f"ValueError: rank 2: {group}: TypeError", ""),
        "argument": (f"ValueError: rank 2: {group} has no argument 'counts'", ""),
        "events' argument": (f"ValueError: rank 2: the forward of {tp('exit').id} has no argument", ""),
        "number": (f"ValueError: rank 2: {group} takes", f"got {M - 1}: partial[{M - 1}, 0] is not there"),
        "group": (
            f"RuntimeError: rank 0 runs {group} with gradients, rank 2 runs {other} with gradients",
            "",
        ),
        "flow": (
            f"RuntimeError: rank 0 runs {group} with gradients, rank 2 runs {group}: all ranks must",
            "",
        ),
        "backward": (
            f"RuntimeError: rank 0 runs the backward of {group}, rank 2 runs the backward of {other}",
            "",
        ),
        "events": (
            "ValueError: rank 2: partial[0, 0] is a flat tensor of 32 torch.float32 on cpu",
            "got (3,)",
        ),
    }
    for name, (begins, holds) in wanted.items():
        assert len({of_rank[name] for of_rank in seen["checked"]}) == 1, name
        message = seen["checked"][0][name]
        assert message.startswith(begins) and holds in message, message
    assert all(of_rank["values"] == [RANKS * (i + 1) for i in range(M)] for of_rank in seen["checked"])


def test_a_check_is_among_the_ranks_that_run_a_case_together(seen: dict[str, list[Any]]) -> None:
    """Two groups at once: ranks 1 and 3 go on where ranks 0 and 2 fail."""
    zero, one, two, three = seen["checked strided"]
    assert zero == two and "rank 2" in zero["shape"] and "rank 2" in zero["group"]
    assert one == three and not any(
        one[name]
        for name in ("nothing", "no list", "argument", "shape", "none", "number", "group", "flow", "events")
    )


def test_another_version_is_refused_or_warned_of_once(seen: dict[str, list[Any]]) -> None:
    for of_rank in seen["versions"]:
        assert "torch 1.0" in of_rank["strict"]
        assert of_rank["strict"].startswith("RuntimeError") and "strict=False" in of_rank["strict"]
        assert len(of_rank["warnings"]) == 1 and "torch 1.0" in of_rank["warnings"][0]
        assert of_rank["where"] == ["deployed_worker.py"]
        assert of_rank["differs"] == ["torch"]


def test_the_selftest_passes_what_is_right_and_names_what_is_wrong(seen: dict[str, list[Any]]) -> None:
    for of_rank in seen["right"]:
        assert not of_rank["error"]
        checked = [(line["direction"], line["tolerance"]) for line in of_rank["lines"]]
        assert checked == [("forward", REORDERED_TOLERANCE), ("backward", 0.0), ("forward", LOSSY_TOLERANCE)]
        assert 0 < of_rank["lines"][2]["error"] < LOSSY_TOLERANCE
        (case,) = of_rank["stamp"]["cases"]
        assert not of_rank["own"] and not case["calls"] and case["selftest_calls"]["all_to_all"] == L
    for of_rank in seen["wrong"]:
        assert all(part in of_rank["error"] for part in ("forward: total[1, 0] ", "by 1 on rank"))


def test_without_groups_the_error_says_why_and_generators_still_run(seen: dict[str, list[Any]]) -> None:
    for of_rank in seen["ungrouped"]:
        assert "not fall into groups" in of_rank["error"] and "[0, 1]" in of_rank["error"]
        assert of_rank["checked"] == 2 and of_rank["plain"] == RANKS


def test_two_strided_groups_of_two_at_once(tmp_path: Path) -> None:
    size = {"ranks": 2, "groups": 2, "strided": True}
    cases = [tp("exit", **size), tp("entry", **size)]
    write(tmp_path, "strided", [entry(case, "reduce_scatter_all_gather") for case in cases])
    (by_rank,) = play(tmp_path, {"tested": ("tested", "strided.py", {})}).values()
    for rank in by_rank:
        assert not rank["error"] and len(rank["lines"]) == 3
        assert max(line["error"] for line in rank["lines"]) < 1e-6
