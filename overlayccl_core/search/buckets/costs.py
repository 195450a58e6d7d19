"""The cost of an all_reduce of one bucket: prices of real Programs as a function of its bytes.

A bucket's Program packs k tensors, reduces them and takes the mean. Each of its features is a count, proportional
to the bytes, or to the bytes beyond some size. So the price of each part (before the call, the call, after it) is
straight between these sizes, once for buckets of one tensor (without packing) and once for more. It is drawn
through priced Programs; `check` compares it with the price of any bucket's Program.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overlayccl_core import catalog
from overlayccl_core.configuration.sizes import KIB, MIB
from overlayccl_core.costmodel.beside import Beside, Shares
from overlayccl_core.costmodel.features import (
    BEYOND_BYTES,
    CACHED_BYTES,
    LARGE_BYTES,
    Term,
    reach_of,
    step_features,
)
from overlayccl_core.costmodel.price import price, price_features
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.program.kinds import DType
from overlayccl_core.program.library import read_library
from overlayccl_core.program.lowering import Action
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.payload import crosses_nodes, node_bytes, payload_bytes
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.recipe import Recipe, replay

PROBLEM = "grad_ar"
SMALLEST, LARGEST = 4 * KIB, 16 * MIB
EQUAL = 1e-5  # relative: bends are at whole elements
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The cost of a bucket by its bytes: straight between `sizes`, and outside of them as beside them."""

    sizes: tuple[int, ...]
    us_at: tuple[float, ...]

    def __post_init__(self) -> None:
        if min(self.us_at) < 0 or min(np.diff(self.us_at)) < 0:
            raise ValueError(f"a larger bucket costs no less (got {self.us_at} us): fit theta again")

    def us(self, size: Floats | float) -> Floats:
        """Return the cost of a bucket, or of many."""
        sizes, us_at = np.asarray(self.sizes, np.float64), np.asarray(self.us_at)
        slopes = np.diff(us_at) / np.diff(sizes)
        below = np.minimum(np.asarray(size) - sizes[0], 0.0) * slopes[0]
        above = np.maximum(np.asarray(size) - sizes[-1], 0.0) * slopes[-1]
        us: Floats = np.maximum(np.interp(size, sizes, us_at) + below + above, 0.0)
        return us


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketParts:
    """A bucket's work on the core before its call, the call, and the work after it."""

    before: Curve
    call: Curve
    after: Curve

    def us(self, size: Floats | float) -> Floats:
        """Return all of it, of a bucket or of many."""
        us: Floats = self.before.us(size) + self.call.us(size) + self.after.us(size)
        return us


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketCosts:
    """Costs of buckets on a deployment: alone (one tensor) and packed (more).

    Attributes:
        launch_us: The module's call, once for all buckets.
        shares: Of a bucket's call, by its bytes.
        low, high: Factors of the 10% to 90% range.
    """

    alone: BucketParts
    packed: BucketParts
    launch_us: float
    shares: Callable[[int], Shares]
    low: float
    high: float

    def of(self, tensors: int) -> BucketParts:
        """Return the parts of a bucket of so many tensors."""
        return self.alone if tensors == 1 else self.packed

    def us(self, size: int, tensors: int) -> float:
        """Return the cost of one bucket of `size` bytes."""
        return float(self.of(tensors).us(size))

    def ending_at(self, before: Floats, last: int) -> Floats:
        """Return [last]: costs of the buckets of tensors i..last-1 for every i; before[i]: bytes before i."""
        costs = self.packed.us(before[last] - before[:last])
        costs[-1] = self.us(int(before[last] - before[last - 1]), 1)
        return costs


