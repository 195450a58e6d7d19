"""The cost of an all_reduce of one bucket: prices of real Programs as a function of its bytes.

A bucket's Program packs k tensors, reduces them and takes the mean. Each of its features is a count, proportional
to the bytes, or proportional to the bytes beyond the caches. So its price is a line with one bend, once for
buckets of one tensor (without packing) and once for more. Both are drawn through priced Programs; `check` compares
them with the price of any bucket's Program.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overlayccl_core import catalog
from overlayccl_core.costmodel.features import CACHED_BYTES, Term
from overlayccl_core.costmodel.price import price
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.program.kinds import DType
from overlayccl_core.program.library import read_library
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.recipe import Recipe, replay

PROBLEM = "grad_ar"
SMALL, MEDIUM, LARGE = 2**10, 2**18, 2**22  # elements: two before the bend and one behind it, in every dtype
EQUAL = 1e-9  # relative: rounding of sums
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The cost of a bucket by its bytes; each beyond CACHED_BYTES costs `uncached_us_per_byte` more."""

    fixed_us: float
    us_per_byte: float
    uncached_us_per_byte: float = 0.0

    def us(self, size: Floats | float) -> Floats:
        """Return the cost of a bucket, or of many."""
        uncached = np.maximum(np.asarray(size) - CACHED_BYTES, 0.0)
        us: Floats = self.fixed_us + size * self.us_per_byte + uncached * self.uncached_us_per_byte
        return us


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketCosts:
    """Costs of buckets on a deployment: alone (one tensor) and packed (more).

    Attributes:
        low, high: Factors of the 10% to 90% range.
    """

    alone: Line
    packed: Line
    launch_us: float  # the module's call, once for all buckets
    low: float
    high: float

    def __post_init__(self) -> None:
        for line in (self.alone, self.packed):
            if not (line.fixed_us >= 0 and line.us_per_byte >= 0 and line.uncached_us_per_byte >= 0):
                raise ValueError(f"a bucket costs at least nothing (got {line}): fit theta again")

    def us(self, size: int, tensors: int) -> float:
        """Return the cost of one bucket of `size` bytes."""
        return float((self.alone if tensors == 1 else self.packed).us(size))

    def ending_at(self, before: Floats, last: int) -> Floats:
        """Return [last]: costs of the buckets of tensors i..last-1 for every i; before[i]: bytes before i."""
        costs = self.packed.us(before[last] - before[:last])
        costs[-1] = self.us(int(before[last] - before[last - 1]), 1)
        return costs


def bucket_costs(theta: Theta, *, ranks: int, ranks_per_node: int, dtype: DType) -> BucketCosts:
    """Return the costs by theta. ValueError names coefficients missing from the deployment's probes."""

    def priced(elements: int, tensors: int) -> tuple[float, float]:
        return _priced(_program([elements // tensors] * tensors, ranks, ranks_per_node, dtype), theta)

    def line(tensors: int) -> Line:
        small, medium, large = (n * dtype.bytes for n in (SMALL, MEDIUM, LARGE))
        small_us, medium_us, large_us = (priced(n, tensors)[0] for n in (SMALL, MEDIUM, LARGE))
        slope = (medium_us - small_us) / (medium - small)
        straight = Line(fixed_us=max(small_us - small * slope, 0.0), us_per_byte=slope)
        bend = max(large_us - float(straight.us(large)), 0.0)
        return replace(straight, uncached_us_per_byte=bend / (large - CACHED_BYTES))

    _, launch_us = priced(SMALL, 1)
    return BucketCosts(
        alone=line(1), packed=line(2), launch_us=launch_us, low=theta.residual_low, high=theta.residual_high
    )


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
                f"{drawn_us:g}: the cost model is no longer a line with one bend, so buckets cannot be chosen by it"
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
