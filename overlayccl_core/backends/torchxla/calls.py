"""The calls of torch_xla, printed into modules (`emit/runtime/calls.pyi` declares them).

This file is read and never imported: modules stand alone, so it contains all it needs.

A collective is a value of the graph being traced: nothing is under way before `torch_xla.sync()`, so there is
nothing to wait for. All ranks trace the same graph, so replica groups and pairs are those of all ranks.

Reductions pin their layouts, as by default: XLA refuses a graph with both pinned and unpinned all_reduces,
and a script makes some of its own. The other collectives do not pin them. Pinned, an all_gather becomes an
all_reduce of its bytes times the group size, and an all_to_all gets an operand for each rank of the group.

By default torch_xla keeps the collectives of a graph in call order by a number: it adds the first element of
a result, times 0, to the input of the next all_gather, reduce_scatter, all_to_all or permute. If that element
is NaN or infinite, as meaningless values of a rank may be, all later results become NaN.
DISABLE_NUMERIC_CC_TOKEN=1 ends this for all but all_reduce, which takes the number as an operand. Nothing
here needs the order, since all ranks compile the same graph. The setting changes graphs and their speed, so a
module states the setting of its timing.
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
    """A call inside the graph."""

    __slots__ = ()

    def wait(self) -> None:
        """Do nothing: users of the result come behind the call."""


TRACED = Traced()


def all_reduce(
    x: torch.Tensor, group: list[list[int]], op: str = xm.REDUCE_SUM
) -> tuple[torch.Tensor, Traced]:
    """Reduce; x stays unchanged."""
    return xm.all_reduce(op, x, groups=group), TRACED


def all_reduce_coalesced(
    xs: list[torch.Tensor], group: list[list[int]], op: str = xm.REDUCE_SUM
) -> tuple[list[torch.Tensor], Traced]:
    """Reduce in one operation of the graph; xs stay unchanged.

    torch_xla reduces a list in place, so the call gets copies; no graph contains them.
    """
    ys = [x.clone() for x in xs]
    return xm.all_reduce(op, ys, groups=group), TRACED


def all_gather(x: torch.Tensor, size: int, group: list[list[int]]) -> tuple[torch.Tensor, Traced]:
    """Gather; the result has `size` elements."""
    return xm.all_gather(x, groups=group, pin_layout=False), TRACED


def reduce_scatter(
    x: torch.Tensor, size: int, group: list[list[int]], op: str = xm.REDUCE_SUM
) -> tuple[torch.Tensor, Traced]:
    """Reduce and scatter; the result has `size` elements."""
    return xm.reduce_scatter(op, x, 1.0, 0, len(group[0]), groups=group), TRACED


def all_to_all(x: torch.Tensor, group: list[list[int]]) -> tuple[torch.Tensor, Traced]:
    """Exchange; the result is as large as x."""
    return xm.all_to_all(x, 0, 0, len(group[0]), groups=group, pin_layout=False), TRACED


def collective_permute(
    x: torch.Tensor, peers: list[list[int]], tag: int, group: None = None
) -> tuple[torch.Tensor, Traced]:
    """Permute, with zeros from no sender. The order of calls distinguishes permutes, not the tag."""
    return xm.collective_permute(x, peers), TRACED


def pairs_of(sources: tuple[int, ...], members: Iterable[tuple[int, ...]]) -> list[list[int]]:
    """Return (from, to) of all ranks. sources[r]: the sender to r, -1 for none."""
    members = _of_this_world(members)
    return [[ranks[source], ranks[r]] for ranks in members for r, source in enumerate(sources) if source >= 0]


def boundary() -> None:
    """End the graph traced so far: compile and start it."""
    torch_xla.sync()


def this_rank() -> int:
    """Return the global rank of this process."""
    return int(xr.global_ordinal())


def world_size() -> int:
    """Return the number of ranks of the job."""
    return int(xr.world_size())


def my_group(
    replica_groups: Iterable[tuple[int, ...]],
    members: Iterable[tuple[int, ...]],
    new_group: Callable[[tuple[int, ...]], Any],
) -> list[list[int]]:
    """Return the replica groups of all concurrent problems; there is nothing to make."""
    return [[ranks[r] for r in group] for ranks in _of_this_world(members) for group in replica_groups]


def _of_this_world(members: Iterable[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Return the members; RuntimeError if torch_xla has another number of ranks."""
    members = tuple(members)
    wanted, here = sum(map(len, members)), world_size()
    if here != wanted:
        raise RuntimeError(f"this is for {wanted} ranks, and torch_xla has {here}{_alone()}")
    return members


def make_group(ranks: tuple[int, ...]) -> tuple[int, ...]:
    """Return the ranks: they are the group."""
    return ranks


def kept_group(ranks: tuple[int, ...]) -> tuple[int, ...]:
    """Return the ranks: they are the group."""
    return ranks


def permute_group(library: str) -> None:
    """Return None: permutes need no group."""


def everybody_says(mine: Any, group: list[list[int]] | None = None) -> list[Any]:
    """Return each rank's object (of a group: each member's), by rank; it must be picklable.

    All ranks call it: torch_xla has no rendezvous of some.
    """
    said = [pickle.loads(one) for one in xm.rendezvous("overlayccl", pickle.dumps(mine))]
    return said if group is None else [said[r] for r in next(g for g in group if this_rank() in g)]


def check_started() -> None:
    """Raise RuntimeError if the ranks started by torchrun are not torch_xla's."""
    started, here = int(os.environ.get("WORLD_SIZE", "1")), world_size()
    if started != here:
        raise RuntimeError(f"{started} ranks were started, and torch_xla has {here}{_alone()}")


def _alone() -> str:
    """Return the advice for processes that are each a world of their own, with collectives that change nothing."""
    return (
        f" (PJRT_DEVICE is {os.environ.get('PJRT_DEVICE', 'not set')}). On CPU processes never meet, whoever starts"
        " them: use Trainium or TPUs, there with torch.distributed.init_process_group('xla') first"
    )


def found(device: torch.device) -> dict[str, str]:
    """Return the library, the versions found here, and whether collectives are free of one another."""
    library = str(xr.device_type()).lower()
    versions = {"library": library, "torch": metadata.version("torch"), "torch-xla": _torch_xla_version()}
    versions[UNCHAINED] = os.environ.get(UNCHAINED, "0")
    neuron = PINNED_OF_NEURON if library == "neuron" else ()
    return versions | {name: metadata.version(name) for name in neuron}


def _torch_xla_version() -> str:
    """Return the package's version; the stand-in is no package and states its own."""
    try:
        return metadata.version("torch-xla")
    except metadata.PackageNotFoundError:
        return str(torch_xla.__version__)
