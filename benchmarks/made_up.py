"""What a search asks of a deployment, made up from published figures: nothing of it was measured.

Capabilities are a library that can do everything but what its topology documents; theta has the columns that the
structured probes tell apart, each with a value from the topology's calibration. Its fingerprint says so.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Any

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.topology import Topology
from overlayccl_core.costmodel.features import Feature, Increment, Term, features
from overlayccl_core.costmodel.theta import Coefficient, FitStatus, Theta
from overlayccl_core.probes.structured import structured_probes
from overlayccl_core.program.kinds import Kind
from overlayccl_core.timing.primitives import Primitive, primitives

RESIDUALS = (0.5, 2.0)  # how far off prices may be: nobody knows
EVERYTHING = "every call that no published limit names"
PER_GB_PER_S = 1e-3  # us a byte at 1 GB/s

Row = dict[str, Any]


def deployment(
    topology: Topology, nodes: int, ranks_per_node: int = 0, *, uniform: bool = False
) -> Deployment:
    """So many nodes with a rank on each core, or with fewer.

    Half of a core's memory is for Programs, the rest is the model's.
    No rank is started and no backend loaded, so which one it names does not matter.
    """
    on_a_node = ranks_per_node or topology.ranks_per_node
    return Deployment.from_data(
        {
            "backend": "torchdist",
            "library": "gloo",
            "ranks": nodes * on_a_node,
            "ranks_per_node": on_a_node,
            "uniform": uniform,
            "memory_budget": topology.memory.per_core_bytes // 2,
        },
        name=f"{topology.name}-made-up",
    )


def fingerprint(topology: Topology) -> str:
    """What every price made of it carries."""
    return f"made up from published figures of {topology.name}: nothing was measured"


# ---------------------------------------------------------------------------------------------- capabilities
def capabilities(topology: Topology, here: Deployment) -> list[Row]:
    """Rows of the table: every call that a selftest tries, and the payload from which on a limit refuses it."""
    return [
        {
            **replace(primitive.call, payload_bytes=payload).columns(),
            "supported": limit is None,
            "evidence": f"{fingerprint(topology)}; {limit.source if limit else EVERYTHING}",
            "fingerprint": fingerprint(topology),
        }
        for primitive in primitives(here, here.ranks)
        for payload in _payloads(topology, primitive)
        for limit in [primitive.over(topology.limits, payload)]
    ]


def _payloads(topology: Topology, primitive: Primitive) -> list[int]:
    """A byte, and one more than every limit of the operation allows."""
    limits = [one for one in topology.limits if one.operation is primitive.collectives[0].kind]
    return [1, *(one.most_payload_bytes + 1 for one in limits if one.most_payload_bytes is not None)]


# ------------------------------------------------------------------------------------------------------ theta
def theta(topology: Topology, here: Deployment) -> Theta:
    """A value for every column of the structured probes."""
    columns = sorted({c for probe in structured_probes(here) for c in features(probe.program)})
    return Theta(
        tuple(_coefficient(column, _value(column, topology)) for column in columns),
        *RESIDUALS,
        fingerprint(topology),
    )


def _coefficient(column: Feature, value: float) -> Coefficient:
    status = FitStatus.FITTED if value else FitStatus.ZERO
    return Coefficient(column=column, value=value, low=value, high=value, status=status, programs=0)


def _value(column: Feature, topology: Topology) -> float:
    name, of = column.name.split("."), topology.calibration
    if column.increment in (Increment.LARGE, Increment.FURTHER, Increment.HALF_DUPLEX):
        return 0.0  # nothing is published of them
    if column.term is Term.LAUNCH:
        return of.graph_boundary_us
    if column.term is Term.NETWORK:
        return PER_GB_PER_S / topology.tier("network").gb_per_s
    if column.increment is not Increment.NONE or name[-2] in ("alone", "together"):
        return _of_collective(column, name, topology)
    if column.term is Term.COPIES:
        return _of_local_work(name, topology)
    return 0.0  # nothing is published of waits, of calls after work and of narrow sums


def _of_collective(column: Feature, name: list[str], topology: Topology) -> float:
    """By the calls that come back to back: the first, the second, up to the eighth, all after it."""
    first, second, eighth, later = _steps(topology)
    if column.increment is Increment.SECOND:
        return second - eighth
    if column.increment is Increment.TO_EIGHTH:
        return eighth - later
    if name[-1] == "bytes":
        passes = 2 if name[0] == Kind.ALL_REDUCE.value else 1
        return passes * PER_GB_PER_S / topology.tier("node").gb_per_s
    tier = topology.tier("network" if name[1].startswith("network") else "node")
    return tier.latency_us + (first if name[-2] == "alone" else later)


def _steps(topology: Topology) -> tuple[float, float, float, float]:
    """us of the first of calls back to back, and of each more: the second, the third to eighth, any later."""
    curve = topology.calibration.back_to_back_us
    each = {k: (us - before) / (k - k_before) for (k_before, before), (k, us) in pairwise(curve)}
    return curve[0][1], each[2], each[8], each[curve[-1][0]]


def _of_local_work(name: list[str], topology: Topology) -> float:
    of = topology.calibration
    makes_a_value, strided = name[0] in ("copy", "strided", "gather"), name[0] in ("strided", "gather")
    match name[-1]:
        case "count":
            return of.operation_us if makes_a_value else of.fused_operation_us
        case "bytes" if name[0] != "uncached":
            return PER_GB_PER_S / (of.strided_gb_per_s if strided else of.sequential_gb_per_s)
        case _:
            return 0.0
