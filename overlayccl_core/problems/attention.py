"""attention: causal attention over a sequence whose positions are spread over the ranks (context parallelism).

Every rank has the queries, keys and values of its piece of the sequence, in rank order. Each query attends to the
keys of all positions up to its own, on all ranks. The forward also saves `lse`, the logarithm of the sum of
exp(score) of each query. Three ways are known:

- the keys and values are gathered (Grattafiori et al. 2024, The Llama 3 herd of models, section 3.3.2);
- they go round a ring, and each rank attends to what it has (Liu et al. 2023, Ring attention);
- heads are exchanged for positions (Jacobs et al. 2023, DeepSpeed Ulysses).

It is not linear. Its operations are those of program/attention.py alone: `attend`, `combine`, `attend_backward`.
The backward is a Problem of its own: it reads what the forward was given, made and saved, and d_out.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from overlayccl_core.problems import ring_kv
from overlayccl_core.problems.trial_data.heads import IN, LSE, OUT, backward_draws, draws
from overlayccl_core.program.attention import OPERATIONS
from overlayccl_core.program.case import Case, ParameterValue, count, divisible, fewer_ranks, one_way_factor
from overlayccl_core.program.heads import attend, attend_backward
from overlayccl_core.program.kinds import DType
from overlayccl_core.program.language import all_gather, cast, reduce_scatter
from overlayccl_core.program.problem import Direction, Nonlinear, PortSpec, Problem, Segment, of_every_problem
from overlayccl_core.program.recorder import IO

POSITIONS = 1  # axis
D_OUT = ("d_out",)
GRADIENTS = (("d_q",), ("d_k",), ("d_v",))


class Entry(ring_kv.Entry):
    """As of ring_kv: there are as many heads of queries; of several texts, those of all."""


parameters, name = ring_kv.parameters, ring_kv.name


def _part(case: Case) -> tuple[int, int, int]:
    return case["heads"], case["sequence"] // case.ranks, case["head_dim"]


def problem(case: Case) -> Problem:
    """Ports ("q",), ("k",), ("v",) -> ("out",), of (heads, positions / N, head_dim); saved: lse, of less."""
    each = PortSpec(shape=_part(case), dtype=case.dtype)
    return Problem(
        case=case,
        inputs=dict.fromkeys(IN, each),
        outputs={OUT: each, LSE: replace(_lse(case), saved=True)},
        segments=(
            Segment(name=("projection",), gives=IN),
            Segment(name=("output",), needs=(OUT, LSE)),
        ),
        parameters=_parameters(case),
        linear=False,
        nonlinear=Nonlinear(
            draws=partial(draws, case),
            parts=dict.fromkeys((*IN, OUT, LSE), case["heads"]),
            operations=frozenset(OPERATIONS),
            backward=_backward(case),
            backward_reference=backward_reference,
        ),
    )


def _backward(case: Case) -> Problem:
    """Ports: inputs and outputs of the forward, ("d_out",) -> ("d_q",), ("d_k",), ("d_v",)."""
    each = PortSpec(shape=_part(case), dtype=case.dtype)
    inputs = {D_OUT: each, LSE: _lse(case), OUT: each, **dict.fromkeys(IN, each)}
    return Problem(
        case=case,
        direction=Direction.BACKWARD,
        inputs=inputs,
        outputs=dict.fromkeys(GRADIENTS, each),
        segments=(
            Segment(name=("d_output",), gives=tuple(inputs)),
            Segment(name=("d_projection",), needs=GRADIENTS),
        ),
        parameters=_parameters(case),
        linear=False,
        nonlinear=Nonlinear(
            draws=partial(backward_draws, case),
            parts=dict.fromkeys((*inputs, *GRADIENTS), case["heads"]),
            operations=frozenset(OPERATIONS),
        ),
    )


def _lse(case: Case) -> PortSpec:
    """In 32 bits at least: an error of it is one of all weights."""
    dtype = DType.FLOAT32 if case.dtype.bytes == 2 else case.dtype
    return PortSpec(shape=_part(case)[:2], dtype=dtype)


def _parameters(case: Case) -> dict[str, ParameterValue]:
    heads, positions, head_dim = _part(case)
    return {
        **of_every_problem(case),
        "heads": heads,
        "sequence": case["sequence"],
        "head_dim": head_dim,
        "shard_shape": (heads, positions, head_dim),
        "first_position": tuple(rank * positions for rank in range(case.ranks)),
    }


def reference(io: IO, p: Any) -> None:
    """Keys, then values, gathered along the sequence; each rank attends to them."""
    q = io.read("q")
    k, v = (all_gather(io.read(name), POSITIONS) for name in ("k", "v"))
    out, lse = attend(q, k, v, p.first_position, 0)
    io.write("out", cast(out, p.dtype))
    io.write("lse", lse)


def backward_reference(io: IO, p: Any) -> None:
    """Each rank's part of the gradients of all keys and values, summed and handed out."""
    q, out, lse, d_out = (io.read(name) for name in ("q", "out", "lse", "d_out"))
    k, v = (all_gather(io.read(name), POSITIONS) for name in ("k", "v"))
    found = attend_backward(q, k, v, out, lse, d_out, p.first_position, 0)
    d_q, d_k, d_v = (cast(x, p.dtype) for x in found)
    io.write("d_q", d_q)
    io.write("d_k", reduce_scatter(d_k, POSITIONS))
    io.write("d_v", reduce_scatter(d_v, POSITIONS))


def has_backward(case: Case) -> bool:
    """Gradients of keys and values come from all ranks."""
    return True


def equals_backward(case: Case) -> Case | None:
    """None: its library is BACKWARD in strategies/attention.py."""
    return None


def payload_bytes(case: Case) -> int:
    """Bytes of all keys and values, as of ring_kv."""
    return int(2 * count(_part(case)) * case.ranks * case.dtype.bytes)


bus_factor = one_way_factor


def proxy(large: Case) -> dict[str, Any]:
    """As many heads as ranks, or fewer, of as many positions up to what divides over fewer ranks."""
    ranks = fewer_ranks(large)["ranks"]
    sequence = divisible(large["sequence"], ranks)
    return {"heads": min(large["heads"], ranks), "sequence": sequence, "head_dim": large["head_dim"]}


def examples(ranks: int) -> dict[str, dict[str, Any]]:
    """By name: entries at which all its strategies are proven, at so many ranks."""
    small = {"heads": ranks, "sequence": 3 * ranks, "head_dim": 5}
    train = {"heads": 32, "sequence": divisible(512, ranks), "head_dim": 128}  # heads of Llama 7B
    return {"small": small, "train": train}
