"""The library's calls, as declared: what `backends/<name>/calls.py` of a library for torch tensors defines.

What a Program does not call it need not define. `connect` of every module makes groups and peers with it.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import torch

class Work(Protocol):
    """A call under way."""

    def wait(self) -> Any:
        """Return when its result is there, or (on a device) ordered before what comes next."""

Group = Any  # ranks that a collective runs over, as the library has them; `my_group` may refer to them weakly
MAX: Any  # the reduction `maximum`, given as `op`

# Each starts a collective on a flat tensor and returns the result and its work.
def all_reduce(x: torch.Tensor, group: Group, op: Any = ...) -> tuple[torch.Tensor, Work]:
    """The result may take over x; where one graph is compiled for all ranks, it does not."""

def all_reduce_coalesced(
    xs: list[torch.Tensor], group: Group, op: Any = ...
) -> tuple[list[torch.Tensor], Work]:
    """One call for several values of one dtype, each of which is a result; as `all_reduce` may take them over."""

def all_gather(x: torch.Tensor, size: int, group: Group) -> tuple[torch.Tensor, Work]:
    """The result has `size` elements."""

def reduce_scatter(x: torch.Tensor, size: int, group: Group, op: Any = ...) -> tuple[torch.Tensor, Work]:
    """The result has `size` elements."""

def all_to_all(x: torch.Tensor, group: Group) -> tuple[torch.Tensor, Work]:
    """The result is as large as x."""

def collective_permute(
    x: torch.Tensor, peers: Any, tag: int, group: Group | None = None
) -> tuple[torch.Tensor, Work]:
    """peers: of `peers_of`. tag: of this module alone, where the library knows tags. group: of `permute_group`."""

def peers_of(sources: tuple[int, ...], rank: int, ranks: tuple[int, ...]) -> Any:
    """What collective_permute gets as peers. sources[r]: who sends to r, -1: nobody; ranks: the global ones."""

# In place of peers_of, for a library that compiles one graph for all ranks.
def pairs_of(sources: tuple[int, ...], members: Iterable[tuple[int, ...]]) -> Any:
    """The same on all ranks. members: global ranks of every group that runs the problem at the same time."""

def boundary() -> None:
    """What was traced so far is a graph of its own."""

def this_rank() -> int:
    """The global rank of this process."""

def world_size() -> int:
    """How many ranks the job has."""

def my_group(
    replica_groups: Iterable[tuple[int, ...]],
    members: Iterable[tuple[int, ...]],
    new_group: Callable[[tuple[int, ...]], Group],
) -> Group:
    """What collectives get as group: this rank's, of all that all concurrent problems have."""

def make_group(ranks: tuple[int, ...]) -> Group:
    """The group of some global ranks, with timeout and options of the script's own; modules that are timed take it
    by default."""

# For deployed modules.
def kept_group(ranks: tuple[int, ...]) -> Group:
    """The group of some global ranks, made once for all Cases."""

def permute_group(library: str) -> Group | None:
    """A group of all ranks for this module's permutes, where the library knows no tags; else None."""

def everybody_says(mine: Any, group: Group | None = None) -> list[Any]:
    """What each rank gives, by rank; it can be pickled. group: of `my_group`, where only its ranks are asked."""

def anybody(mine: bool, group: Group, device: torch.device) -> bool:
    """Whether a rank of a group (of `my_group`) says so. Cheaper than `everybody_says`: it comes before every call
    of some Cases."""

def check_started() -> None:
    """RuntimeError where this process has not met the others yet."""

def found(device: torch.device) -> dict[str, str]:
    """The library, as `library`, and what is here now of a backend's VERSIONS, under the names that its fingerprint
    tells."""
