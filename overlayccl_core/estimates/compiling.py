"""Compile times of Programs' graphs, from published figures of the kind of node: nothing was measured here."""

from collections.abc import Iterable

from overlayccl_core.configuration.topology import ClusterTimes
from overlayccl_core.estimates.span import Span, total
from overlayccl_core.program.payload import payload_bytes
from overlayccl_core.program.program import Boundary, Issue, Program

TENS_OF_SECONDS = Span(20.0, 90.0)  # our reading of the words for payloads above the last figure


def seconds(figures: ClusterTimes, payload: int) -> Span:
    """Return the time of one graph, by the bytes of its largest collective."""
    known = (Span(took, took) for up_to, took in figures.compile_s if payload <= up_to)
    return next(known, TENS_OF_SECONDS)


def graphs_of(program: Program) -> list[int]:
    """Return the largest payload in bytes of each graph with collectives."""
    graphs: list[list[int]] = [[]]
    for event in program.events:
        if isinstance(event, Boundary):
            graphs.append([])
        elif isinstance(event, Issue):
            graphs[-1].append(sum(map(payload_bytes, event.call)))
    return [max(payloads) for payloads in graphs if payloads]


def of_known(programs: Iterable[Program], figures: ClusterTimes) -> Span:
    """Return the seconds of known Programs, one graph after another; without a collective, one small graph."""
    return total(seconds(figures, payload) for program in programs for payload in graphs_of(program) or [0])


def of_unknown(programs: Span, developer: Program, figures: ClusterTimes) -> Span:
    """Return the seconds of so many Programs of a Case not found yet, estimated from the developer's.

    At least: one graph each, with the developer's smallest payload. At most: the developer's graphs, or one graph
    with all of its payloads in one, whichever takes longer.
    """
    graphs = graphs_of(developer)
    bundled = sum(payload_bytes(node) for node in developer.collectives)
    least = seconds(figures, min(graphs)).least
    most = max(of_known([developer], figures).most, seconds(figures, bundled).most)
    return Span(programs.least * least, programs.most * max(least, most))