def bucket_costs(
    theta: Theta, beside: Beside, *, ranks: int, ranks_per_node: int, dtype: DType
) -> BucketCosts:
    """Return the costs by theta. ValueError names what is missing from the deployment's probes."""

    def parts(tensors: int) -> BucketParts:
        priced = [
            _parts_us(
                _program([size // dtype.bytes // tensors] * tensors, ranks, ranks_per_node, dtype), theta
            )
            for size in sizes
        ]
        return BucketParts(
            **{
                part: Curve(sizes=sizes, us_at=tuple(one[part] for one in priced))
                for part in ("before", "call", "after")
            }
        )

    call = _program([SMALLEST // dtype.bytes], ranks, ranks_per_node, dtype).collectives[0]
    reach = reach_of(call, ranks_per_node)
    sizes = _bends(call, ranks_per_node, 2 * dtype.bytes)
    if beside.at(call.kind, reach, SMALLEST) is None:
        raise ValueError(
            "no probe has an all_reduce beside computing on this deployment: give the probes more seconds"
        )

    def shares(size: int) -> Shares:
        found = beside.at(call.kind, reach, size)
        assert found is not None
        return found

    return BucketCosts(
        alone=parts(1),
        packed=parts(2),
        launch_us=_priced(_program([SMALLEST // dtype.bytes], ranks, ranks_per_node, dtype), theta)[1],
        shares=shares,
        low=theta.residual_low,
        high=theta.residual_high,
    )


def _bends(call: Node, ranks_per_node: int, multiple: int) -> tuple[int, ...]:
    """Return the bytes of a bucket at which a price may bend, and one size on either side of all."""
    through = (
        node_bytes(call, ranks_per_node) / payload_bytes(call) if crosses_nodes(call, ranks_per_node) else 0.0
    )
    beyond = [size / through for size in BEYOND_BYTES] if through else []
    bends = sorted({SMALLEST, *beyond, LARGE_BYTES, CACHED_BYTES, LARGEST})
    return tuple(dict.fromkeys(round(size / multiple) * multiple for size in bends))


def check(
    costs: BucketCosts,
    buckets: Sequence[Sequence[int]],
    theta: Theta,
    *,
    ranks: int,
    ranks_per_node: int,
    dtype: DType,
) -> None:
    """Raise ValueError if a bucket's cost is not its Program's price. buckets: bytes of each one's tensors."""
    for sizes in buckets:
        program = _program([size // dtype.bytes for size in sizes], ranks, ranks_per_node, dtype)
        us, _ = _priced(program, theta)
        drawn_us = costs.us(sum(sizes), len(sizes))
        if abs(drawn_us - us) > EQUAL * max(us, 1.0):
            raise ValueError(
                f"a bucket of {sum(sizes)} bytes in {len(sizes)} tensors has the price {us:g} us and not "
                f"{drawn_us:g}: the cost model bends elsewhere, so buckets cannot be chosen by it"
            )


def _program(sizes: Sequence[int], ranks: int, ranks_per_node: int, dtype: DType) -> Program:
    """Reduce and average some tensors (elements of each) in one buffer, as practitioners do by hand."""
    entry: dict[str, Any] = {"sizes": list(sizes)}
    case = catalog.case(PROBLEM, entry, ranks=ranks, ranks_per_node=ranks_per_node, dtype=dtype.value)
    one_buffer = read_library(catalog.library_source(PROBLEM)).listed.hand_bundled
    return replay(Recipe(base=one_buffer), catalog.build(case))


def _priced(program: Program, theta: Theta) -> tuple[float, float]:
    """Return (us without the launch of a call, us of the launch)."""
    priced = price(program, theta)
    if priced.us is None:
        raise ValueError(
            f"no price for an all_reduce on this deployment: its probes gave no theta for "
            f"{', '.join(priced.missing)}: give the probes more seconds"
        )
    launch = priced.terms.get(Term.LAUNCH, 0.0)
    return priced.us - launch, launch


def _parts_us(program: Program, theta: Theta) -> dict[str, float]:
    """Return the price by part of the bucket, without the launch."""
    us, launch = _priced(program, theta)
    found = dict.fromkeys(("before", "call", "after"), 0.0)
    part = "before"
    for step, counted in step_features(program):
        if step.action is Action.START:
            part = "call"
        elif part == "call":
            part = "after"
        found[part] += price_features(counted, theta).us or 0.0
    found["before"] -= launch  # it counts with the first step
    if abs(sum(found.values()) - us) > EQUAL * max(us, 1.0):
        raise ValueError("the prices of a bucket's steps are not that of its Program")
    return found
