"""A script's calls with a process group of ours in between: the same results, and each call passes through it."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from overlayccl_core.process_group import seam
from overlayccl_core.process_group.calls import METHODS
from overlayccl_core.process_group.group import Group, plain
from tests.process_group.proven_ways import write_ways

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
SCRIPT = Path(__file__).with_name("every_call.py")
REFUSED = {"split_group"}  # by torch, before it asks a group
WRONG = {
    "all_reduce strided": [
        [3.0, 2.0, 9.0, 4.0, 15.0, 6.0, 21.0, 8.0],
        [3.0, 4.0, 9.0, 8.0, 15.0, 12.0, 21.0, 16.0],
    ]
}
"""Where gloo is wrong: it sums memory between the elements, and a proven way the elements. Name -> of each rank."""
MODES = ("named", "record", "tuned")
WAYS = [
    *(("all_reduce_sum", elements) for elements in (4, 8, 272, 544)),
    *(("all_gather", elements) for elements in (8, 136)),
    ("all_to_all", 4),
]
BUNDLES = [
    [("all_reduce_sum", elements) for elements in (5, 6, 7)],
    [("all_reduce_sum", elements) for elements in (272, 9)],  # it begins as DDP's buckets, and never comes
]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """mode -> what the script wrote: with the library alone, and with each of our modes."""
    folder = tmp_path_factory.mktemp("calls")
    write_ways(folder / "tuned", WAYS, BUNDLES)
    (folder / "record").mkdir()
    for mode in ("", *MODES):
        command = [*TORCHRUN, "--nproc-per-node", "2", str(SCRIPT), str(folder / f"mode-{mode}.json")]
        command += [mode, str(folder / mode)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert not ended.returncode, ended.stderr[-2000:]
    return {mode: json.loads((folder / f"mode-{mode}.json").read_text()) for mode in ("", *MODES)}


@pytest.mark.ranks
@pytest.mark.parametrize("mode", MODES)
def test_results_are_those_of_the_library_alone_to_the_bit(found: dict[str, Any], mode: str) -> None:
    plain, through = found[""]["calls"], found[mode]["calls"]
    if mode == "tuned":
        for name, right in WRONG.items():
            assert through.pop(name)[0] == [[one] for one in right] != plain[name][0]
            plain = {other: found for other, found in plain.items() if other != name}
    assert {name: results for name, (results, _) in through.items()} == {
        name: results for name, (results, _) in plain.items()
    }
    assert any(results[0] for results, _ in plain.values()) and found[mode]["names"] == found[""]["names"]


@pytest.mark.ranks
@pytest.mark.parametrize("mode", MODES)
def test_each_public_way_to_communicate_passes_through(found: dict[str, Any], mode: str) -> None:
    assert {name for name, (_, methods) in found[mode]["calls"].items() if not methods} == REFUSED
    assert not any(methods for _, methods in found[""]["calls"].values())
    assert {method for _, methods in found[mode]["calls"].values() for method in methods} <= set(METHODS)


@pytest.mark.ranks
def test_each_call_with_a_proven_way_is_made_in_it(found: dict[str, Any]) -> None:
    made = found["tuned"]["made"]
    assert len(made) == len(WAYS) + 1 and all(made.values())
    bundles = sum(count for case, count in made.items() if "/n2-c3-" in case)
    assert bundles == 4  # "a bundle", "a bundle, then others of its calls", two turns that no rank breaks up


def test_our_name_stands_for_a_whole_group(monkeypatch: pytest.MonkeyPatch) -> None:
    for where, name in (
        (c10d, "_new_process_group_helper"),
        *((of, "batch_isend_irecv") for of in (c10d, dist)),
    ):
        monkeypatch.setattr(where, name, getattr(where, name))
    seam.install(lambda: plain, every=False)
    alone: dict[str, Any] = {"rank": 0, "world_size": 1}
    with pytest.raises(RuntimeError, match="stands for a whole process group: give it alone"):
        dist.init_process_group("cpu:overlayccl", store=dist.HashStore(), **alone)
    dist.init_process_group("gloo", store=dist.HashStore(), **alone)
    try:
        group = dist.new_group(backend="overlayccl")
        assert isinstance(group, Group) and dist.get_backend(group) == "gloo"
        assert not isinstance(dist.group.WORLD, Group)
        found = seam._batched(lambda _: c10d.ProcessGroup, [type(group)])  # torch asks for this very class
        assert found([SimpleNamespace(group=group)]) is type(group)
        assert found([SimpleNamespace(group=None)]) is c10d.ProcessGroup is dist.ProcessGroup
    finally:
        dist.destroy_process_group()


def test_importing_torch_loads_no_more_of_ours_than_makes_the_name_known() -> None:
    code = "import torch, sys; print(*sorted(m for m in sys.modules if m.startswith('overlayccl_core.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    group = "overlayccl_core.process_group"
    assert done.stdout.split() == [group, f"{group}.autoload", f"{group}.seam"]  # if we are installed
