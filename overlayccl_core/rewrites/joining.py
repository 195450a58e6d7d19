"""Buckets of collectives, for the rules that join them.

A knob is the largest bucket, in bytes of operands (of an all_gather: of the result, held by every rank): `all`, a
share `1/k` of all joinable bytes, or `25MiB`. Buckets are filled in the model's order of the values; a value larger
than a bucket is alone.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from overlayccl_core.configuration.sizes import MIB
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.program import Program
from overlayccl_core.program.segments import Depths, by_readiness
from overlayccl_core.rewrites.rule import DoesNotApply

ALL = "all"
SHARES = ("1/2", "1/3", "1/4", "1/8", "1/16", "1/32")
# Usual settings: for gradients (the first is torch DistributedDataParallel's own), for gathered parameters.
CAPS = ("25MiB", "32MiB", "64MiB", "256MiB", "512MiB")
_KNOB = re.compile(r"1/(?P<parts>[1-9]\d*)|(?P<mib>[1-9]\d*)MiB")

Bucket = list[Node]
Held = Callable[[Node], int]


def independent(program: Program, sites: Sequence[Node]) -> list[list[Node]]:
    """Group the sites into lists of joinable ones, each in the model's order of their values."""
    depths = Depths(program.problem, program.outputs)
    levels: dict[Any, list[Node]] = {}
    for x in by_readiness(program, sites):
        levels.setdefault((depths.node(x), x.kind, x.attr, x.dtype), []).append(x)
    return list(levels.values())


def held_bytes(x: Node) -> int:
    """Return the bytes of a collective's operand or result, the larger of the two."""
    return max(x.operands[0].bytes, x.bytes)


def in_buckets(level: Sequence[Node], knob: str, held: Held = held_bytes) -> Iterator[Bucket]:
    """Yield the sites in order, cut before the knob's cap is exceeded. held: Bytes of a site."""
    cap = cap_bytes(knob, sum(map(held, level)))
    bucket: Bucket = []
    filled = 0
    for x in level:
        size = held(x)
        if bucket and filled + size > cap:
            yield bucket
            bucket, filled = [], 0
        bucket.append(x)
        filled += size
    yield bucket


def cap_bytes(knob: str, total: int) -> Fraction:
    """Return a knob's largest bucket, for `total` joinable bytes.

    Raises:
        DoesNotApply: There is no such knob.
    """
    if knob == ALL:
        return Fraction(total)
    match = _KNOB.fullmatch(knob)
    if not match:
        raise DoesNotApply(f"a bucket is {ALL}, a share as 1/4, or a cap as 25MiB (got {knob!r})")
    if parts := match["parts"]:
        return Fraction(total, int(parts))
    return Fraction(int(match["mib"]) * MIB)


def different_buckets(
    levels: Sequence[Sequence[Node]], settings: Sequence[str], held: Held = held_bytes
) -> tuple[str, ...]:
    """Return the settings that give different buckets, with more than one value somewhere."""
    seen: list[list[Bucket]] = [[[x] for level in levels for x in level]]  # all alone: nothing to do
    different = []
    for knob in settings:
        buckets = [bucket for level in levels for bucket in in_buckets(level, knob, held)]
        if buckets not in seen:
            seen.append(buckets)
            different.append(knob)
    return tuple(different)
