"""Modules for torch_xla, their very text, do what their Programs mean: on real ranks, with the stand-in."""

from pathlib import Path
from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.backends.measured import Job
from overlayccl_core.backends.torchxla import backend
from overlayccl_core.backends.trials import Trial
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.gates.on_ranks import inputs_of, wrong_values
from overlayccl_core.gates.small_values import itself
from overlayccl_core.probes.mixed import mixed_probes
from overlayccl_core.probes.probe import ProbeRole
from overlayccl_core.program.numerics import NumericsClass, tolerance
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from tests import on_ranks
from tests.backends.torchxla.modules import PROBLEMS, all_known_ways, small_case
from tests.emit.test_on_ranks import BODIES, ENTRIES, WORDS
from tests.on_ranks import differences
from tests.small_problems import exchange, strategy

pytestmark = pytest.mark.ranks
STANDIN = {"backend": "torchxla", "library": "standin"}


def here(ranks: int) -> Deployment:
    return on_ranks.here(ranks).changed(uniform=True, **STANDIN)


@pytest.mark.parametrize("ranks", [4, 8])
def test_every_known_way_forward_and_backward(tmp_path: Path, ranks: int) -> None:
    programs = {
        f"{problem} {name}": program
        for problem in PROBLEMS
        for name, program in all_known_ways(small_case(problem, ranks), derived=ranks == 4).items()
        if program.problem.linear
    }
    if ranks == 4:
        mixed = mixed_probes(here(ranks), seed=11, count=25, role=ProbeRole.MIXED)
        programs |= {probe.name: probe.program for probe in mixed} | layouts() | other_entries(ranks=4)
    assert len(programs) > 60
    differing = differences(programs, tmp_path, **STANDIN)
    assert {name: what for name, what in differing.items() if what} == {}


def other_entries(*, ranks: int, **groups: Any) -> dict[str, Program]:
    """Known ways at entries of other shapes, on one tier."""
    return {
        f"{case.id} {name}": program
        for problem, entry in ENTRIES
        for case in [catalog.case(problem, entry, ranks=ranks, ranks_per_node=ranks, uniform=True, **groups)]
        for name, program in all_known_ways(case).items()
    }


def layouts() -> dict[str, Program]:
    """Layouts, permutes and groups of every sort."""
    programs = {}
    for name, body in BODIES.items():
        problem = exchange(4, {"x": (12,)}, {"y": (6,)}, linear="max" not in name, uniform=True)
        lines = "\n".join(line[8:] for line in body.strip("\n").split("\n"))
        programs[name] = trace_source(strategy(lines, WORDS), "tried", problem)
    return programs


@pytest.mark.parametrize("strided", [False, True])
def test_two_groups_of_two_at_once_are_joined_into_replica_groups_of_all(
    tmp_path: Path, strided: bool
) -> None:
    programs = other_entries(ranks=2, groups=2, strided=strided)
    members = next(iter(programs.values())).problem.case.members()
    differing = differences(programs, tmp_path, members=members, **STANDIN)
    assert {name: what for name, what in differing.items() if what} == {}


@pytest.mark.parametrize(("problem", "ranks"), [("dist_ce", 4), ("dist_ce", 8), ("attention", 4)])
def test_what_is_not_linear_forward_and_backward(tmp_path: Path, problem: str, ranks: int) -> None:
    programs = list(all_known_ways(small_case(problem, ranks)).values())
    inputs = {p.problem.direction: inputs_of(p.problem, 3) for p in programs}
    trials = [
        Trial(job=Job(key=str(i), program=p, source=backend.emit(p)), inputs=inputs[p.problem.direction])
        for i, p in enumerate(programs)
    ]
    assert len(trials) >= 6
    for program, trial, seen in zip(
        programs, trials, backend.run_once(here(ranks), tmp_path, trials), strict=True
    ):
        assert not seen.error and not seen.overwritten
        allowed = tolerance(NumericsClass.REORDERED, program)
        assert not wrong_values(itself(program), allowed, trial.inputs, seen.outputs)
