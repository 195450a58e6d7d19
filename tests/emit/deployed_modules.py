"""Entries and files of deployed modules for tests, from known ways or from the body of a strategy."""

from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from overlayccl_core import catalog
from overlayccl_core.backends.torchdist.deployed import deployed
from overlayccl_core.emit.deployed_case import CHOSEN, PLAIN, DeployedCase, Proven, Stamp, Way
from overlayccl_core.program.case import Case
from overlayccl_core.program.library import read_library
from overlayccl_core.program.problem import Direction
from overlayccl_core.program.program import Program
from overlayccl_core.program.simplify import simplify
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.program.transpose import transpose
from tests.small_problems import strategy

HERE = Stamp(library="gloo", versions={"torch": metadata.version("torch")})
WORDS = (
    "all_gather, all_reduce, collective_permute, concat, flatten, reduce_sum, reshape, scale, split, zeros"
)


def library_way(case: Case, name: str) -> Program:
    """A known way of a Case's library."""
    return trace_source(catalog.library_source(case.problem), name, catalog.build(case))


def tried(case: Case, body: str) -> Program:
    """A strategy with this body at a Case."""
    return trace_source(strategy(body, WORDS), "tried", catalog.build(case))


def way(
    name: str,
    forward: Program,
    backward: Program | None = None,
    *,
    recipe: str = "{}",
    numerics: str = "reordered",
    backward_name: str = "",
) -> Way:
    """A way of a Case; its backward has the same name if no other is given."""
    there = {Direction.FORWARD: Proven(candidate=name, recipe=recipe, numerics=numerics, program=forward)}
    if backward is None:
        return there
    of_backward = Proven(candidate=backward_name or name, recipe="{}", numerics=numerics, program=backward)
    return {**there, Direction.BACKWARD: of_backward}


def case_of_ways(chosen: Way, plain: Way, **others: Way) -> DeployedCase:
    """A Case with these ways; whether it has a backward is seen by the chosen one."""
    return DeployedCase(
        case_id=chosen[Direction.FORWARD].program.problem.case.id,
        has_backward=Direction.BACKWARD in chosen,
        ways={CHOSEN: chosen, PLAIN: plain, **others},
    )


def entry(
    case: Case,
    name: str = "",
    *,
    forward: Program | None = None,
    backward: str = "",
    numerics: str = "reordered",
    **others: Way,
) -> DeployedCase:
    """A known way (or a Program) deployed, its backward the transpose of it, or of the known way `backward`."""
    developer = read_library(catalog.library_source(case.problem)).developers[0]
    forward, plain = forward or library_way(case, name), library_way(case, developer)
    problem = catalog.backward(case)
    back = problem and simplify(transpose(library_way(case, backward) if backward else forward, problem))
    recipe = f'{{"base":"{name}","steps":[]}}'
    chosen = way(
        name or "found-01234567", forward, back, recipe=recipe, numerics=numerics, backward_name=backward
    )
    return case_of_ways(
        chosen, way(developer, plain, problem and simplify(transpose(plain, problem))), **others
    )


def write(folder: Path, name: str, entries: Sequence[DeployedCase], stamp: Stamp = HERE) -> Path:
    """The file of a module."""
    path = folder / f"{name}.py"
    path.write_text(deployed(entries[0].problems[Direction.FORWARD].case.problem, entries, stamp))
    return path
