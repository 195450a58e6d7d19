"""Ports and segments of a Problem as lines for people and language models."""

from collections.abc import Mapping

from overlayccl_core.program.kinds import Placement
from overlayccl_core.program.nodes import Port
from overlayccl_core.program.problem import PortSpec, Segment, port_text

MOST_SEGMENTS = 8  # written out; the rest is counted


def ports_text(ports: Mapping[Port, PortSpec]) -> str:
    """partial[0..7, 0..7] of (1, 64, 128), for every family of ports; ports valid in part say so."""
    return ", ".join(families(ports))


def families(ports: Mapping[Port, PortSpec], *, full: bool = False) -> list[str]:
    """A text for each name of a port. full: with dtype, and the meaning of the ranks' values together."""
    by_name: dict[str, list[Port]] = {}
    for port in ports:
        by_name.setdefault(str(port[0]), []).append(port)
    return [_family(name, members, ports, full) for name, members in by_name.items()]


def segments_text(segments: tuple[Segment, ...]) -> list[str]:
    """A line for each of the first segments, with its needs and gives."""
    lines = [_segment(segment) for segment in segments[:MOST_SEGMENTS]]
    more = len(segments) - len(lines)
    return [*lines, f"... ({len(segments)} in all)"] if more else lines


def _family(name: str, members: list[Port], ports: Mapping[Port, PortSpec], full: bool) -> str:
    axes = [_range(min(axis), max(axis)) for axis in zip(*(m[1:] for m in members), strict=True)]
    specs = [ports[member] for member in members]
    shapes = {spec.shape for spec in specs}
    shape = str(min(shapes)) if len(shapes) == 1 else f"{len(shapes)} shapes"
    of = f" of {shape}" + (" (valid in part)" if any(s.valid is not None for s in specs) else "")
    first = specs[0]
    more = f", {first.dtype.value}, {_MEANS[first.placement]}" if full else ""
    return name + (f"[{', '.join(axes)}]" if axes else "") + of + more


_MEANS = {
    Placement.VARYING: "each rank has its own",
    Placement.PARTIAL: "the value is the sum over ranks",
    Placement.REPLICATE: "all ranks hold the same bits",
}


def _segment(segment: Segment) -> str:
    after = f", after {_list(segment.after)}" if segment.after else ""
    needs = _list(segment.needs) if segment.needs else "nothing"
    return f"{port_text(segment.name)}: needs {needs}{after}; gives {_list(segment.gives) or 'nothing'}"


def _list(ports: tuple[Port, ...]) -> str:
    texts = [port_text(port) for port in ports]
    return ", ".join(texts if len(texts) <= 4 else [*texts[:3], f"... {texts[-1]}"])


def _range(low: object, high: object) -> str:
    return f"{low}..{high}" if low != high else str(low)
