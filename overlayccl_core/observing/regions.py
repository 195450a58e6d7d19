"""From captured calls to Cases: the step is cut where calls must stay as they are; what is between is a Case."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import polars as pl

from overlayccl_core.program.kinds import FLOATS
from overlayccl_core.tables.captured import CaptureSource

KINDS = {
    ("all_reduce", "sum"): "all_reduce_sum",
    ("all_reduce", "avg"): "all_reduce_avg",
    ("all_gather", ""): "all_gather",
    ("reduce_scatter", "sum"): "reduce_scatter_sum",
    ("reduce_scatter", "avg"): "reduce_scatter_avg",
    ("all_to_all", ""): "all_to_all",
}
"""(kind, reduction) of a captured call -> its kind in the Problem `captured`."""
DTYPES = {dtype.value: dtype.bytes for dtype in FLOATS}
Groups = tuple[tuple[int, ...], ...]
Key = tuple[str, Groups]
"""dtype and partition of the ranks: calls of one key, one after the other, are a region."""
SAME_ON_ALL_RANKS = ("kind", "reduction", "dtype", "inputs_bytes", "outputs_bytes")


@dataclass(frozen=True, kw_only=True)
class Region:
    """Calls of a step that have proven ways: of one dtype, on one partition of the ranks, one after the other.

    Attributes:
        runs: The calls' numbers in the step, of each such region.
        groups: The partition: global ranks of each group.
        described: Each call as the Problem `captured` has it.
    """

    runs: tuple[tuple[int, ...], ...]
    dtype: str
    groups: Groups
    described: tuple[Mapping[str, Any], ...]

    @property
    def placed(self) -> dict[str, Any]:
        """The fields of its entries that all Problems have: dtype, ranks, and strided if it is."""
        strided = len(self.groups) > 1 and self.groups[0][1] - self.groups[0][0] > 1
        return {"dtype": self.dtype, "ranks": len(self.groups[0]), **({"strided": True} if strided else {})}


@dataclass(frozen=True, kw_only=True)
class Fence:
    """A call that stays as it is, and why."""

    call: int
    why: str


def cut(captured: pl.DataFrame) -> tuple[list[Region], list[Fence]]:
    """Return the regions of a step (equal ones once) and its fences, out of `captured_calls`.

    Raises:
        ValueError: The table has no flow.
    """
    of_ranks = _of_ranks(captured)
    count = max(map(len, of_ranks))
    fences = [Fence(call=n, why=why) for n in range(count) if (why := _why_fixed(of_ranks, n))]
    fixed = {fence.call for fence in fences}

    def key(number: int) -> Key | None:
        return None if number in fixed else (of_ranks[0][number]["dtype"], _partition(of_ranks, number))

    together = _of_any_rank(of_ranks)
    regions = [_region(together, list(run), *of) for of, run in groupby(range(count), key) if of]
    return _folded(regions), fences


def bundles(captured: pl.DataFrame) -> list[Region]:
    """Return the parts of regions (equal ones once) that the script has in flight together: they may be one call.

    It issues them itself, one after another, and waits for none of them before it has issued the last.
    """
    calls = _of_any_rank(_of_ranks(captured))
    found = [
        _region(calls, part, region.dtype, region.groups)
        for region in cut(captured)[0]
        for run in region.runs
        for part in _in_flight(calls, run)
    ]
    return _folded(found)


def _in_flight(calls: Sequence[Mapping[str, Any]], run: Sequence[int]) -> Iterator[list[int]]:
    """Yield the parts of a run that are in flight together."""
    part: list[int] = []
    for number in run:
        if not all(_is_in_flight(calls[one], calls[number]) for one in part):
            yield from ([part] if len(part) > 1 else [])
            part = []
        part = [*part, number]
    yield from ([part] if len(part) > 1 else [])


def _is_in_flight(before: Mapping[str, Any], call: Mapping[str, Any]) -> bool:
    """Whether an earlier call is in flight when a call is issued, both by the script itself, and independent."""
    mine = not before["part"] and not call["part"] and before["call"] not in call["depends_on"]
    mine = mine and call["device"] == "cpu"  # on a device the group makes no bundles
    return mine and before["used_us"] is not None and before["used_us"] > call["issued_us"]


def _of_ranks(captured: pl.DataFrame) -> list[list[Mapping[str, Any]]]:
    """Return the calls of the followed step, of each rank."""
    flow = captured.filter(pl.col("depends_on").is_not_null()).sort("rank", "call")
    if not flow.height:
        raise ValueError(
            f"these calls are of a {captured['source'][0]}, which does not tell which calls depend on which: "
            "capture the script itself, overlayccl capture -- COMMAND"
        )
    of_ranks: list[list[Mapping[str, Any]]] = [
        list(of_rank.iter_rows(named=True)) for _, of_rank in flow.group_by("rank", maintain_order=True)
    ]
    return _of_all_ranks(of_ranks[0]) if captured["source"][0] == CaptureSource.FAKE else of_ranks


def _of_all_ranks(calls: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Return the calls of all ranks where one rank stands for all: they call alike, in their own groups."""
    of_ranks: list[list[Mapping[str, Any]]] = [[] for _ in range(calls[0]["world_size"])]
    for call in calls:
        size, ranks = len(call["group_ranks"]), call["partition"] or call["group_ranks"]
        own = {rank: {**call, "group_ranks": ranks[at - at % size :][:size]} for at, rank in enumerate(ranks)}
        for rank, theirs in enumerate(of_ranks):
            theirs.append(own.get(rank, call))
    return of_ranks


