"""The best buckets for some gradients on a deployment, beside the common rules."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from overlayccl_core.costmodel.beside import Beside
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.program.kinds import DType, Kind
from overlayccl_core.search.buckets import plans
from overlayccl_core.search.buckets.costs import bucket_costs, check
from overlayccl_core.search.buckets.gradients import Gradient
from overlayccl_core.search.buckets.plans import Plan

DDP_DEFAULT = "DDP's default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Plans for the same gradients, in the order of readiness.

    Attributes:
        capped, bucket_cap_mb: The best equal cap.
        knobbed, knob: The best knob of the rule merge.
    """

    gradients: tuple[Gradient, ...]
    best: Plan
    ddp: Plan  # DistributedDataParallel's default
    capped: Plan
    knobbed: Plan
    one_buffer: Plan
    one_by_one: Plan
    bucket_cap_mb: str
    knob: str
    bucket_cap_mb_list: tuple[str, ...]  # makes torch's rule give the best buckets

    @property
    def others(self) -> tuple[Plan, ...]:
        """All but the best."""
        return self.ddp, self.capped, self.knobbed, self.one_buffer, self.one_by_one

    @property
    def advice(self) -> Plan:
        """The plainest plan among those equal to the best for the model: DDP's default, an equal cap, the best.

        Plans differ if their 10% to 90% ranges do not meet; smaller differences are no advice.
        """
        plainest = (plan for plan in (self.ddp, self.capped) if plan.low_us <= self.best.high_us)
        return next(plainest, self.best)

    @property
    def last_ready_us(self) -> float:
        """The ready time of the last gradient."""
        return self.gradients[-1].ready_us


def compared(gradients: Sequence[Gradient], theta: Theta, beside: Beside, **case: Any) -> Comparison:
    """Compare plans by a deployment's prices.

    Args:
        case: ranks, ranks_per_node and dtype, as in `bucket_costs`.

    Raises:
        ValueError: No gradients, gradients out of order, or prices of buckets off the line.
    """
    costs = bucket_costs(theta, beside, **case)
    count = len(gradients)
    cap, capped = plans.best_cap(gradients, costs)
    knob, knobbed = plans.best_knob(gradients, costs)
    others = {
        "ddp": (DDP_DEFAULT, plans.ddp(gradients, [plans.DDP_FIRST_BYTES, plans.DDP_CAP_BYTES])),
        "one_buffer": ("one buffer", (count,)),
        "one_by_one": ("one by one", tuple(range(1, count + 1))),
    }
    rules = {key: plans.planned(name, gradients, bounds, costs) for key, (name, bounds) in others.items()}
    best = plans.best(gradients, costs, (capped, knobbed, *rules.values()))
    sizes = {g.name: g.bytes for g in gradients}
    check(costs, [[sizes[name] for name in b.tensors] for b in best.buckets], theta, **case)
    return Comparison(
        gradients=tuple(gradients),
        best=best,
        capped=capped,
        knobbed=knobbed,
        **rules,
        bucket_cap_mb=cap,
        knob=knob,
        bucket_cap_mb_list=plans.cap_list(gradients, best),
    )


def largest_probed_bytes(probes: pl.DataFrame, ranks: int) -> int | None:
    """Return the largest measured all_reduce over all ranks; None if there is none. probes: the table."""
    sizes = []
    for text in probes.filter(pl.col("role").is_in(("structured", "shape")))["program_json"].unique():
        program = json.loads(text)  # as data: to build Programs of all probes would take seconds
        for node in program["nodes"]:
            if node["kind"] == Kind.ALL_REDUCE and len(program["groups"][node["groups"]][0]) == ranks:
                sizes.append(node["size"] * DType(node["dtype"]).bytes)
    return max(sizes, default=None)
