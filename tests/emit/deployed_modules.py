"""Entries and files of deployed modules for tests, from known ways or from the body of a strategy."""

from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from overlayccl_core import catalog
from overlayccl_core.backends.torchdist.deployed import deployed
from overlayccl_core.emit.deployed_case import DeployedCase, Stamp
from overlayccl_core.program.case import Case
from overlayccl_core.program.library import read_library
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


def entry(
    case: Case,
    name: str = "",
    *,
    forward: Program | None = None,
    backward: str = "",
    numerics: str = "reordered",
) -> DeployedCase:
    """A known way (or a Program) deployed, its backward the transpose of it, or of the known way `backward`."""
    developer = read_library(catalog.library_source(case.problem)).developers[0]
    forward, plain = forward or library_way(case, name), library_way(case, developer)
    problem = catalog.backward(case)
    back = problem and simplify(transpose(library_way(case, backward) if backward else forward, problem))
    return DeployedCase(
        case_id=case.id,
        candidate=name or "found-01234567",
        recipe=f'{{"base":"{name}","steps":[]}}',
        numerics=numerics,
        forward=forward,
        plain_forward=plain,
        has_backward=problem is not None,
        backward=back,
        plain_backward=problem and simplify(transpose(plain, problem)),
        backward_candidate=backward or name if problem else "",
        backward_recipe="{}" if problem else "",
        backward_numerics=numerics if problem else "",
    )


def write(folder: Path, name: str, entries: Sequence[DeployedCase], stamp: Stamp = HERE) -> Path:
    """The file of a module."""
    path = folder / f"{name}.py"
    path.write_text(deployed(entries[0].forward.problem.case.problem, entries, stamp))
    return path
