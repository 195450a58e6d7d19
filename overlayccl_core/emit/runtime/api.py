"""Functions for a script: cases, ways, connect, stamp, selftest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import torch

from overlayccl_core.emit.runtime.agreement import agree
from overlayccl_core.emit.runtime.calls import (
    check_started,
    found,
    kept_group,
    permute_group,
    world_size,
)
from overlayccl_core.emit.runtime.connected import Connected
from overlayccl_core.emit.runtime.entry import Entry, what_there_is
from overlayccl_core.emit.runtime.given import DIGEST, ENTRIES, PROBLEM, PROVEN
from overlayccl_core.emit.runtime.versions import check_versions


def cases() -> tuple[str, ...]:
    """Return the ids of the Cases in this module."""
    return tuple(ENTRIES)


def ways(case: str) -> tuple[str, ...]:
    """Return the names of the proven ways of a Case, `chosen` and `plain` among them."""
    return tuple(_entry(case).ways)


def connect(
    case: str,
    members: Iterable[Iterable[int]] | None = None,
    new_group: Callable[[tuple[int, ...]], Any] | None = None,
    device: torch.device | str = "cpu",
    strict: bool = False,
    way: str = "chosen",
) -> Connected:
    """Return the calls of one Case, ready on this rank. All ranks of the job call it, in the same order.

    Args:
        members: Global ranks of every group that runs the Case at the same time (default: as in the Case).
        new_group: Makes (or keeps) the process group of some global ranks.
        device: Device of the tensors.
        strict: Refuse a library or version other than the proven ones (default: warn once).
        way: One of ways(case), the same on all ranks. With OVERLAYCCL_PLAIN=1 the plain calls run whatever it is.
    """
    connected = _connect(case, members, new_group, device, strict, way)
    _connected.append(connected)
    return connected


def stamp() -> dict[str, Any]:
    """Return what this module is, and every connected Case with its calls so far."""
    return {
        "problem": PROBLEM,
        "module": DIGEST,
        "proven": dict(PROVEN),
        "cases": [connected.stamp() for connected in _connected],
    }


def selftest(
    new_group: Callable[[tuple[int, ...]], Any] | None = None,
    device: torch.device | str = "cpu",
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Check every Case of this module, on all ranks: see Connected.selftest. Return the checks."""
    return [line for case in cases() for line in _connect(case, None, new_group, device).selftest(seed)]


_connected: list[Connected] = []


def _connect(
    case: str,
    members: Iterable[Iterable[int]] | None,
    new_group: Callable[[tuple[int, ...]], Any] | None,
    device: torch.device | str,
    strict: bool = False,
    way: str = "chosen",
) -> Connected:
    entry = _entry(case)
    check_started()
    checked = _checked_members(case, entry, members)
    plain = _is_set("OVERLAYCCL_PLAIN", "plain calls")
    checks = _is_set("OVERLAYCCL_CHECK", "ranks agree before every call of a group")
    device = torch.device(device)
    versions = found(device)
    agree(
        {
            **{"the Case": case, "the module": DIGEST, "OVERLAYCCL_PLAIN": plain, "OVERLAYCCL_CHECK": checks},
            **{"the way": way, "members": checked, **versions},
        }
    )
    if way not in entry.ways:  # asked last: a rank that raises alone would leave the others waiting
        raise ValueError(f"{case} has no way {way!r}: name one of {', '.join(entry.ways)}")
    check_versions(versions, strict)
    permutes = permute_group(versions["library"]) if entry.permutes else None
    return Connected(
        case, entry, checked, new_group or kept_group, device, "plain" if plain else way, checks, permutes
    )


def _entry(case: str) -> Entry:
    if case not in ENTRIES:
        raise ValueError(f"{case!r} is not in this module. {what_there_is(ENTRIES)}")
    return ENTRIES[case]


def _checked_members(
    case: str, entry: Entry, members: Iterable[Iterable[int]] | None
) -> tuple[tuple[int, ...], ...]:
    ranks = world_size()
    if members is None and ranks != sum(map(len, entry.members)):
        raise ValueError(f"{case} is not of {ranks} ranks, which run here. {what_there_is(ENTRIES)}")
    given = entry.members if members is None else members
    try:
        groups = tuple(tuple(group) for group in given)
    except TypeError:  # ranks, not groups of them
        groups = ()
    placed = [rank for group in groups for rank in group]
    if {len(group) for group in groups} != {entry.ranks} or sorted(placed) != list(range(ranks)):
        raise ValueError(
            f"members of {case} must be groups of {entry.ranks} ranks that hold each of the {ranks} ranks"
            f" once (got {given}). {what_there_is(ENTRIES)}"
        )
    return groups


def _is_set(name: str, meaning: str) -> bool:
    value = os.environ.get(name, "")
    if value not in ("", "0", "1"):
        raise ValueError(f"{name} must be 1 ({meaning}), 0 or unset (got {value!r})")
    return value == "1"
