"""Read the collectives off HLO text. It knows XLA's text and nothing of ours: no emitter, no Program.

An instruction of unoptimized HLO, in one line (an all_reduce also carries torch_xla's token, a scalar):
  %all-reduce.9 = (f32[16]{0}, f32[]) all-reduce(f32[16]{0} %p0.1, f32[] %constant.2), replica_groups={{0,1}}, ...
  ROOT %collective-permute.7 = f32[6]{0} collective-permute(f32[6]{0} %add.6), source_target_pairs={{0,1},{1,0}}
"""

import re
from dataclasses import dataclass
from math import prod

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
BYTES = {"f64": 8, "f32": 4, "bf16": 2, "f16": 2, "s64": 8, "s32": 4, "pred": 1, "u8": 1}
_LINE = re.compile(
    rf"^\s*(?:ROOT )?%?[\w.-]+ = (?P<result>.+?) (?P<kind>{'|'.join(KINDS)})\((?P<operands>.*?)\)(?P<rest>.*)$"
)
_SHAPE = re.compile(r"([a-z]+\d+|pred)\[([\d,]*)\]")
_LISTS = re.compile(r"\{([\d,]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Collective:
    """kind: as HLO calls it. groups: replica groups, or (from, to) pairs. bytes: of one rank, at the larger side.

    operands: tensors that it is given, without scalars.
    """

    kind: str
    dtype: str
    bytes: int
    operands: int
    groups: tuple[tuple[int, ...], ...]


def collectives(text: str) -> list[Collective]:
    """All of a module, in its order. ValueError for a line that looks like one and is not understood."""
    found = []
    for line in text.splitlines():
        match = _LINE.match(line)
        if match:
            found.append(_collective(match))
        elif any(f" {kind}(" in line or f" {kind}-start(" in line for kind in KINDS):
            raise ValueError(f"this collective is not understood: {line}")
    return found


def _collective(match: re.Match[str]) -> Collective:
    of = "source_target_pairs" if match["kind"] == "collective-permute" else "replica_groups"
    lists = re.search(rf"{of}=(\{{(?:\{{[\d,]*\}},?)*\}})", match["rest"])
    if lists is None:
        raise ValueError(f"a {match['kind']} without {of}: {match['rest']}")
    # the larger of result and operands, without tokens: what all_gather returns, what others take
    sides = [_tensors(match[side]) for side in ("result", "operands")]
    dtype = next(d for side in sides for d, _ in side)
    return Collective(
        kind=match["kind"],
        dtype=dtype,
        bytes=max(sum(n * BYTES[d] for d, n in side) for side in sides),
        operands=len(sides[1]),
        groups=tuple(tuple(map(int, one.split(","))) for one in _LISTS.findall(lists[1])),
    )


def _tensors(text: str) -> list[tuple[str, int]]:
    """(dtype, elements) of what is no scalar."""
    shapes = [(d, [int(n) for n in dims.split(",")]) for d, dims in _SHAPE.findall(text) if dims]
    return [(d, prod(dims)) for d, dims in shapes]
