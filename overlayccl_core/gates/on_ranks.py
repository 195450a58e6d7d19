"""Values on real ranks: compare the outputs of an emitted module with its Program's meaning.

The proof covers the Program; this check covers the backend's module and the library, with the tolerances of
`program/numerics.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.gates.draws import Counts, compared, with_invalid
from overlayccl_core.gates.small_values import Small
from overlayccl_core.program.arithmetics import NUMPY_DTYPES
from overlayccl_core.program.kinds import DType, Placement
from overlayccl_core.program.meaning import RankData, evaluate
from overlayccl_core.program.nodes import Port
from overlayccl_core.program.problem import PortSpec, Problem, port_text

# Allowed error of one element (over its size or their rms), in units of the whole output's.
OF_AN_ELEMENT = 10

Values = Mapping[Port, NDArray[Any]]
Bits = Mapping[Port, Sequence[int] | NDArray[Any]]
Meaning = Sequence[Mapping[Port, RankData]]  # of every group of the Case


def inputs_of(problem: Problem, seed: int) -> dict[Port, NDArray[Any]]:
    """Draw inputs: port -> [ranks of the deployment, elements] in the port's dtype.

    Each of the Case's groups has its own values: unit normals, equal on all ranks if replicated, and NaN behind the
    valid elements. Ids are any allowed ones, half of them at the ends of the ranks' parts. In ports of named things
    (`Nonlinear.named`), odd-numbered things without an id are padding, -inf.
    """
    sizes = {port: spec.size for port, spec in problem.inputs.items()}
    valid = {port: spec.valid for port, spec in problem.inputs.items() if spec.valid is not None}
    inputs = _inputs(problem, sizes, valid, seed)
    brought = problem.nonlinear
    for port in brought.named if brought else ():
        if brought and port in inputs:
            ids = np.concatenate([x for x in inputs.values() if x.dtype.kind == "i"], 1)
            _pad(inputs[port].reshape(len(ids), brought.parts[port], -1), ids, problem)
    return inputs


def _pad(x: NDArray[Any], ids: NDArray[Any], problem: Problem) -> None:
    """Set things without an id in their group to -inf. x: [ranks, parts, things of a rank]."""
    for group in problem.case.members():
        things = np.arange(x.shape[2] * len(group)).reshape(len(group), -1)
        padding = ~np.isin(things, ids[list(group)]) & (things % 2 == 1)
        for rank, of_rank in zip(group, padding, strict=True):
            x[rank][:, of_rank] = -np.inf


def small_inputs(small: Small, seed: int) -> dict[Port, NDArray[Any]]:
    """Draw inputs as `inputs_of` does, for a small form; lanes without room are 0."""
    inputs = _inputs(small.problem, small.inputs, small.valid_inputs, seed)
    for port, tiles in small.input_tiles.items():
        inputs[port][:, tiles.without_room()] = 0
    return inputs


def _inputs(
    problem: Problem, sizes: Mapping[Port, int], valid: Mapping[Port, Counts], seed: int
) -> dict[Port, NDArray[Any]]:
    random = np.random.default_rng(seed)
    members = problem.case.members()
    inputs = {}
    for port, spec in problem.inputs.items():
        rows = 1 if spec.placement is Placement.REPLICATE else problem.ranks
        whole = np.empty((sum(map(len, members)), sizes[port]), NUMPY_DTYPES[spec.dtype])
        for group in members:
            drawn = _drawn(spec, (rows, sizes[port]), random, problem.ranks)
            drawn = with_invalid(drawn, valid.get(port), np.nan)
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


def meaning(small: Small, inputs: Values) -> Meaning:
    """Evaluate a small form at inputs (port -> [ranks of the deployment, elements]), for each group of the Case.

    Raises:
        TooLarge: The values do not fit.
    """
    problem = small.problem
    means = []
    for group in problem.case.members():
        here = {port: _one_if_alike(small, port, x[list(group)]) for port, x in inputs.items()}
        held, _ = evaluate(small.outputs, here, small.arithmetic, problem.ranks)
        means.append(held)
    return means


def wrong_values(
    small: Small,
    allowed: float,
    inputs: Values,
    outputs: Values,
    *,
    bits: Bits | None = None,
    equal: Meaning | None = None,
) -> str:
    """Describe the first wrong output of a module, in a clause; empty: all are right.

    Args:
        small: The Program itself, or its small form.
        allowed: Error (`program.numerics.tolerance`).
        inputs: port -> [ranks of the deployment, elements].
        outputs: Likewise; of a small form one copy, as sent by the ranks.
        bits: port -> a digest of all copies, of each rank of the deployment.
        equal: Meaning of a Program proven equal, at these inputs. Values within the tolerance of it are right; only
            others are compared with the Program's own meaning.

    Raises:
        TooLarge: The Program's own meaning does not fit.
    """
    bits = bits or {}
    if equal is not None and not _off(small, equal, outputs, bits, allowed):
        return ""
    return _off(small, meaning(small, inputs), outputs, bits, allowed)


def _off(small: Small, means: Meaning, outputs: Values, bits: Bits, allowed: float) -> str:
    """Describe the first output beyond the allowed error, in a clause."""
    problem = small.problem
    for port in problem.outputs:
        got = _written(small, outputs, port)
        if got is None:
            return f"wrong values: output {port_text(port)} is not written in its size on all ranks"
        for number, (group, held) in enumerate(zip(problem.case.members(), means, strict=True)):
            mine = got[list(group)]
            wrong = _wrong_port(small, port, held[port], mine, allowed)
            if not wrong and problem.outputs[port].placement is Placement.REPLICATE:
                wrong = _unlike(small, port, mine)
                if not wrong and port in bits and port not in small.valid_outputs:
                    wrong = _unlike_bits(port, [bits[port][rank] for rank in group])
            if wrong:
                of = f" of group {number}" if problem.case.groups > 1 else ""
                return f"{wrong}{of}"
    return ""


def _written(small: Small, outputs: Values, port: Port) -> NDArray[Any] | None:
    """Return [ranks, elements] of an output; None if the module did not write it in its size."""
    try:
        return small.heard(port, outputs[port])
    except (KeyError, ValueError):
        return None


def _one_if_alike(small: Small, port: Port, x: NDArray[Any]) -> NDArray[Any]:
    """Return [ranks, elements] of an input for `evaluate`: one row if all ranks hold the same."""
    spec = small.problem.inputs[port]
    alike = spec.placement is Placement.REPLICATE and spec.valid is None
    typed = (x[:1] if alike else x).astype(NUMPY_DTYPES[spec.dtype])
    return typed.astype(small.arithmetic.dtype(spec.dtype))


def _wrong_port(small: Small, port: Port, want: RankData, got: NDArray[Any], allowed: float) -> str:
    ranks = small.problem.ranks
    for rank, part in compared(small.valid_outputs.get(port), np.arange(ranks), ranks=ranks):
        if _near(want.on(rank)[part], got[rank][part], allowed):
            continue
        right, mine = want.on(rank)[part].astype(np.float64), got[rank][part].astype(np.float64)
        with np.errstate(all="ignore"):  # non-finite values fail the comparison below
            error = float(np.linalg.norm(mine - right) / (np.linalg.norm(right) or 1.0))
            worst = np.abs(mine - right) / np.maximum(np.abs(right), _rms(right) or 1.0)
        if not (error <= allowed and worst.max() <= OF_AN_ELEMENT * allowed):
            bound = allowed if error > allowed else OF_AN_ELEMENT * allowed
            index = int(np.argmax(~(worst <= bound)))
            return (
                f"wrong values: output {port_text(port)} on rank {rank} is off by {error:.2g} of its size "
                f"(allowed: {allowed:.2g}, of an element {OF_AN_ELEMENT * allowed:.2g}), as element "
                f"{small.element(port, index)}: expected {right[index]:.6g}, got {mine[index]:.6g}"
            )
    return ""


def _unlike(small: Small, port: Port, got: NDArray[Any]) -> str:
    """Describe a replicated output's bit difference from the rank with most valid elements, in a clause."""
    counts = small.valid_outputs.get(port, [got.shape[1]] * small.problem.ranks)
    first = int(np.argmax(counts))
    for rank, count in enumerate(counts):
        if len(unlike := np.flatnonzero(_bits(got[rank, :count]) != _bits(got[first, :count]))):
            index = unlike[0]
            theirs, mine = float(got[first, index]), float(got[rank, index])
            return (
                f"wrong values: output {port_text(port)} is replicated, but its bits differ between ranks {first} "
                f"and {rank}, as element {small.element(port, index)}: {theirs!r} and {mine!r}"
            )
    return ""


