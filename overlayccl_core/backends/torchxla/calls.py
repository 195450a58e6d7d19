"""The calls of torch_xla, as they are printed into modules (`emit/runtime/calls.pyi` declares them).

It is read and never imported: what it knows stands here for modules that have nothing of ours.

A collective is a value of the graph that is being traced: nothing is under way before `torch_xla.sync()`, so there
is nothing to wait for. All ranks trace the same graph, so replica groups and pairs are those of all ranks.

Layouts of reductions are pinned, as by default: XLA refuses a graph in which some all_reduce is and some is not,
and a script has its own. Those of the others are not: pinned, an all_gather is an all_reduce of as many times the
bytes as a group has ranks, and an all_to_all has an operand for each of them.

By default torch_xla keeps the collectives of a graph in the order of their calls by a number: the first element of
a result, times 0, is added to what the next all_gather, reduce_scatter, all_to_all or permute is given. Where that
element is no number, as it may be in what a rank has that means nothing, all that comes behind is none.
DISABLE_NUMERIC_CC_TOKEN=1 ends that for all but all_reduce, which has the number as an operand. Nothing here needs
it, since all ranks compile the same graph. Other graphs have another speed: a module tells which it was timed with.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import Any

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.runtime as xr

MAX = xm.REDUCE_MAX
UNCHAINED = "DISABLE_NUMERIC_CC_TOKEN"
PINNED_OF_NEURON = ("torch-neuronx", "neuronx-cc", "libneuronxla")


class Traced:
    """A call that is part of the graph."""

    __slots__ = ()

    def wait(self) -> None:
        """What uses its result comes behind it."""


TRACED = Traced()


def all_reduce(
    x: torch.Tensor, group: list[list[int]], op: str = xm.REDUCE_SUM
) -> tuple[torch.Tensor, Traced]:
    """x stays as it is."""
    return xm.all_reduce(op, x, groups=group), TRACED


def all_reduce_coalesced(
    xs: list[torch.Tensor], group: list[list[int]], op: str = xm.REDUCE_SUM
) -> tuple[list[torch.Tensor], Traced]:
    """One operation of the graph. A list is reduced in place, so what it is done to are values of its own, which
    no graph has: xs stay as they are."""
    ys = [x.clone() for x in xs]
    return xm.all_reduce(op, ys, groups=group), TRACED


def all_gather(x: torch.Tensor, size: int, group: list[list[int]]) -> tuple[torch.Tensor, Traced]:
    """The result has `size` elements."""
    return xm.all_gather(x, groups=group, pin_layout=False), TRACED


def reduce_scatter(
    x: torch.Tensor, size: int, group: list[list[int]], op: str = xm.REDUCE_SUM
) -> tuple[torch.Tensor, Traced]:
    """The result has `size` elements."""
    return xm.reduce_scatter(op, x, 1.0, 0, len(group[0]), groups=group), TRACED


def all_to_all(x: torch.Tensor, group: list[list[int]]) -> tuple[torch.Tensor, Traced]:
    """The result is as large as x."""
    return xm.all_to_all(x, 0, 0, len(group[0]), groups=group, pin_layout=False), TRACED


def collective_permute(
    x: torch.Tensor, peers: list[list[int]], tag: int, group: None = None
) -> tuple[torch.Tensor, Traced]:
    """Zeros where nobody sends. The order of calls tells permutes apart, no tag."""
    return xm.collective_permute(x, peers), TRACED


def pairs_of(sources: tuple[int, ...], members: Iterable[tuple[int, ...]]) -> list[list[int]]:
    """(from, to) of all ranks; sources[r]: who sends to r, -1: nobody."""
    members = _of_this_world(members)
    return [[ranks[source], ranks[r]] for ranks in members for r, source in enumerate(sources) if source >= 0]


def boundary() -> None:
    """What was traced so far is a graph of its own: compiled, and started."""
    torch_xla.sync()


def this_rank() -> int:
    """The global rank of this process."""
    return int(xr.global_ordinal())


def world_size() -> int:
    """How many ranks the job has."""
    return int(xr.world_size())


def my_group(
    replica_groups: Iterable[tuple[int, ...]],
    members: Iterable[tuple[int, ...]],
    new_group: Callable[[tuple[int, ...]], Any],
) -> list[list[int]]:
    """The replica groups of all concurrent problems; there is nothing to make."""
    return [[ranks[r] for r in group] for ranks in _of_this_world(members) for group in replica_groups]


def _of_this_world(members: Iterable[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """RuntimeError where torch_xla has another number of ranks."""
    members = tuple(members)
    wanted, here = sum(map(len, members)), world_size()
    if here != wanted:
        raise RuntimeError(f"this is for {wanted} ranks, and torch_xla has {here}{_alone()}")
    return members


def make_group(ranks: tuple[int, ...]) -> tuple[int, ...]:
    """A group is its ranks."""
    return ranks


def kept_group(ranks: tuple[int, ...]) -> tuple[int, ...]:
    """A group is its ranks."""
    return ranks


def permute_group(library: str) -> None:
    """Permutes need none."""


def everybody_says(mine: Any, group: list[list[int]] | None = None) -> list[Any]:
    """What each rank (of a group: each of its ranks) gives, by rank; it can be pickled.

    All ranks call it: torch_xla has no rendezvous of some.
    """
    said = [pickle.loads(one) for one in xm.rendezvous("overlayccl", pickle.dumps(mine))]
    return said if group is None else [said[r] for r in next(g for g in group if this_rank() in g)]


def anybody(mine: bool, group: list[list[int]], device: torch.device) -> bool:
    """Whether a rank of a group says so; no graph is cut for it."""
    return any(everybody_says(mine, group))


def check_started() -> None:
    """RuntimeError where the ranks that torchrun started are not torch_xla's."""
    started, here = int(os.environ.get("WORLD_SIZE", "1")), world_size()
    if started != here:
        raise RuntimeError(f"{started} ranks were started, and torch_xla has {here}{_alone()}")


def _alone() -> str:
    """What to do where each process is a world of its own, whose collectives return what they are given."""
    return (
        f" (PJRT_DEVICE is {os.environ.get('PJRT_DEVICE', 'not set')}). On CPU processes never meet, whoever starts"
        " them: use Trainium or TPUs, there with torch.distributed.init_process_group('xla') first"
    )


def found(device: torch.device) -> dict[str, str]:
    """The library, the versions that are here now, and whether collectives are free of one another."""
    library = str(xr.device_type()).lower()
    versions = {"library": library, "torch": metadata.version("torch"), "torch-xla": _torch_xla_version()}
    versions[UNCHAINED] = os.environ.get(UNCHAINED, "0")
    neuron = PINNED_OF_NEURON if library == "neuron" else ()
    return versions | {name: metadata.version(name) for name in neuron}


def _torch_xla_version() -> str:
    """As its package says; of what stands in for it, which is no package, as itself says."""
    try:
        return metadata.version("torch-xla")
    except metadata.PackageNotFoundError:
        return str(torch_xla.__version__)
