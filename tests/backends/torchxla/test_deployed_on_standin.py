"""Deployed modules for torch_xla, and what the stand-in refuses, on real ranks."""

import json
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.backends.torchxla.environment import NUMERIC_TOKEN
from overlayccl_core.emit.deployed import deployed_module
from overlayccl_core.emit.deployed_case import DeployedCase, Stamp
from overlayccl_core.launching.launch import Launch
from overlayccl_core.program.case import Case
from overlayccl_core.program.numerics import REORDERED_TOLERANCE
from overlayccl_core.program.problem import Direction
from tests.backends.torchxla.modules import CALLS
from tests.emit.deployed_modules import entry, tried
from tests.emit.tiny_model import SHAPE
from tests.on_ranks import launch

pytestmark = pytest.mark.ranks
RANKS, M, L = 4, 3, 2
HERE = Stamp(
    library="standin",
    versions={"torch": metadata.version("torch"), "torch-xla": "stand-in", NUMERIC_TOKEN: "0"},
)
Seen = dict[str, list[Any]]


def case(problem: str, **fields: Any) -> Case:
    return catalog.case(problem, fields, ranks=RANKS, ranks_per_node=RANKS, uniform=True)


def tp(site: str, microbatches: int = M) -> Case:
    return case("tp_mlp", microbatches=microbatches, layers=L, shape=list(SHAPE), site=site)


def write(folder: Path, name: str, *entries: DeployedCase, stamp: Stamp = HERE) -> None:
    problem = entries[0].problems[Direction.FORWARD].case.problem
    source = deployed_module(problem, entries, stamp, calls=CALLS)
    assert "import torch.distributed" not in source and "torch and torch_xla" in source
    (folder / f"{name}.py").write_text(source)


def play(folder: Path, scenarios: Mapping[str, tuple[str, str, dict[str, Any]]]) -> Seen:
    """scenario -> what every rank saw; all of them in one launch."""
    (folder / "scenarios.json").write_text(json.dumps(list(scenarios.values())))
    worker = "tests.backends.torchxla.standin_deployed_worker"
    launch(Launch(worker=worker, folder=folder, ranks=RANKS, names=tuple(scenarios)))
    by_rank = [json.loads((folder / f"seen-{rank}.json").read_text()) for rank in range(RANKS)]
    return {name: [one[i] for one in by_rank] for i, name in enumerate(scenarios)}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder = tmp_path_factory.mktemp("deployed")
    sites = {"leave": tp("exit").id, "enter": tp("entry").id, "layers": L, "microbatches": M}
    write(folder, "merged", *(entry(tp(site), "merged_over_microbatches") for site in ("exit", "entry")))
    sizes = [5, 16, 1, 7]
    means = case("grad_ar", sizes=sizes)
    write(folder, "parts", entry(means, "reduce_scatter_all_gather"))
    chunks = case("uniform_a2a", chunk=3, width=4)
    write(folder, "ring", entry(chunks, "permute_ring", backward="native"))
    rows = case("alltoallv", pattern="random", rows=12, width=4)
    write(folder, "rows", entry(rows, "gather_slice"))
    two = tp("exit", microbatches=2)
    body = (
        "for layer in p.layer_order:\n"
        '    io.write("total", 0, layer, all_reduce(io.read("partial", 0, layer)))\n'
        '    io.read("partial", 1, layer)\n'
        '    io.write("total", 1, layer, zeros(p.shape))'
    )
    write(folder, "wrong", entry(two, forward=tried(two, body), backward="developer"))
    other = Stamp(library="neuron", versions={**HERE.versions, "torch-xla": "2.9.0", NUMERIC_TOKEN: "1"})
    write(folder, "other", entry(two, "merged_over_microbatches"), stamp=other)
    return play(folder, {
        "gradients": ("gradients", "merged.py", sites),
        "plain": ("plain", "merged.py", sites),
        "checked": ("checked", "merged.py", {"case": tp("exit").id}),
        "changed": ("changed", "merged.py", {"leave": tp("exit").id, "enter": tp("entry").id}),
        "means": ("averaged", "parts.py", {"case": means.id, "sizes": sizes}),
        "exchange": ("exchanged", "ring.py", {"case": chunks.id, "chunk": 3, "width": 4}),
        "right": ("tested", "merged.py", {}),
        "rows": ("tested", "rows.py", {}),
        "wrong": ("tested", "wrong.py", {}),
        "versions": ("versions", "other.py", {"case": two.id}),
        "traps": ("traps", "", {}),
    })  # fmt: skip


