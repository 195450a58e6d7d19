"""Values on real ranks: does an emitted module give what its Program means?

The proof is about the Program; this looks at what the backend's module and the library make of it, with the
tolerances of the numerics gate.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.gates.draws import compared, with_invalid
from overlayccl_core.program.arithmetics import NUMPY_DTYPES, Real
from overlayccl_core.program.kinds import DType, Placement
from overlayccl_core.program.meaning import Held, evaluate
from overlayccl_core.program.nodes import Port
from overlayccl_core.program.numerics import NumericsClass, tolerance
from overlayccl_core.program.problem import PortSpec, Problem, port_text
from overlayccl_core.program.program import Program

Values = Mapping[Port, NDArray[Any]]
Meaning = Sequence[Mapping[Port, Held]]  # of every group of the Case


def inputs_of(problem: Problem, seed: int) -> dict[Port, NDArray[Any]]:
    """port -> [ranks of the deployment, elements] in the port's dtype: unit normals, alike where declared so.

    Ids are any that are allowed, half of them at the ends of the ranks' parts.

    Each of the Case's groups has values of its own. NaN where an input is not valid.
    """
    random = np.random.default_rng(seed)
    members = problem.case.members()
    inputs = {}
    for port, spec in problem.inputs.items():
        rows = 1 if spec.placement is Placement.REPLICATE else problem.ranks
        whole = np.empty((sum(map(len, members)), spec.size), NUMPY_DTYPES[spec.dtype])
        for group in members:
            drawn = _drawn(spec, (rows, spec.size), random, problem.ranks)
            drawn = with_invalid(drawn, spec.valid, np.nan)
            whole[list(group)] = drawn.astype(whole.dtype)
        inputs[port] = whole
    return inputs


def _drawn(spec: PortSpec, shape: tuple[int, int], random: np.random.Generator, ranks: int) -> NDArray[Any]:
    if spec.dtype is DType.INT64 and spec.within is not None:
        low, high = spec.within
        first = np.linspace(low, high + 1, ranks + 1).astype(np.int64)  # of every rank's part
        ends = random.choice(np.concatenate([first[:-1], first[1:] - 1]), shape)
        return np.where(random.random(shape) < 0.5, ends, random.integers(low, high, shape, endpoint=True))
    drawn = random.standard_normal(shape, np.float32)
    return drawn if spec.within is None else drawn.clip(*spec.within)


def meaning(program: Program, inputs: Values) -> Meaning:
    """What a Program means at inputs (port -> [ranks of the deployment, elements]), in its own dtypes.

    TooLarge where that does not fit.
    """
    problem = program.problem
    means = []
    for group in problem.case.members():
        here = _typed(problem, {port: x[list(group)] for port, x in inputs.items()})
        held, _ = evaluate(program.outputs, here, Real(), problem.ranks)
        means.append(held)
    return means


def wrong_values(
    program: Program, numerics: NumericsClass, inputs: Values, outputs: Values, equal: Meaning | None = None
) -> str:
    """What is wrong with the outputs of a module, in a clause; empty: nothing.

    inputs, outputs: port -> [ranks of the deployment, elements]. equal: what a Program that is proven equal means
    at these inputs. Values that are within the tolerance of it are right; only others are held against what the
    Program itself means. TooLarge where that does not fit.
    """
    allowed = tolerance(numerics, program)
    if equal is not None and not _off(program.problem, equal, outputs, allowed):
        return ""
    return _off(program.problem, meaning(program, inputs), outputs, allowed)


def _off(problem: Problem, means: Meaning, outputs: Values, allowed: float) -> str:
    """Where outputs are off by more than is allowed, in a clause."""
    for port in problem.outputs:
        got = _written(outputs, port, problem)
        if got is None:
            return f"wrong values: output {port_text(port)} is not written in its size on all ranks"
        for number, (group, held) in enumerate(zip(problem.case.members(), means, strict=True)):
            mine = got[list(group)]
            if wrong := _wrong_port(problem, port, held[port], mine, allowed) or _unlike(problem, port, mine):
                of = f" of group {number}" if problem.case.groups > 1 else ""
                return f"{wrong}{of}"
    return ""


def _written(outputs: Values, port: Port, problem: Problem) -> NDArray[Any] | None:
    """[ranks, elements] of an output; None where a module does not write it, or not in its size."""
    try:
        got = outputs[port]
    except (KeyError, ValueError):
        return None
    return got if got.shape[1:] == (problem.outputs[port].size,) else None


def _typed(problem: Problem, inputs: Values) -> dict[Port, NDArray[Any]]:
    """One row where all ranks hold the same, as `evaluate` wants it."""
    typed = {}
    for port, x in inputs.items():
        spec = problem.inputs[port]
        alike = spec.placement is Placement.REPLICATE and spec.valid is None
        rows = x[:1] if alike else x
        typed[port] = rows.astype(NUMPY_DTYPES[spec.dtype])
    return typed


def _wrong_port(problem: Problem, port: Port, want: Held, got: NDArray[Any], allowed: float) -> str:
    for rank, part in compared(problem.outputs[port].valid, np.arange(problem.ranks), ranks=problem.ranks):
        if _near(want.on(rank)[part], got[rank][part], allowed):
            continue
        right, mine = want.on(rank)[part].astype(np.float64), got[rank][part].astype(np.float64)
        with np.errstate(all="ignore"):  # what is not finite is found as an error that is none
            error = float(np.linalg.norm(mine - right) / (np.linalg.norm(right) or 1.0))
        if not error <= allowed:
            index = int(np.argmax(~(np.abs(mine - right) <= allowed * np.abs(right))))
            return (
                f"wrong values: output {port_text(port)} on rank {rank} is off by {error:.2g} of its size "
                f"(allowed: {allowed:.2g}), as element {index}: expected {right[index]:.6g}, got {mine[index]:.6g}"
            )
    return ""


def _unlike(problem: Problem, port: Port, got: NDArray[Any]) -> str:
    """Where ranks hold other bits of a replicated output than the one with most of it, in a clause."""
    spec = problem.outputs[port]
    if spec.placement is not Placement.REPLICATE:
        return ""
    counts = [spec.size] * problem.ranks if spec.valid is None else spec.valid
    first = int(np.argmax(counts))
    for rank, count in enumerate(counts):
        if len(unlike := np.flatnonzero(got[rank, :count] != got[first, :count])):
            index = unlike[0]
            theirs, mine = float(got[first, index]), float(got[rank, index])
            return (
                f"wrong values: output {port_text(port)} is replicated, but its bits differ between ranks {first} "
                f"and {rank}, as element {index}: {theirs!r} and {mine!r}"
            )
    return ""


def _near(right: NDArray[Any], mine: NDArray[Any], allowed: float) -> bool:
    """True for what is right beyond doubt, seen in float32: equal, or off by at most half of what is allowed."""
    if allowed == 0 or right.dtype == np.float64:
        return np.array_equal(right, mine)
    right, mine = right.astype(np.float32, copy=False), mine.astype(np.float32, copy=False)
    with np.errstate(all="ignore"):
        return bool(np.linalg.norm(mine - right) <= allowed / 2 * np.linalg.norm(right))
