"""A Case of a deployed module with its process groups: its calls, and their check against the plain ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from overlayccl_core.emit.runtime.agreement import Agreement, Answered
from overlayccl_core.emit.runtime.calls import everybody_says, found, my_group, this_rank
from overlayccl_core.emit.runtime.entry import Entry, Spec, port_text
from overlayccl_core.emit.runtime.events import Events, Port, Section, answer, calls_of, in_order
from overlayccl_core.emit.runtime.given import DIGEST, PROVEN
from overlayccl_core.emit.runtime.groups import Group
from overlayccl_core.emit.runtime.versions import differences


class Connected:
    """A Case with its process groups on this rank: generators for a driver, groups for your own script."""

    def __init__(
        self,
        case: str,
        entry: Entry,
        members: tuple[tuple[int, ...], ...],
        new_group: Callable[[tuple[int, ...]], Any],
        device: torch.device,
        way: str,
        checks: bool,
        permutes: Any,
    ) -> None:
        self.case, self.entry, self.way, self.device, self.checks = case, entry, way, device, checks
        self._name = case if way == "chosen" else f"{case} ({way})"
        self.members, self.new_group, self._permutes = members, new_group, permutes
        self.ranks = next(ranks for ranks in members if this_rank() in ranks)
        self.rank = self.ranks.index(this_rank())  # in its group
        group = my_group((tuple(range(entry.ranks)),), members, new_group) if checks else None
        mine = {name: rows[self.rank] for name, rows in entry.arguments.items()}
        self.agreement = Agreement(checks, mine, self.ranks, group)
        self._sections = self._build(way)
        self._tested: list[Section] = []
        self._groups = tuple(
            Group(self._name, entry, number, self._sections, device, self.agreement)
            for number in range(len(entry.groups))
        )

    def _build(self, way: str) -> dict[str, tuple[Section, ...]]:
        """Return direction -> sections."""
        make = self.entry.ways[way].sections
        return make(self._permutes, self.members, self.new_group, self.ranks, self.rank, self.device)

    def forward(self, **arguments: Any) -> Events:
        """Return a generator: it yields Read (answer with a flat contiguous tensor, which stays yours) and Write
        (take `value`). `arguments`: as for a group.
        """
        return self._events("forward", arguments)

    def backward(self, **arguments: Any) -> Events:
        """Return the same for the gradients of a Case with a backward of its own; `arguments`: the forward's."""
        if "backward" not in self._sections:
            why = {"none": "there is none", "in_backward": "it IS one: call forward() in the backward pass"}
            raise RuntimeError(f"{self.case} has no backward of its own: {why[self.entry.gradient]}")
        return self._events("backward", arguments)

    def _events(self, direction: str, arguments: dict[str, Any]) -> Events:
        what, specs = f"the {direction} of {self._name}", self.entry.inputs[direction]
        self.agreement.reach(what, self.agreement.unproven(what, arguments))
        return Answered(in_order(self._sections[direction]), what, specs, self.agreement, self.device)

    @property
    def groups(self) -> tuple[Group, ...]:
        """All groups; RuntimeError if the calls do not fall into groups."""
        ways = self.entry.ways
        if why := ways[self.way].ungrouped:
            plain = "" if ways["plain"].ungrouped else ", or set OVERLAYCCL_PLAIN=1"
            raise RuntimeError(
                f"{self.case} does not fall into groups of reads and their writes ({why}): answer the events of"
                f" forward() and backward() in your step{plain}"
            )
        return self._groups

    def group(self, number: int) -> Group:
        """Return a group by its number (the layer, in a model of layers): call it with a list of tensors."""
        if number not in range(len(self.groups)):
            raise IndexError(f"{self.case} has groups 0 to {len(self.groups) - 1} (got {number!r})")
        return self.groups[int(number)]

    def stamp(self) -> dict[str, Any]:
        """Return what runs, the proven and the present versions, and the calls so far, by collective."""
        here = found(self.device)
        return {
            "case": self.case,
            "module": DIGEST,
            "runs": self.way,
            "checks": self.checks,
            **self.entry.ways[self.way].said,
            "plain_program": self.entry.ways["plain"].said["program"],
            "proven": dict(PROVEN),
            "found": here,
            "differs": differences(here),
            "calls": calls_of(section for of in self._sections.values() for section in of),
            "selftest_calls": calls_of(self._tested),
        }

    def selftest(self, seed: int = 0) -> list[dict[str, Any]]:
        """Compare every way with the plain calls, on random inputs (NaN where not valid), on all ranks.

        Returns:
            Checks: direction, way, outputs, largest error (rms over rms) and tolerance.

        Raises:
            RuntimeError: They differ by more. Raised on all ranks, with rank, port and error.
        """
        ways = {name: self._build(name) for name in self.entry.ways}
        self._tested += [section for of in ways.values() for sections in of.values() for section in sections]
        plain = ways.pop("plain")
        checked = []
        for direction in self._sections:
            me = this_rank()
            overwritten: list[tuple[float, int, str]] = []
            wanted = self._run(plain[direction], direction, seed, overwritten)
            for name, sections in ways.items():
                mine = [(0.0, me, ""), *overwritten]
                got = self._run(sections[direction], direction, seed, mine)
                for port, spec in self.entry.outputs[direction].items():
                    # saved outputs may differ: their gradients do not
                    count = 0 if spec.saved else self._valid(spec)
                    error = _error(got.pop(port)[:count], wanted[port][:count])
                    mine.append((error, me, port_text(port)))
                error, rank, where = max(everybody_says(max(mine, key=_badness)), key=_badness)
                tolerance = self.entry.ways[name].tolerance[direction]
                if not error <= tolerance:
                    raise RuntimeError(
                        f"{self.case} {direction}: {where} differs from the plain calls by {error:.3g} on rank"
                        f" {rank} ({name}, at most {tolerance:.3g} is allowed): set OVERLAYCCL_PLAIN=1 and"
                        " deploy again"
                    )
                line = {"case": self.case, "direction": direction, "way": name, "outputs": len(wanted)}
                checked.append({**line, "error": error, "tolerance": tolerance})
        return checked

    def _run(
        self, sections: tuple[Section, ...], direction: str, seed: int, wrong: list[tuple[float, int, str]]
    ) -> dict[Port, torch.Tensor]:
        """Return port -> flat output, on the host: a device has room for one way. Report overwritten inputs."""
        specs = self.entry.inputs[direction]
        given = {
            port: self._random(index, spec, seed).to(self.device)
            for index, (port, spec) in enumerate(specs.items())
        }
        written: dict[Port, torch.Tensor] = {}
        with torch.no_grad():
            answer(in_order(sections), dict(given), written)
        everybody_says(direction)  # compiled graphs run here
        for index, (port, spec) in enumerate(specs.items()):
            kept = self._random(index, spec, seed)
            if not torch.equal(given.pop(port).cpu().nan_to_num(), kept.nan_to_num()):
                wrong.append(
                    (float("inf"), this_rank(), f"{port_text(port)} is an input, was overwritten, and")
                )
        return {port: written.pop(port).cpu().reshape(-1) for port in list(written)}

    def _random(self, index: int, spec: Spec, seed: int) -> torch.Tensor:
        """Return this rank's flat values of an input, on the host: graphs must not depend on the rank."""
        place = 0 if spec.equal else 1 + this_rank()
        random = torch.Generator("cpu").manual_seed((seed * 7919 + index) * 65537 + place)
        host: dict[str, Any] = {"generator": random, "device": "cpu"}  # not a script's default
        if spec.dtype is torch.int64 and spec.within is not None:
            drawn = torch.randint(spec.within[0], spec.within[1] + 1, spec.shape, **host)
        else:
            drawn = torch.randn(spec.shape, **host)
        row = drawn.reshape(-1).to(spec.dtype)
        if spec.valid is not None:
            row[self._valid(spec) :] = float("nan")
        return row

    def _valid(self, spec: Spec) -> int:
        return math.prod(spec.shape) if spec.valid is None else spec.valid[self.rank]


def _error(x: torch.Tensor, wanted: torch.Tensor) -> float:
    """Return the rms error over rms; 0 of nothing."""
    if not x.numel():
        return 0.0
    off, size = _rms(x.double() - wanted.double()), _rms(wanted.double())
    return off / size if size else off


def _rms(x: torch.Tensor) -> float:
    return float(x.square().mean().sqrt().item())


def _badness(checked: tuple[float, int, str]) -> tuple[bool, float, int]:
    error, rank, _ = checked
    return (error != error, error, -rank)  # NaN is worst
