"""All ranks the same, or the same error on all of them."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from operator import index
from typing import Any

import torch

from overlayccl_core.emit.runtime.calls import all_to_all, everybody_says
from overlayccl_core.emit.runtime.entry import Spec, port_text
from overlayccl_core.emit.runtime.events import Events, Port, Read
from overlayccl_core.emit.runtime.packing import Counts


def agree(mine: dict[str, Any]) -> None:
    """Raise the same error on all ranks if their values differ."""
    said = everybody_says(mine)
    for rank, other in enumerate(said):
        for name, value in said[0].items():
            if other[name] != value:
                raise RuntimeError(
                    f"ranks differ in {name}: {value!r} on rank 0, {other[name]!r} on rank {rank}:"
                    " start all ranks alike"
                )


class Agreement:
    """Lets the ranks of a Case go on together, or raise the same error, if they ask each other.

    With OVERLAYCCL_CHECK=1 (checks) they exchange their next action and their error before every call and after
    every Read. Otherwise each rank raises its own error alone: to ask costs as much as a small call.

    arguments: values the Case is proven for and tensors do not show: name -> integers of this rank, to be passed
    with every call. ranks: global ones. group: theirs, by `my_group`, if they ask each other.
    """

    def __init__(
        self, checks: bool, arguments: Mapping[str, tuple[int, ...]], ranks: tuple[int, ...], group: Any
    ) -> None:
        self.checks, self._proven = checks, arguments
        self._ranks, self._group = ranks, group

    def reach(self, doing: str, wrong: str = "") -> None:
        """Raise if something is wrong; on all ranks, if they ask each other."""
        if not self.checks:
            if wrong:
                raise ValueError(wrong)
            return
        said = everybody_says((doing, wrong), self._group)
        for rank, (_, its_wrong) in zip(self._ranks, said, strict=True):
            if its_wrong:
                raise ValueError(f"rank {rank}: {its_wrong}")
        for rank, (other, _) in zip(self._ranks, said, strict=True):
            if other != said[0][0]:
                raise RuntimeError(
                    f"rank {self._ranks[0]} runs {said[0][0]}, rank {rank} runs {other}: all ranks must do the same"
                    " in the same order"
                )

    def unproven(self, what: str, given: Mapping[str, Any]) -> str:
        """Return why a call's arguments are not the proven ones of this rank, or nothing."""
        if unknown := [name for name in given if name not in self._proven]:
            takes = ", ".join(self._proven) or "none"
            return f"{what} has no argument {unknown[0]!r}: it takes {takes}"
        for name, proven in self._proven.items():
            if (row := integers(given.get(name))) != list(proven):
                return (
                    f"{what} is proven for {name}={list(proven)} of this rank and got"
                    f" {row if len(row) == len(proven) else f'no {len(proven)} integers'}: pass its {name} with"
                    " every call, and deploy a Case for those that you have"
                )
        return ""


def raised(what: str, error: Exception) -> str:
    """Describe an error raised by a check: the other ranks wait to hear of it."""
    return f"{what}: {type(error).__name__}: {error}"


def integers(given: Any) -> list[int]:
    """Return a list of integers; empty for anything else."""
    try:
        row = given.tolist() if hasattr(given, "tolist") else given
        return [index(x) for x in row] if isinstance(row, (list, tuple)) else []
    except Exception:  # a script's object may raise any
        return []


def agreed_counts(
    mine: Sequence[int],
    capacity: int,
    ranks: tuple[int, ...],
    group: Any,
    device: torch.device,
    wrong: str = "",
) -> Counts:
    """Return the counts of a call, by one small all_to_all; or raise the same error on all ranks.

    Each rank tells each one its rows for it, its most rows for any rank, its capacity, and whether it can go on.

    Args:
        mine: Rows of this rank for each rank.
        capacity: Rows for one rank that a uniform exchange has room for; must be equal on all ranks.
        ranks: Global ones, of the group.
        group: Of `my_group`.
        wrong: Why this rank cannot go on, or nothing.
    """
    given = [0] * len(ranks) if wrong else mine
    of_all = (max(given), capacity, int(wrong != ""))
    tells = [n for count in given for n in (count, *of_all)]
    told, work = all_to_all(torch.tensor(tells, dtype=torch.int64, device=device), group)
    work.wait()
    back, largest, capacities, is_wrong = told.view(len(ranks), -1).T.tolist()
    if any(is_wrong):
        said = everybody_says(wrong, group)
        raise ValueError(next(f"rank {rank}: {its}" for rank, its in zip(ranks, said, strict=True) if its))
    for rank, other in zip(ranks, capacities, strict=True):
        if other != capacities[0]:
            raise RuntimeError(
                f"ranks differ in the capacity of an exchange: {capacities[0]} on rank {ranks[0]}, {other} on rank"
                f" {rank}: all ranks must call the same exchange in the same order"
            )
    return Counts.of(given, back, max(largest))


class Answered(Generator):  # type: ignore[type-arg]
    """The same events; each answer to a Read must fit before the next statement runs. It keeps no value alive."""

    def __init__(
        self, events: Events, what: str, specs: dict[Port, Spec], agreement: Agreement, device: torch.device
    ) -> None:
        self._events, self._what, self._specs = events, what, specs
        self._agreement, self._device = agreement, device
        self._port: Port | None = None  # of the unanswered Read

    def send(self, answer: Any) -> Any:
        if self._port is not None:
            self._check(self._port, answer)
        event = self._events.send(answer)
        self._port = event.port if isinstance(event, Read) else None
        return event

    def throw(self, *error: Any) -> Any:
        return self._events.throw(*error)

    def _check(self, port: Port, answer: Any) -> None:
        checks, same = self._agreement.checks, ""
        try:
            wrong = self._specs[port].unread(port, answer, self._device, checks)
            same = "" if wrong or not checks else self._specs[port].same(answer)
        except Exception as error:
            wrong = raised(port_text(port), error)
        if wrong or checks:
            self._agreement.reach(f"{self._what} up to {port_text(port)}{same}", wrong)