def _bits(x: NDArray[Any]) -> NDArray[Any]:
    """Return the elements as integers: -0 differs from +0, and NaN equals itself."""
    return np.ascontiguousarray(x).view(f"i{x.dtype.itemsize}")


def _unlike_bits(port: Port, bits: Sequence[int]) -> str:
    rank = next((rank for rank, mine in enumerate(bits) if mine != bits[0]), None)
    if rank is None:
        return ""
    return f"wrong values: output {port_text(port)} is replicated, but its bits differ between ranks 0 and {rank}"


def _near(right: NDArray[Any], mine: NDArray[Any], allowed: float) -> bool:
    """Tell whether values are surely right, seen in float32: equal, or off by at most half the allowed error."""
    if allowed == 0:
        return np.array_equal(right, mine)
    right, mine = right.astype(np.float32, copy=False), mine.astype(np.float32, copy=False)
    with np.errstate(all="ignore"):
        off = mine - right
        alike = np.linalg.norm(off) <= allowed / 2 * np.linalg.norm(right)
        return bool(alike and np.abs(off).max(initial=0) <= OF_AN_ELEMENT / 2 * allowed * _rms(right))


def _rms(x: NDArray[Any]) -> float:
    return float(np.linalg.norm(x) / np.sqrt(x.size or 1))
