"""Schedules: somebody's transfers of chunks between ranks, in one order, and the Program that they are."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from overlayccl_core.problems.captured import calls_of
from overlayccl_core.program.chunk_graph import Chunk, added, given, laid, moved
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.recorder import IO, Value
from overlayccl_core.program.tracing import trace_function
from overlayccl_core.schedules.actions import Cell, ChunkAction

ALL_TO_NEXT = "all_to_next"
KINDS = {
    "all_reduce": "all_reduce_sum",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter_sum",
    "all_to_all": "all_to_all",
}
"""Collective -> the kind of call of the Problem `captured`."""
IN_FILES = {name.replace("_", ""): name for name in KINDS}
"""Collective as files of MSCCL and MSCCL++ call it -> a key of KINDS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Transfers of chunks that together are one collective.

    Attributes:
        name: What its file calls it, and `in place` where its buffers are one.
        collective: A key of KINDS, or ALL_TO_NEXT.
        given, results: For each rank the cells where the chunks of its input lie at the beginning, and those of its
            output at the end, both in order.
        order: All actions, in one order that the waits allow.
    """

    name: str
    collective: str
    ranks: int
    given: tuple[tuple[Cell, ...], ...]
    results: tuple[tuple[Cell, ...], ...]
    order: tuple[ChunkAction, ...]

    @property
    def chunks(self) -> int:
        """The chunks that a rank gives."""
        return len(self.given[0])


def collective_of(word: str, asked: str | None) -> str:
    """Return the collective of a file: what was asked for, or what its own word means.

    Raises:
        Rejected: It means none of KINDS; the message has the mend.
    """
    said = asked or IN_FILES.get(word.lower().replace("_", ""))
    if said is None:
        raise Rejected(
            f"its collective is {word!r}, none of {', '.join(IN_FILES)}: say by --collective what it should be"
        )
    return said


def entry(schedule: Schedule, elements: int) -> tuple[str, dict[str, Any]]:
    """Return the Problem, and its entry with at least so many elements a rank, a multiple of the chunks."""
    whole = max(1, -(-elements // schedule.chunks)) * schedule.chunks
    if schedule.collective == ALL_TO_NEXT:
        return ALL_TO_NEXT, {"elements": whole}
    return "captured", {"calls": [{"kind": KINDS[schedule.collective], "elements": whole}]}


def program(schedule: Schedule, problem: Problem) -> Program:
    """Return the schedule as a Program: permutes, and sums.

    Raises:
        ValueError: The Problem is another collective, or of a size that its chunks do not divide; has the mend.
        Rejected: A chunk is read or handed over that nobody has written.
    """
    _check(schedule, problem)
    ((given_port, spec),) = problem.inputs.items()
    ((result_port, result),) = problem.outputs.items()
    size = spec.size // schedule.chunks

    def traced(io: IO, _p: Any) -> None:
        value = io.read(*given_port)  # type: ignore[arg-type]
        holds = {
            cell: given(rank, value.node, i * size)
            for rank, cells in enumerate(schedule.given)
            for i, cell in enumerate(cells)
        }
        for action in schedule.order:
            holds.update(list(_done(action, holds)))
        rows = [
            list(_results(schedule, rank, holds, is_meant=result.valid is None or bool(result.valid[rank])))
            for rank in range(schedule.ranks)
        ]
        node = laid(size, rows)
        io.write(*result_port, Value(node, result.shape))  # type: ignore[arg-type]

    return trace_function(traced, problem)


def _done(action: ChunkAction, holds: dict[Cell, Chunk]) -> Iterator[tuple[Cell, Chunk]]:
    """What an action writes."""
    for effect in action.effects:
        for cell in effect.terms:
            if cell not in holds:
                raise Rejected(f"{action} reads {_named(cell)}, which nobody has written")
        terms = [moved(holds[cell], action.rank) for cell in effect.terms]
        yield effect.into, moved(added(terms), effect.into[0])


def _results(
    schedule: Schedule, rank: int, holds: dict[Cell, Chunk], *, is_meant: bool
) -> Iterator[Chunk | None]:
    """Chunks of a rank's output; None where nobody writes and the Problem asks for nothing."""
    for i, cell in enumerate(schedule.results[rank]):
        if cell not in holds and is_meant:
            raise Rejected(f"chunk {i} of the result of rank {rank} ({_named(cell)}) is never written")
        yield holds.get(cell)


def _named(cell: Cell) -> str:
    rank, buffer, index = cell
    return f"chunk {index} of {buffer} of rank {rank}"


def _check(schedule: Schedule, problem: Problem) -> None:
    wanted = KINDS.get(schedule.collective, schedule.collective)
    kinds = [c["kind"] for c in calls_of(problem.case)] if problem.case.problem == "captured" else []
    if kinds != [wanted] and problem.case.problem != wanted:
        raise ValueError(
            f"{schedule.name} is one {schedule.collective}, and {problem.case.id} is not: leave --problem out, or "
            "give its Case by --case-json"
        )
    if problem.ranks != schedule.ranks:
        raise ValueError(
            f"{schedule.name} is of {schedule.ranks} ranks, {problem.case.id} of {problem.ranks}: choose a "
            f"deployment of {schedule.ranks}"
        )
    (spec,) = problem.inputs.values()
    if spec.size % schedule.chunks:
        raise ValueError(
            f"{schedule.name} moves {schedule.chunks} equal chunks a rank, which do not divide {spec.size} "
            f"elements: give a multiple of {schedule.chunks}"
        )