def test_gradients_are_those_of_the_unsharded_model_with_chosen_and_plain_calls(seen: Seen) -> None:
    for name, calls in (("gradients", {"all_reduce": L}), ("plain", {"all_reduce": M * L})):
        for rank in seen[name]:
            assert rank["error"] < REORDERED_TOLERANCE
            assert rank["out"]["calls"] == rank["into"]["calls"] == calls
            assert rank["out"]["runs"] == ("chosen" if name == "gradients" else name)


def test_the_stamp_tells_library_and_versions(seen: Seen) -> None:
    for rank in seen["gradients"]:
        assert rank["out"]["found"] == rank["out"]["proven"] == {"library": "standin", **HERE.versions}
        assert rank["out"]["differs"] == []
    for rank in seen["versions"]:
        assert rank["differs"] == ["library", "torch-xla", NUMERIC_TOKEN] and len(rank["warnings"]) == 1
        assert all(part in rank["strict"] for part in ("neuron", f"torch-xla 2.9.0, {NUMERIC_TOKEN} 1"))


def test_values_and_gradients_of_other_groups_are_as_defined(seen: Seen) -> None:
    for rank in seen["means"]:
        assert rank["values"] and rank["shapes"] and rank["kept"] and rank["changed in place"] == 2.5
    for rank in seen["exchange"]:
        assert rank["values"] and rank["gradients"]
        assert rank["stamp"]["calls"] == {"collective_permute": RANKS - 1, "all_to_all": 1}
    for rank in seen["changed"]:
        assert rank["changed"] == 5 and rank["inputs"] == [1, 2] and rank["apart"]


def test_the_selftest_passes_what_is_right_also_with_rows_that_mean_nothing_and_finds_what_is_wrong(
    seen: Seen,
) -> None:
    for rank in seen["right"] + seen["rows"]:
        assert rank["error"] == "" and max(line["error"] for line in rank["lines"]) < REORDERED_TOLERANCE
    for rank in seen["wrong"]:
        assert "differs from the plain" in rank["error"] and "OVERLAYCCL_PLAIN=1" in rank["error"]


@pytest.mark.parametrize(("value", "chained"), [("0", True), ("1", False)])
def test_values_that_mean_nothing_reach_others_where_collectives_are_chained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, chained: bool
) -> None:
    """The first element that each pair gathers back is of a rank that has nothing to give: no number, here."""
    monkeypatch.setenv("DISABLE_NUMERIC_CC_TOKEN", value)
    write(tmp_path, "pairs", entry(case("pp_send_recv", microbatches=2, shape=[1, 2, 3]), "pair_gather"))
    for rank in play(tmp_path, {"pairs": ("tested", "pairs.py", {})})["pairs"]:
        assert ("by nan" in rank["error"]) is chained, rank["error"]


def test_checked_ranks_fail_together(seen: Seen) -> None:
    for rank in seen["checked"]:
        assert "rank 2: group 0" in rank["shape"] and "must do the same" in rank["group"]
        assert rank["values"] == [4, 8, 12]


def test_what_the_real_library_stumbles_over_is_refused_on_all_ranks(seen: Seen) -> None:
    for rank in seen["traps"]:
        for name in ("other groups", "other order", "other size"):
            assert rank[name].startswith("graphs differ: rank 0"), (name, rank[name])
        assert "same number of replicas" in rank["unequal"]
        for name in ("not all", "twice"):
            assert "each of 4 ranks once" in rank[name]
        assert "axis 0 of (3,)" in rank["not divided"]
        assert "each once on a side" in rank["sent twice"]


def test_its_own_ways_are_kept(seen: Seen) -> None:
    """A tensor is reduced into a new one, a list in place; what is no number spreads in its graph."""
    for index, rank in enumerate(seen["traps"]):
        total = [2.0, 4.0][index % 2]
        assert (rank["single"], rank["kept"]) == (total, True)
        assert (rank["list"], rank["in place"]) == ([total / 2], total / 2)
        assert rank["nobody sends"] and rank["chained"] == [True, False] and not rank["next graph"]