def _why_fixed(of_ranks: Sequence[Sequence[Mapping[str, Any]]], number: int) -> str:
    """Why a call must stay as it is; empty if it has proven ways."""
    if any(number >= len(calls) for calls in of_ranks):
        return "ranks make different numbers of calls"
    calls = [calls[number] for calls in of_ranks]
    one = calls[0]
    if any(call[name] != one[name] for call in calls for name in SAME_ON_ALL_RANKS):
        return "ranks make different calls"
    if (one["kind"], one["reduction"]) not in KINDS:
        return f"no ways of {' '.join(filter(None, (one['kind'], one['reduction'])))}"
    if one["dtype"] not in DTYPES:
        return f"no ways for {one['dtype']}"
    if not one["inputs_bytes"]:
        return "it moves nothing"
    if not all(call["uniform"] for call in calls):
        return "lists of tensors or splits, whose sizes may differ by rank"
    groups = _partition(of_ranks, number)
    if sorted(rank for group in groups for rank in group) != list(range(one["world_size"])):
        return "its groups are no partition of the ranks"
    if len({*map(len, groups)}) > 1 or len(groups[0]) < 2:
        return "groups of one rank, or of different sizes"
    if not _is_even(groups):
        return "its groups are neither contiguous nor every so-many-th rank"
    return ""


def _partition(of_ranks: Sequence[Sequence[Mapping[str, Any]]], number: int) -> Groups:
    return tuple(sorted({tuple(calls[number]["group_ranks"]) for calls in of_ranks}))


def _is_even(groups: Groups) -> bool:
    """Whether the groups are contiguous, or every so-many-th rank."""
    size, count = len(groups[0]), len(groups)
    contiguous = tuple(tuple(range(g * size, (g + 1) * size)) for g in range(count))
    return groups in (contiguous, tuple(tuple(range(g, size * count, count)) for g in range(count)))


def _region(calls: Sequence[Mapping[str, Any]], run: Sequence[int], dtype: str, groups: Groups) -> Region:
    places = {number: place for place, number in enumerate(run)}
    above: list[set[int]] = []
    described = []
    for number in run:
        direct = {places[one] for one in calls[number]["depends_on"] if one in places}
        indirect = set().union(*(above[one] for one in direct))
        above.append(direct | indirect)
        entry = {
            "kind": KINDS[calls[number]["kind"], calls[number]["reduction"]],
            "elements": calls[number]["inputs_bytes"] // DTYPES[dtype],
        }
        described.append({**entry, **({"after": sorted(direct - indirect)} if direct else {})})
    return Region(runs=(tuple(run),), dtype=dtype, groups=groups, described=tuple(described))


def _of_any_rank(of_ranks: Sequence[Sequence[Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
    """Return the calls of the first rank that all have, each with its dependencies on all ranks."""
    return [
        {**calls[0], "depends_on": sorted({one for call in calls for one in call["depends_on"]})}
        for calls in zip(*of_ranks, strict=False)
    ]


def _folded(regions: Sequence[Region]) -> list[Region]:
    """Equal regions as one."""
    found: dict[str, Region] = {}
    for one in regions:
        same = repr((one.dtype, one.groups, one.described))
        earlier = found[same].runs if same in found else ()
        found[same] = replace(one, runs=(*earlier, *one.runs))
    return list(found.values())
