"""`overlayccl trace`: show the Program that a strategy becomes.

Trace a strategy at a Case and print its Program: what it reads, computes, sends and writes, in order, with the
collectives, bytes, depth and memory that it needs. Starts no ranks.
"""

import argparse
from collections import Counter
from collections.abc import Iterator

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.cli import strategy
from overlayccl_core.cli.context import Context, context
from overlayccl_core.cli.render import print_line
from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.gates import legality
from overlayccl_core.program.calls import call_name
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.payload import group_size, payload_bytes, wire_bytes
from overlayccl_core.program.program import Program
from overlayccl_core.program.text_form import text


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
    strategy.add_arguments(parser, "the first")
    parser.add_argument(
        "--code", action="store_true", help="print the backend's module that runs it, nothing else"
    )


def run(arguments: argparse.Namespace) -> int:
    """Return 0. Rejected, NotApplicable, ValueError: there is no such Program."""
    where = context(arguments)
    mine, (problem, *_) = strategy.asked(where, arguments)
    program = mine.at(problem)
    if arguments.code:
        print(backend_of(where.deployment).emit(program), end="")
        return 0
    print_line(f"{mine.name} at {problem.case.id}, {problem.direction.value}")
    for label, value in _facts(program, where):
        print_line(f" {label:13} {value}")
    print_line("")
    print_line(text(program).rstrip())
    return 0


def _facts(program: Program, where: Context) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of a Program's needs."""
    kinds = Counter(
        (call_name(call), group_size(call[0]), sum(map(payload_bytes, call))) for call in program.calls
    )
    parts = [
        f"{n} {name} of {bytes_text(size)}" + ("" if name == Kind.COLLECTIVE_PERMUTE else f" over {ranks}")
        for (name, ranks, size), n in kinds.items()
    ]
    yield "collectives", f"{len(program.calls)}" + (f": {', '.join(parts)}" if parts else "")
    depth = max(x.depth for x in program.outputs.values())
    yield "depth", f"{depth} (collectives that must follow one another)"
    yield "sent", f"{bytes_text(round(sum(map(wire_bytes, program.collectives))))} by the busiest rank"
    verdict = legality.check(program, where.capabilities(), where.deployment.memory_budget_bytes)
    peak = dict(verdict.evidence).get("peak_bytes")
    if isinstance(peak, int):
        yield "peak memory", f"{bytes_text(peak)} a rank"
    yield "legal", "yes" if verdict.passed else f"no ({verdict.reason.value}): {verdict.message}"
