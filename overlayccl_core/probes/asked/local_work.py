"""Orders of local work, without any exchange: copies, arithmetic."""

from typing import Literal

from pydantic import Field

from overlayccl_core.probes.asked.order import COUNT, MOST, QUARTERS, Order, ProbeTarget, finished, sized
from overlayccl_core.probes.probe import Probe
from overlayccl_core.probes.structured import (
    HEAD_DIM,
    HEADS,
    Layout,
    attended,
    repeated,
    shuffled,
    transposed,
)
from overlayccl_core.program import maps, nodes
from overlayccl_core.program.kinds import DType
from overlayccl_core.program.maps import Map
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.rowwise import RowAttr

MOST_MULTIPLIED = 2**30  # by one operation of attention: a second, on a slow core
MOST_ROWS = 2**18  # most rows of a copy in pieces, as in the sweep


class Copies(Order):
    """Copies of one layout and size."""

    tool = "time_copies"
    what = (
        "Copies on each rank, no exchange. transpose: a square of rows of `width` elements, transposed; shuffle: "
        "such rows in an order without a pattern; repeat: the value `times` over; join: two values end to end."
    )

    layout: Literal["transpose", "shuffle", "repeat", "join"] = Field(description="what the copy does")
    payload_bytes: int = Field(
        ge=4, description="bytes of the value that is copied (of each, where two are joined)"
    )
    width: int = Field(default=1, ge=1, le=2**16, description="of transpose and shuffle: elements of a row")
    times: int = Field(default=2, ge=2, le=MOST, description="of repeat: how often")
    count: int = COUNT

    def probes(self, place: ProbeTarget) -> list[Probe]:
        grown = {"repeat": self.times, "join": 2}.get(self.layout, 1)
        place.check_payload(self.payload_bytes * grown)
        size, probe = self.payload_bytes // DType.FLOAT32.bytes, place.new()
        if self.layout in ("transpose", "shuffle"):
            rows = size // self.width
            if not QUARTERS <= rows <= MOST_ROWS:
                raise ValueError(
                    f"width: {self.payload_bytes} bytes must be {QUARTERS} to {MOST_ROWS} rows of it (got {rows}): "
                    "take another width or payload_bytes"
                )
        operands = [
            [probe.read(size) for _ in range(2 if self.layout == "join" else 1)] for _ in range(self.count)
        ]
        for some in operands:
            probe.write(nodes.make_view(some, self._map(size)))
        of = {"repeat": f"{self.times}-times", "join": "two"}.get(self.layout, f"rows-of-{self.width}")
        return [finished(probe, self.layout, of, sized(self.count, self.payload_bytes))]

    def _map(self, size: int) -> Map:
        layouts: dict[str, Layout] = {
            "transpose": transposed(self.width),
            "shuffle": shuffled(self.width),
            "repeat": repeated(self.times),
            "join": lambda size: maps.identity(2 * size),
        }
        return layouts[self.layout](size)


class Operations(Order):
    """Sums, scales, casts and exponentials."""

    tool = "time_arithmetic"
    what = (
        "Arithmetic on each rank, no exchange. sum: the `parts` equal parts of a value are added up; scale: a "
        "value times an integer; cast: from float32 to bfloat16; exp: of each element; attend: attention of a "
        f"value to itself, in {HEADS} heads of {HEAD_DIM} elements."
    )

    operation: Literal["sum", "scale", "cast", "exp", "attend"] = Field(description="what is computed")
    payload_bytes: int = Field(ge=4, description="bytes of the value that it is computed of")
    parts: int = Field(default=2, ge=2, le=MOST, description="of sum: how many")
    count: int = COUNT

    def probes(self, place: ProbeTarget) -> list[Probe]:
        place.check_payload(self.payload_bytes)
        size, probe = self.payload_bytes // DType.FLOAT32.bytes, place.new()
        if self.operation == "sum":
            size = max(1, size // self.parts) * self.parts
        if self.operation == "attend":
            size = max(1, size // (HEADS * HEAD_DIM)) * HEADS * HEAD_DIM
            multiplied = 2 * size * size // HEADS
            if multiplied > MOST_MULTIPLIED:
                raise ValueError(
                    f"payload_bytes: attention multiplies {multiplied} times (limit {MOST_MULTIPLIED}): take less"
                )
        for x in [probe.read(size) for _ in range(self.count)]:
            probe.write(self._of(x))
        of = f"of-{self.parts}" if self.operation == "sum" else ""
        return [finished(probe, self.operation, of, sized(self.count, self.payload_bytes))]

    def _of(self, x: Node) -> Node:
        if self.operation == "cast":
            return nodes.make_cast(x, DType.BFLOAT16)
        if self.operation == "exp":
            return nodes.make_rowwise(RowAttr(name="exp"), [x])
        if self.operation == "attend":
            return attended([x])
        return nodes.make_sum(x, self.parts) if self.operation == "sum" else nodes.make_scale(x, 3)
