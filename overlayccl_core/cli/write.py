"""`overlayccl write`: write a strategy as a schedule (MSCCL XML), or a schedule as a way.

With -o FILE.xml it proves a strategy of permutes at the Problem captured with one call (or at the call named by
--collective and --payload), writes it as MSCCL XML, proves the file, and prints what it moves. With -o FILE.py it
proves a schedule and writes it as a file of ways. Starts no ranks.
"""

import argparse
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from overlayccl_core.cli import schedule_file, strategy
from overlayccl_core.cli.context import Context, context
from overlayccl_core.cli.one_strategy import Proof, judge
from overlayccl_core.cli.prove import proof_text, proven
from overlayccl_core.cli.render import print_line
from overlayccl_core.cli.strategy import Strategy
from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.program.kinds import DType, Kind, NotApplicable, Rejected
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.recipe import replay
from overlayccl_core.schedules import msccl
from overlayccl_core.schedules.counts import ScheduleCounts, counts
from overlayccl_core.schedules.msccl_writing import PROTOCOLS, write
from overlayccl_core.schedules.program_chunks import is_of_permutes
from overlayccl_core.schedules.schedule import ALL_TO_NEXT, KINDS
from overlayccl_core.schedules.schedule import program as program_of
from overlayccl_core.schedules.way_writing import FILES, way_at, way_source
from overlayccl_core.stages.known_ways import known_ways_of
from overlayccl_core.tables.atomic import write_text

PAST_CHUNKS = 3  # a way pads: it is proven at no whole number of chunks


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
    strategy.add_arguments(parser, "the first")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="the file to write: .xml, or .py"
    )
    parser.add_argument(
        "--protocol",
        choices=PROTOCOLS,
        default=PROTOCOLS[0],
        help=f"of the library that takes the schedule (default: {PROTOCOLS[0]})",
    )


def run(arguments: argparse.Namespace) -> int:
    """Return 0 if it is proven and written; else 1, and there is no file."""
    if arguments.output.suffix not in (".xml", ".py"):
        raise ValueError(f"{arguments.output}: a schedule is written as .xml, a way as .py")
    where = context(arguments)
    _name_call(arguments, where)
    mine, (problem, *_) = strategy.asked(where, arguments)
    proofs = [proven(where, use, problem) for use in (mine, *mine.also)]
    if proofs[0] is None or not all(proof is not None and proof.passed for proof in proofs):
        return 1
    if arguments.output.suffix == ".py":
        return _write_way(arguments)
    return _write_schedule(arguments, where, mine, proofs[0].program)


def _name_call(arguments: argparse.Namespace, where: Context) -> None:
    """Without a Problem, a strategy that is no schedule is of one captured call: --collective, --payload."""
    if arguments.collective == ALL_TO_NEXT and arguments.output.suffix == ".xml":
        raise ValueError("MSCCL XML has no all_to_next: choose --collective among " + ", ".join(KINDS))
    named = arguments.problem is not None or arguments.collective not in KINDS
    if named or schedule_file.is_schedule(arguments.strategy):
        return
    ranks = where.deployment.ranks
    least = (arguments.payload or schedule_file.PAYLOAD) // DType.FLOAT32.bytes
    call = {"kind": KINDS[arguments.collective], "elements": max(1, -(-least // ranks)) * ranks}
    arguments.problem, arguments.case_json = "captured", json.dumps({"calls": [call]})


# -------------------------------------------------------------------------------------------- a schedule
def _write_schedule(arguments: argparse.Namespace, where: Context, mine: Strategy, program: Program) -> int:
    """Write it, if what is written is proven, too."""
    if not is_of_permutes(program):
        raise Rejected(_other_calls(program))
    text = write(program, mine.name, arguments.protocol)
    for use, proof in _proofs_of(text, program.problem, where):
        if not proof.passed:
            print_line(f"{arguments.output}: not written: {use}: {proof_text(proof)}")
            return 1
    write_text(arguments.output, text)
    print_line(f"{arguments.output}:")
    for label, value in _facts(counts(text), program.problem):
        print_line(f" {label:13} {value}")
    return 0


def _proofs_of(text: str, problem: Problem, where: Context) -> Iterator[tuple[str, Proof]]:
    """Yield the proof of each use that a written file is for."""
    for use in msccl.read(text):
        yield use.name, judge(program_of(use, problem), None, where.deployment.memory_budget_bytes)


def _facts(found: ScheduleCounts, problem: Problem) -> Iterator[tuple[str, str]]:
    """Yield (name, value) for a file."""
    larger = max(spec.size for spec in (*problem.inputs.values(), *problem.outputs.values()))
    chunk = larger // found.chunks * problem.case.dtype.bytes

    def moving(chunks: int) -> str:
        return f"{chunks} chunk{'' if chunks == 1 else 's'}, {bytes_text(chunks * chunk)}"

    yield "collective", f"{found.collective} of {found.ranks} ranks, in chunks of {bytes_text(chunk)}"
    yield "for use", "in place and out of place" if len(found.in_place) > 1 else "out of place"
    yield "moved", moving(found.moved)
    yield "links", f"{len(found.links)}; the busiest carries {moving(max(found.links.values()))}"
    yield "thread blocks", f"{found.blocks} on {found.channels} channel{'' if found.channels == 1 else 's'}"
    yield "steps", ", ".join(f"{count} {operation}" for operation, count in sorted(found.steps.items()))


def _other_calls(program: Program) -> str:
    """Name a call that cannot be written, and the ways that can."""
    other = next(x.kind for x in program.collectives if x.kind is not Kind.COLLECTIVE_PERMUTE)
    return (
        f"a schedule has sends and receives only, and this calls {other.value}: take a way made of permutes "
        f"({', '.join(_ways_of_permutes(program.problem)) or 'no known way is'})"
    )


def _ways_of_permutes(problem: Problem) -> Iterator[str]:
    for way in known_ways_of(problem):
        try:
            program = replay(way.recipe, problem)
        except (NotApplicable, Rejected):
            continue
        if program.collectives and is_of_permutes(program):
            yield way.name


# ------------------------------------------------------------------------------------------------- a way
def _write_way(arguments: argparse.Namespace) -> int:
    """Write a schedule as a file of ways, beside no other."""
    name, output = arguments.strategy, arguments.output
    if not schedule_file.is_schedule(name):
        raise ValueError(f"{name} is no schedule, but a strategy already: give -o FILE.xml")
    first, *_ = schedule_file.read_schedules(name, arguments.collective)
    digest = hashlib.sha256(Path(name).read_bytes()).hexdigest()[:12]
    source = way_source(first, f"{Path(name).name} ({digest})")
    proof = judge(way_at(first, source, PAST_CHUNKS * first.chunks + 1), None, None)
    if not proof.passed:
        raise Rejected(f"{output}: what would be written is not proven: {proof_text(proof)}")
    if output.exists():
        raise ValueError(f"{output} is there already: write another file, and put its function into this one")
    write_text(output, source)
    print_line(f"{output}: a way for plugins/strategies/ways/{FILES[first.collective]}")
    return 0
