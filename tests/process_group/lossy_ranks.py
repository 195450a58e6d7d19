"""The target of test_lossy: ranks that sum in fewer bytes, and write down what they got.

usage: lossy_ranks.py FOLDER. Each course runs on forked ranks: FOLDER gets `<course>-<rank>.json`.
"""

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # an optimizer loads it: here once, before ranks are forked
import torch.distributed as dist
from torch.distributed import ReduceOp

from overlayccl_core.process_group import seam
from overlayccl_core.process_group.group import Group, plain
from overlayccl_core.process_group.lossy import Lossy
from overlayccl_core.process_group.two_passages import TwoPassages

STEPS, ELEMENTS = 12, 5003  # not to be divided by the ranks
HOW = {
    "sums": ["int8"] * 3,
    "groups": ["bf16:2x2"] * 4,
    "differ": ["int8", "bf16"],
    "beside": ["bf16:2x2"] * 4,
}


def numbers(rank: int, place: int, elements: int = ELEMENTS) -> torch.Tensor:
    """The same in each step, so without feedback each step would lose the same."""
    generator = torch.Generator().manual_seed(10 * place + rank)
    return torch.randn(elements, generator=generator) + place


def sums(lossy: Lossy, rank: int, ranks: int) -> dict[str, Any]:
    """Two places of a step, averages, parts of sums, and calls that stay as they are."""
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.0)
    first, second, part = (torch.zeros(ELEMENTS, dtype=torch.float64) for _ in range(3))
    size = 5 * ELEMENTS
    once = []
    for step in range(STEPS + 1):
        mine = [numbers(rank, place) for place in (0, 5)]
        works = [dist.all_reduce(one, async_op=True) for one in mine]
        small = torch.full((7,), float(rank))
        behind = dist.all_reduce(small, async_op=True)  # goes out behind those in the thread
        at = torch.zeros(size)
        dist.reduce_scatter_tensor(at, torch.cat([numbers(rank, 9, size)] * ranks), op=ReduceOp.AVG)
        works[0].get_future().wait()
        for work in (*works, behind):
            work.wait()
        assert small.tolist() == [sum(range(ranks))] * 7
        for many, found in ((first, mine[0]), (second, mine[1]), (part, at[:ELEMENTS])):
            if step:  # what is lost before the first step's end is lost
                many += found
        exact = sum(numbers(one, 0) for one in range(ranks))
        once.append(float((mine[0] - exact).abs().max()))
        parameter.sum().backward()
        optimizer.step()
    largest = torch.stack([numbers(one, 0) for one in range(ranks)]).amax(0)
    found, whole, wide = numbers(rank, 0), torch.arange(ELEMENTS), numbers(rank, 0).double()
    dist.all_reduce(found, ReduceOp.MAX)
    dist.all_reduce(whole)
    dist.all_reduce(wide)
    exact_wide = sum(numbers(one, 0).double() for one in range(ranks))
    return {
        "totals": [one.tolist() for one in (first, second, part)],
        "once": once,
        "stay": [
            bool((found == largest).all()),
            bool((whole == ranks * torch.arange(ELEMENTS)).all()),
            bool((wide - exact_wide).abs().max() < 1e-12),
        ],
    }


def groups(lossy: Lossy, rank: int, ranks: int) -> dict[str, Any]:
    """Groups of ranks that are two apart are meant: no others of two, and not all ranks together."""
    near = [dist.new_group(of) for of in ((0, 1), (2, 3))][rank // 2]
    far = [dist.new_group(of) for of in ((0, 2), (1, 3))][rank % 2]
    made = []
    for group in (near, None, far):
        dist.all_reduce(numbers(rank, 0), group=group)
        made.append(sum(lossy.made.values()))
    dist.destroy_process_group(far)
    return {"after": made}


class Others:
    """A passage of groups that are not meant, which counts its calls and its groups."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def groups_wait(self) -> None:
        """What waits goes out."""
        self.seen.append("waits")

    def group_begins(self, group: Group) -> None:
        """Note it."""
        self.seen.append("begins")

    def group_ends(self, group: Group) -> None:
        """Note it."""
        self.seen.append("ends")

    def __call__(self, group: Group, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the call as it is."""
        self.seen.append(method)
        return plain(group, method, args, kwargs)


OTHERS = Others()


def beside(lossy: Lossy, rank: int, ranks: int) -> dict[str, Any]:
    """The same groups, with another passage for those that are not meant."""
    return {**groups(lossy, rank, ranks), "others": list(OTHERS.seen)}


def differ(lossy: Lossy, rank: int, ranks: int) -> dict[str, Any]:
    """Ranks with other settings."""
    found = numbers(rank, 0)
    dist.all_reduce(found)
    return {"apart": float((found - numbers(0, 0) - numbers(1, 0)).abs().max())}


def rank_of(folder: Path, course: Any, rank: int) -> None:
    name = course.__name__
    lossy = Lossy(HOW[name][rank])
    seam.install(lambda: TwoPassages(lossy, OTHERS) if name == "beside" else lossy, every=True)  # type: ignore[arg-type]
    ranks = len(HOW[name])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dist.init_process_group("gloo", init_method=f"file://{folder}/{name}", rank=rank, world_size=ranks)
        found = course(lossy, rank, ranks)
        dist.destroy_process_group()
    found |= {"made": lossy.made, "warned": [str(one.message) for one in caught]}
    (folder / f"{name}-{rank}.json").write_text(json.dumps(found))


def main(folder: Path) -> None:
    for course in (sums, groups, differ, beside):
        pids = []
        for rank in range(len(HOW[course.__name__])):
            pid = os.fork()
            if not pid:
                torch.set_num_threads(1)
                rank_of(folder, course, rank)
                return
            pids.append(pid)
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
        if any(codes):
            sys.exit(f"{course.__name__}: {codes}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
