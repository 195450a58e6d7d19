"""What the ranks of a group tell each other in its store: what each makes the group's calls by, and on which host.

Each says it before the library connects the group, and looks there at its first call that could be made otherwise:
no collective is needed, so none can be out of step.
"""

import json
import os
import socket
import warnings
from typing import NamedTuple

import torch.distributed as dist

from .group import Group

SAID = "overlayccl: ways of rank "
NOTHING = "", "", ""


def tell(group: Group, what: str) -> None:
    """Tell the other ranks of a group that is about to be connected what this one makes its calls by: a word."""
    said = what, _host(), os.urandom(8).hex()
    group.get_group_store().set(f"{SAID}{group.rank()}", json.dumps(said))


class Agreement(NamedTuple):
    """What the ranks of a group told.

    Attributes:
        is_one: Whether all told the same.
        hosts: Over how many hosts they are spread.
        token: The first rank's, for this group alone: a store outlives groups, and ranks that torchrun restarts.
    """

    is_one: bool
    hosts: int
    token: str


def agree(group: Group, what: str, variable: str) -> Agreement:
    """Return what all ranks of the group told.

    If not, the first of those who told what this one did warns.

    Args:
        what: What this rank told.
        variable: Where a rank has it from.

    Raises:
        RuntimeError: A rank tells nothing.
    """
    store, names = group.get_group_store(), [f"{SAID}{rank}" for rank in range(group.size())]
    if not have_met(group):
        _wait(store, names, variable)
    said = [json.loads(store.get(name)) if store.check([name]) else NOTHING for name in names]
    told, hosts, tokens = zip(*said, strict=True)
    others = [rank for rank, one in enumerate(told) if one != what]
    if others and group.rank() == min(set(range(group.size())) - set(others)):
        warnings.warn(
            f"ranks {others} of a group of {group.size()} have other ways than rank {group.rank()}, or none: all "
            f"calls of the group stay as they are. Give all ranks the same {variable}.",
            stacklevel=2,
        )
    return Agreement(not others, len(set(hosts)), tokens[0])


def libraries(group: Group) -> set[str]:
    """Return the names of the libraries below a group."""
    return {group._get_backend(device).name() for device in group._device_types}


def have_met(group: Group) -> bool:
    """Whether all ranks had said what they have before this one left the group's construction.

    gloo connects each rank with each there.
    """
    return "gloo" in libraries(group) and not os.environ.get("TORCH_GLOO_LAZY_INIT")


def _host() -> str:
    """Return what tells this host from others; torchrun numbers those of a job."""
    return f"{socket.gethostname()} {os.environ.get('GROUP_RANK', '')}"


def _wait(store: dist.Store, names: list[str], variable: str) -> None:
    try:
        store.wait(names)
    except dist.DistStoreError:
        absent = [rank for rank, name in enumerate(names) if not store.check([name])]
        raise RuntimeError(
            f"ranks {absent} of this group say nothing of their ways: give all ranks the same {variable}"
        ) from None
