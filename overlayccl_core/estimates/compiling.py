"""Compile times of Programs' graphs, from published figures of the kind of node.

The figures are `calibration` in config/topologies/<node>.yaml: nothing was measured here. Each is for graphs with a
largest payload of up to so many bytes; above the last one they say only "tens of seconds".
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import Field

from overlayccl_core.configuration.fields import Fields, parsed
from overlayccl_core.configuration.sizes import Bytes
from overlayccl_core.estimates.span import Span, total
from overlayccl_core.program.payload import payload_bytes
from overlayccl_core.program.program import Boundary, Issue, Program

FOLDER = Path("config/topologies")
TENS_OF_SECONDS = Span(20.0, 90.0)  # our reading of the words


class Published(Fields):
    """Published compile times."""

    compile_s: tuple[tuple[Bytes, Annotated[float, Field(gt=0)]], ...] = Field(
        min_length=1, description="pairs: largest payload of a graph, seconds"
    )
    source: str = Field(min_length=1, description="where the figures are published")

    def seconds(self, payload: int) -> Span:
        """Return the time of one graph, by the bytes of its largest collective."""
        for up_to, seconds in self.compile_s:
            if payload <= up_to:
                return Span(seconds, seconds)
        return TENS_OF_SECONDS


def published(node: str, root: Path) -> Published | None:
    """Return the figures of a kind of node; None if there are none. ValueError: file, field and mend."""
    file = root / FOLDER / f"{node}.yaml"
    if not node or not file.is_file():
        return None
    try:
        calibration = parsed(file)["calibration"]
        return Published.from_data({name: calibration[name] for name in Published.model_fields})
    except (KeyError, TypeError):
        raise ValueError(
            f"{file}: calibration must have compile_s and source: give pairs of a payload and seconds, and where "
            "they are published"
        ) from None
    except ValueError as error:
        raise ValueError(f"{file}: calibration: {error}") from None


def graphs_of(program: Program) -> list[int]:
    """Return the largest payload in bytes of each graph with collectives."""
    graphs: list[list[int]] = [[]]
    for event in program.events:
        if isinstance(event, Boundary):
            graphs.append([])
        elif isinstance(event, Issue):
            graphs[-1].append(sum(map(payload_bytes, event.call)))
    return [max(payloads) for payloads in graphs if payloads]


def of_known(programs: Iterable[Program], figures: Published) -> Span:
    """Return the seconds of known Programs, one graph after another; without a collective, one small graph."""
    return total(figures.seconds(payload) for program in programs for payload in graphs_of(program) or [0])


def of_unknown(programs: Span, developer: Program, figures: Published) -> Span:
    """Return the seconds of so many Programs of a Case not found yet, estimated from the developer's.

    At least: one graph each, with the developer's smallest payload. At most: the developer's graphs, or one graph
    with all of its payloads in one, whichever takes longer.
    """
    graphs = graphs_of(developer)
    bundled = sum(payload_bytes(node) for node in developer.collectives)
    least = figures.seconds(min(graphs)).least
    most = max(of_known([developer], figures).most, figures.seconds(bundled).most)
    return Span(programs.least * least, programs.most * max(least, most))
