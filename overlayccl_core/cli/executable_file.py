"""FILE.hlo: the optimized text of an executable of XLA, and the Case that it should solve."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from overlayccl_core import catalog
from overlayccl_core.cli.context import Context
from overlayccl_core.cli.schedule_file import text_of
from overlayccl_core.configuration.cases import case_of
from overlayccl_core.configuration.sizes import MIB, bytes_text
from overlayccl_core.program.case import Case
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.schedules.hlo import program_of, read_hlo
from overlayccl_core.schedules.hlo_collectives import Collective, collectives
from overlayccl_core.schedules.hlo_text import leaves, parse
from overlayccl_core.schedules.hlo_values import FLOATS
from overlayccl_core.schedules.schedule import KINDS

SUFFIXES = (".hlo", ".txt")
LARGEST = 64 * MIB


def is_executable(text: str) -> bool:
    """Whether a STRATEGY is the file of an executable."""
    return Path(text).suffix.lower() in SUFFIXES


def read_executable(name: str) -> str:
    """Return the text of a file. ValueError: there is none, or it is too large."""
    return text_of(name, LARGEST, "give the optimized HLO text of an executable")


def program_at(name: str, text: str, problem: Problem) -> Program:
    """Return its Program. Rejected with the file's name, as `schedules.hlo.program_of`."""
    try:
        return program_of(text, problem)
    except Rejected as error:
        raise Rejected(f"{name}: {error}") from None


def case_for(
    text: str, where: Context, problem: str | None, fields: Mapping[str, Any] | None, collective: str | None
) -> Case:
    """Return the Case of these fields on the executable's devices; without, a call of `collective` a parameter."""
    module = parse(text)
    shapes = leaves(tuple(one.shape for one in module.entry.parameters))
    if problem is None or fields is None:
        if collective not in KINDS:
            raise ValueError(
                "say what it should give: by --collective, one for each parameter, or by --problem and --case-json"
            )
        sizes = [one.elements for one in shapes]
        problem, fields = "captured", {"calls": [{"kind": KINDS[collective], "elements": n} for n in sizes]}
    ranks = module.ranks or where.deployment.ranks
    dtypes = [FLOATS[one.dtype].value for one in shapes if one.dtype in FLOATS]
    if where.deployment.ranks == ranks:
        return case_of(problem, {"dtype": dtypes[0] if dtypes else "float32", **fields}, where.deployment)
    return catalog.case(problem, fields, ranks=ranks, ranks_per_node=ranks, dtype=(dtypes or ["float32"])[0])


def came_out(text: str, problem: Problem) -> Iterator[str]:
    """Yield lines about an executable: its collectives, equal ones counted; what computes if no result needs it."""
    found = collectives(text)
    for line, times in Counter(map(_one, found)).items():
        yield f"{times} {line}"
    if not found:
        yield "no collective came out of the compiler"
    elif most := max(one.in_flight for one in found):
        yield f"up to {most + 1} in flight together"
    with suppress(Rejected):  # that is told where it is proven
        yield from (f"no part of any result: {one}" for one in read_hlo(text, problem).besides)


def _one(x: Collective) -> str:
    groups = f"in {len(x.groups)} of {len(x.groups[0])} ranks" if x.groups else "over all ranks"
    if x.kind == "collective-permute":
        groups = f"by {len(x.groups)} pairs"
    several = f", {x.operands} tensors" if x.operands > 1 else ""
    return f"{x.kind} {groups}: {bytes_text(x.bytes)} {x.dtype}{several}"
