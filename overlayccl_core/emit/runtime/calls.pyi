"""The library's calls, as declared: `backends/<name>/calls.py` of a library for torch tensors defines them.

Calls that no Program makes may be missing. `connect` of every module makes groups and peers with this file.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import torch

class Work(Protocol):
    """A call under way."""

    def wait(self) -> Any:
        """Return when its result is there, or (on a device) ordered before later operations."""

Group = Any  # a library's group of ranks for collectives; `my_group` may refer to it weakly
MAX: Any  # the reduction `maximum`, given as `op`

# Each starts a collective on a flat tensor and returns the result and its work.
def all_reduce(x: torch.Tensor, group: Group, op: Any = ...) -> tuple[torch.Tensor, Work]:
    """The result may take over x, but not in one graph compiled for all ranks."""

def all_reduce_coalesced(
    xs: list[torch.Tensor], group: Group, op: Any = ...
) -> tuple[list[torch.Tensor], Work]:
    """One call for several values of one dtype, with a result each; may take them over like `all_reduce`."""

def all_gather(x: torch.Tensor, size: int, group: Group) -> tuple[torch.Tensor, Work]:
    """The result has `size` elements."""

def reduce_scatter(x: torch.Tensor, size: int, group: Group, op: Any = ...) -> tuple[torch.Tensor, Work]:
    """The result has `size` elements."""

def all_to_all(x: torch.Tensor, group: Group) -> tuple[torch.Tensor, Work]:
    """The result is as large as x."""

def collective_permute(
    x: torch.Tensor, peers: Any, tag: int, group: Group | None = None
) -> tuple[torch.Tensor, Work]:
    """peers: of `peers_of`. tag: of this module alone, if the library knows tags. group: of `permute_group`."""

def peers_of(sources: tuple[int, ...], rank: int, ranks: tuple[int, ...]) -> Any:
    """Return peers for collective_permute. sources[r]: the sender to r, -1: none; ranks: the global ones."""

# In place of peers_of, for a library that compiles one graph for all ranks.
def pairs_of(sources: tuple[int, ...], members: Iterable[tuple[int, ...]]) -> Any:
    """Return the same on all ranks. members: global ranks of every group that runs the problem at the same time."""

def boundary() -> None:
    """End the graph traced so far."""

def this_rank() -> int:
    """Return the global rank of this process."""

def world_size() -> int:
    """Return the job's number of ranks."""

def my_group(
    replica_groups: Iterable[tuple[int, ...]],
    members: Iterable[tuple[int, ...]],
    new_group: Callable[[tuple[int, ...]], Group],
) -> Group:
    """Return the collectives' group: this rank's, of all groups of all concurrent problems."""

def make_group(ranks: tuple[int, ...]) -> Group:
    """Make the group of some global ranks, with a script's own timeout and options: timed modules' default."""

# For deployed modules.
def all_to_all_rows(
    x: torch.Tensor, give: Sequence[int], take: Sequence[int], group: Group
) -> tuple[torch.Tensor, Work]:
    """Start an exchange of rows of x. give: for each rank of the group, they sum to x's rows; take: from each. A
    library without it leaves it out: its modules have no `by_counts`.
    """

def kept_group(ranks: tuple[int, ...]) -> Group:
    """Return the group of some global ranks, made once for all Cases."""

def permute_group(library: str) -> Group | None:
    """Return a group of all ranks for this module's permutes if the library knows no tags; else None."""

def everybody_says(mine: Any, group: Group | None = None) -> list[Any]:
    """Return each rank's value, by rank; it can be pickled. group: of `my_group`, to ask its ranks only."""

def check_started() -> None:
    """Raise RuntimeError if this process has not met the others yet."""

def found(device: torch.device) -> dict[str, str]:
    """Return the library, as `library`, and the present VERSIONS of a backend, by their fingerprint names."""
