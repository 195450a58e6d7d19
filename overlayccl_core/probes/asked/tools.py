"""Orders of timings by a language model. A tool has the fields of an order; an order makes probes.

The functions of the sweep build these probes, too.
"""

from collections.abc import Mapping
from math import prod
from typing import Any, Literal

from pydantic import Field

from overlayccl_core.asking.conversation import Tool
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.fields import Fields, schema
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.gates import legality
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.probes.asked.exchanges import Coalesced, Collectives, PointToPoint
from overlayccl_core.probes.asked.local_work import Copies, Operations
from overlayccl_core.probes.asked.order import MOST, Order, ProbeTarget, finished, sized
from overlayccl_core.probes.mixed import mixed_probes
from overlayccl_core.probes.probe import Probe, ProbeRole
from overlayccl_core.program import nodes
from overlayccl_core.program.kinds import DType, Kind

MOST_MIXED = 16  # in one order


class Graphs(Order):
    """Graphs, one after another, with boundaries between them."""

    tool = "time_graphs"
    what = (
        "Graphs one after another, a boundary between each two: what starting, ending, compiling and loading them "
        "takes. The answer also has the first call, and the time in a compiler where the library has one."
    )

    graphs: int = Field(ge=1, le=MOST, description="how many")
    inside: Literal["nothing", "scale", "all_reduce"] = Field(default="nothing", description="what each does")
    payload_bytes: int = Field(default=1024, ge=4, description="bytes that each does it with")
    alike: bool = Field(default=True, description="false: each has another size, so no two are one graph")

    def probes(self, place: ProbeTarget) -> list[Probe]:
        place.check_payload(self.payload_bytes)
        probe = place.new()
        size = self.payload_bytes // DType.FLOAT32.bytes
        step = 0 if self.alike else probe.ranks
        inputs = [probe.read(size)] if self.inside == "nothing" else []
        inputs = inputs or [probe.read(size + number * step) for number in range(self.graphs)]
        for number in range(self.graphs):
            if number:
                probe.boundary()
            if self.inside == "scale":
                probe.write(nodes.make_scale(inputs[number], 3))
            elif self.inside == "all_reduce":
                probe.write(probe.issue(Kind.ALL_REDUCE, inputs[number]))
        if self.inside == "nothing":
            probe.write(inputs[0])
        of = "" if self.inside == "nothing" else "alike" if self.alike else "unlike"
        return [finished(probe, "graphs", self.inside, of, sized(self.graphs, self.payload_bytes))]


class Mixed(Order):
    """Random Programs."""

    tool = "time_mixed"
    what = (
        "Random Programs of 1 to 8 collectives of any kind and size, some in flight together, with local work "
        "between them. Each is a function of its number alone."
    )

    count: int = Field(ge=1, le=MOST_MIXED, description="how many Programs")
    first: int = Field(default=0, ge=0, le=1000, description="number of the first")

    def probes(self, place: ProbeTarget) -> list[Probe]:
        return mixed_probes(
            place.deployment, seed=place.mixed_seed, count=self.count, role=ProbeRole.MIXED, first=self.first
        )


def refusal(probe: Probe, capabilities: Capabilities, deployment: Deployment) -> str:
    """Return why a probe cannot be timed here, and the mend: limits of the library, and of a rank's memory."""
    most, problem = deployment.memory_budget_bytes, probe.program.problem
    ports = (*problem.inputs.values(), *problem.outputs.values())
    if (held := sum(prod(port.shape) * port.dtype.bytes for port in ports)) > most:
        return f"it reads and writes {held} bytes on a rank, and at most {most} may be: take less at once"
    verdict = legality.check(probe.program, capabilities, most)
    return "" if verdict.outcome is Outcome.PASS else verdict.message


ORDERS: tuple[type[Order], ...] = (Collectives, Coalesced, PointToPoint, Copies, Operations, Graphs, Mixed)


def order_of(name: str, given: Mapping[str, Any]) -> Order | None:
    """Return the order of a tool's call; None for another tool. ValueError: field, rule, value and mend."""
    kind = next((order for order in ORDERS if order.tool == name), None)
    return None if kind is None else kind.from_data(given)


def tools(place: ProbeTarget) -> list[Tool]:
    """Return a tool for each order, with the bounds of this deployment."""
    return [Tool(name=order.tool, description=order.what, schema=bounded(order, place)) for order in ORDERS]


def bounded(fields: type[Fields], place: ProbeTarget) -> dict[str, Any]:
    """Return the JSON schema of some fields, bounded by the deployment's groups, payload and ranks."""
    whole = schema(fields, given=())
    bounds = {
        "groups": {"enum": list(place.groups)},
        "payload_bytes": {"maximum": place.deployment.largest_payload_bytes},
        "shift": {"maximum": place.deployment.ranks - 1},
    }
    for name, field in whole["properties"].items():
        field |= bounds.get(name, {})
    return {key: whole[key] for key in ("type", "properties", "required", "additionalProperties")}
