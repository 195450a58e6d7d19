"""Run Programs on real ranks and compare with their meaning in NumPy, bit for bit."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.backends.measured import Job
from overlayccl_core.backends.torchdist.backend import starter
from overlayccl_core.backends.trials import Trial
from overlayccl_core.configuration.deployment import Deployment, Tier
from overlayccl_core.launching.launch import Launch, run
from overlayccl_core.program.arithmetics import NUMPY_DTYPES, Real
from overlayccl_core.program.kinds import Placement
from overlayccl_core.program.meaning import evaluate
from overlayccl_core.program.nodes import Port
from overlayccl_core.program.program import Program

Arrays = dict[Port, NDArray[np.float64]]


def here(ranks: int) -> Deployment:
    """Ranks of gloo on this host."""
    return Deployment(
        name="here", backend="torchdist", library="gloo", ranks=ranks, ranks_per_node=ranks,
        tiers=(Tier(name="node", ranks=ranks),), memory_budget_bytes=2**30,
    )  # fmt: skip


def launch(plan: Launch) -> float:
    """Run a worker module of a test on ranks of gloo, here."""
    return run(plan, starter(here(plan.ranks), ""))


def integer_inputs(program: Program, seed: int) -> Arrays:
    """port -> float64[N, elements] of small integers, exact in every dtype; alike where declared so."""
    random = np.random.default_rng(seed)
    ranks = program.problem.ranks
    found = {}
    for port, spec in program.problem.inputs.items():
        rows = 1 if spec.placement is Placement.REPLICATE else ranks
        found[port] = np.repeat(random.integers(-15, 16, (rows, spec.size)), ranks // rows, 0).astype(
            np.float64
        )
    return found


def meaning(program: Program, inputs: Mapping[Port, NDArray[np.float64]]) -> Arrays:
    """port -> float64[N, elements]: what NumPy says in the Program's own dtypes."""
    typed = {
        port: inputs[port].astype(NUMPY_DTYPES[spec.dtype]) for port, spec in program.problem.inputs.items()
    }
    held, _ = evaluate(program.outputs, typed, Real(), program.problem.ranks)
    return {port: value.on_all().astype(np.float64) for port, value in held.items()}


def differences(
    programs: Mapping[str, Program],
    folder: Path,
    *,
    members: Sequence[Sequence[int]] | None = None,
    backend: str = "torchdist",
    library: str = "gloo",
) -> dict[str, str]:
    """name -> what differs on real ranks (nothing: "").

    members: global ranks of the concurrent groups, as the Programs' Cases have them; every group gets inputs
    of its own.
    """
    one = next(iter(programs.values()))
    members = members or [tuple(range(one.problem.ranks))]
    world = sum(len(m) for m in members)
    deployment = here(world).changed(backend=backend, library=library, uniform=one.problem.case.uniform)
    there = backend_of(deployment)
    trials, wanted = [], []
    for name, program in programs.items():
        each = [integer_inputs(program, seed) for seed in range(len(members))]
        wanted.append([meaning(program, inputs) for inputs in each])
        job = Job(key=name, program=program, source=there.emit(program))
        trials.append(Trial(job=job, inputs=_spread(each, members, world)))
    observed = there.run_once(deployment, folder, trials, may_refuse=True)
    return {
        name: seen.error or seen.overwritten or _difference(seen.outputs, _spread(want, members, world))
        for name, seen, want in zip(programs, observed, wanted, strict=True)
    }


def _spread(each: Sequence[Arrays], members: Sequence[Sequence[int]], world: int) -> Arrays:
    """Rows of every group put at the global ranks of its members."""
    found = {}
    for port in each[0]:
        rows = np.empty((world, each[0][port].shape[1]))
        for arrays, ranks in zip(each, members, strict=True):
            rows[list(ranks)] = arrays[port]
        found[port] = rows
    return found


def _difference(got: Mapping[Port, NDArray[np.float64]], want: Arrays) -> str:
    for port, value in want.items():
        if port not in got or not np.array_equal(got[port], value):
            return f"{port} differs"
    return "" if set(got) == set(want) else f"wrote {sorted(set(got) - set(want))} as well"
