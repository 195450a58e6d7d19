"""The collectives of HLO text: which came out of the compiler, over which groups, how many in flight.

It knows XLA's text and nothing of ours: no emitter, no Program.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.schedules.hlo_text import (
    ArrayShape,
    Computation,
    HloModule,
    HloShape,
    Instruction,
    leaves,
    parse,
    refuse,
)

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
_OTHERS = ("collective-broadcast", "ragged-all-to-all")  # listed, but no calls of a Program
BYTES = {
    **{"f64": 8, "f32": 4, "bf16": 2, "f16": 2},
    **{"s64": 8, "s32": 4, "s16": 2, "s8": 1, "u64": 8, "u32": 4, "u16": 2, "u8": 1, "pred": 1},
}
MAX_NESTING = 64  # of computations
MAX_RANKS = 2**20

_LISTS = re.compile(r"\{([\d,]*)\}")
_ALL_LISTS = re.compile(r"\{(?:\{[\d,]*\},?)*\}")
_IOTA = re.compile(r"\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(r"mesh\[([^\]]*)\](?:device_ids=\(([\d,]+)\))?\{(.*)\}")
_AXIS = re.compile(r"'([^']*)'(?:=(\d+)|:\((\d+)\)(\d+))?")

Members = list[tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Collective:
    """One of them.

    Attributes:
        kind: As HLO calls it, without -start.
        bytes: Of one rank, at the larger side.
        operands: Tensors that it is given, without scalars where there are others.
        groups: Replica groups, or (from, to) pairs, as the text has them.
        in_flight: Others that have started and not ended when it starts.
    """

    kind: str
    dtype: str
    bytes: int
    operands: int
    groups: tuple[tuple[int, ...], ...]
    in_flight: int = field(default=0, compare=False)


def collectives(text: str) -> list[Collective]:
    """All of a module, in its order, each once, also in a loop. Rejected for what is not understood."""
    module = parse(text)
    return list(_below(module, module.entry, set(), {module.entry.name}, 0))


def base_opcode(opcode: str) -> str:
    """all-reduce of all-reduce, all-reduce-start and all-reduce-done."""
    return re.sub(r"-(start|update|done)$", "", opcode)


def groups_as_written(x: Instruction) -> Members:
    """replica_groups written out, {{0,1},{2,3}}, [2,2]<=[4]T(1,0) or mesh['a'=2,'b'=2] {'b'}; empty: all."""
    text = _without_spaces(x.attributes.get("replica_groups", "{}"))
    if "device_ids" in x.attributes:  # mesh[..], device_ids=(..) {..}: a comma between the two halves
        text += f"device_ids={_without_spaces(x.attributes['device_ids'])}"
    try:
        if _ALL_LISTS.fullmatch(text):
            return [tuple(map(int, one.split(","))) for one in _LISTS.findall(text[1:-1])]
        if iota := _IOTA.fullmatch(text):
            dims = _integers(iota[3])
            order = _integers(iota[4]) if iota[4] else tuple(range(len(dims)))
            return _rows(_ranks(dims).transpose(order), int(iota[2]))
        if mesh := _MESH.fullmatch(text):
            return _of_mesh(mesh)
    except ValueError:
        pass
    refuse(x, f"replica_groups={text[:80]} are not understood")


def groups_of_ranks(x: Instruction, module: HloModule) -> Members:
    """The groups as ranks of the module, by its channel and use_global_device_ids (XLA's four modes)."""
    partitions, replicas = range(module.partitions), range(module.replicas)
    written, channel = groups_as_written(x), "channel_id" in x.attributes
    says_global = x.attributes.get("use_global_device_ids")
    if says_global == "true":  # ids of ranks
        if not written:
            refuse(x, "has no replica_groups, which use_global_device_ids asks for")
        return written
    if channel and base_opcode(x.opcode) == "all-to-all":  # ids of partitions, within each replica
        groups = written or [tuple(partitions)]
        return [tuple(r * len(partitions) + p for p in group) for group in groups for r in replicas]
    groups = written or [tuple(replicas)]
    if channel:  # ids of replicas, with all their partitions
        return [tuple(r * len(partitions) + p for r in group for p in partitions) for group in groups]
    return [tuple(r * len(partitions) + p for r in group) for group in groups for p in partitions]


def pairs_as_written(x: Instruction) -> Members:
    """source_target_pairs={{0,1},{1,0}}."""
    text = _without_spaces(x.attributes.get("source_target_pairs", ""))
    pairs = [_integers(one) for one in _LISTS.findall(text[1:-1])]
    if not _ALL_LISTS.fullmatch(text) or any(len(pair) != 2 for pair in pairs):
        refuse(x, f"source_target_pairs={text[:80]} are not understood")
    return pairs


def pairs_of_ranks(x: Instruction, module: HloModule) -> list[tuple[int, int]]:
    """The pairs as ranks: of partitions where it has a channel, of replicas otherwise."""
    pairs, n = pairs_as_written(x), module.partitions
    if "channel_id" in x.attributes:
        return [(r * n + a, r * n + b) for r in range(module.replicas) for a, b in pairs]
    return [(a * n + p, b * n + p) for p in range(n) for a, b in pairs]


def _below(
    module: HloModule, computation: Computation, open_: set[str], seen: set[str], nesting: int
) -> Iterator[Collective]:
    """Those of a computation and of what it calls. open_: starts without their end so far; seen: computations."""
    if nesting > MAX_NESTING:
        refuse(computation.root, f"computations are nested deeper than {MAX_NESTING}")
    ends = {
        y.operands[0]: y
        for y in computation.instructions.values()
        if y.operands and y.opcode.endswith("-done")
    }
    for x in computation.instructions.values():
        found = []
        if base_opcode(x.opcode) in (*KINDS, *_OTHERS) and not x.opcode.endswith(("-done", "-update")):
            found = [_collective(x, ends.get(x.name, x), computation, len(open_))]
        elif base_opcode(x.opcode) not in ("reduce", "all-reduce", "reduce-scatter", "sort", "scatter"):
            for name in x.called if not x.opcode.endswith(("-done", "-update")) else ():
                if name in module.computations and name not in seen:
                    seen.add(name)
                    found += _below(module, module.computations[name], open_, seen, nesting + 1)
        yield from found
        if found and x.opcode.endswith("-start"):
            open_.add(x.name)
        if x.opcode.endswith("-update") and not open_.isdisjoint(x.operands):
            open_.add(x.name)
        if x.opcode.endswith(("-done", "-update")):
            open_.difference_update(x.operands)


def _collective(x: Instruction, end: Instruction, computation: Computation, in_flight: int) -> Collective:
    """end: its -done, which has the shape of the result alone; without one, itself."""
    kind = base_opcode(x.opcode)
    missing = next((name for name in x.operands if name not in computation.instructions), None)
    if missing is not None:
        refuse(x, f"%{missing} is not there")
    given = _arrays([computation.instructions[name].shape for name in x.operands])
    sides = [given, _arrays([end.shape])]
    permutes = kind == "collective-permute"
    return Collective(
        kind=kind,
        dtype=given[0].dtype if given else "",
        bytes=max(sum(prod(a.dims) * BYTES.get(a.dtype, 1) for a in side) for side in sides),
        operands=len(given),
        groups=tuple(pairs_as_written(x) if permutes else groups_as_written(x)),
        in_flight=in_flight,
    )


def _arrays(shapes: Sequence[HloShape]) -> list[ArrayShape]:
    """The arrays, without scalars where there are others: torch_xla's tokens are scalars."""
    arrays = leaves(tuple(shapes))
    return [a for a in arrays if a.dims] or arrays


def _of_mesh(mesh: re.Match[str]) -> Members:
    """Ranks in a mesh of named axes, groups over some of them; 'a':(2)4 is 4 places behind 2. Or ValueError."""
    sizes = {name: int(size) for name, size, _, _ in _AXIS.findall(mesh[1])}
    named = [
        (name, int(before or 1), int(n or sizes.get(name, 0)))
        for name, _, before, n in _AXIS.findall(mesh[3])
    ]
    if not sizes or any(name not in sizes for name, _, _ in named):
        raise ValueError("axes that the mesh does not have")
    dims: list[int] = []
    grouped: list[int] = []
    for axis, size in sizes.items():
        parts = [(before, before * n) for name, before, n in named if name == axis]
        for a, b in pairwise(sorted({1, size, *(end for part in parts for end in part)})):
            if any(before <= a and b <= after for before, after in parts):
                grouped.append(len(dims))
            dims.append(b // a)
    order = [(list(sizes).index(name), before) for name, before, _ in named]
    if order != sorted(order) or prod(dims) != prod(sizes.values()):
        raise ValueError("axes out of the order of the mesh")
    ranks = np.array(_integers(mesh[2])).reshape(dims) if mesh[2] else _ranks(dims)
    rest = [d for d in range(len(dims)) if d not in grouped]
    return _rows(ranks.transpose([*rest, *grouped]), prod(dims[d] for d in grouped))


def _ranks(dims: Sequence[int]) -> NDArray[np.int64]:
    if prod(dims) > MAX_RANKS:
        raise ValueError(f"more than {MAX_RANKS} ranks")
    return np.arange(prod(dims)).reshape(dims)


def _rows(ranks: NDArray[np.int64], size: int) -> Members:
    return [tuple(map(int, row)) for row in ranks.reshape(-1, size)]


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.split(",") if n.strip())


def _without_spaces(text: str) -> str:
    return "".join(text.split())
