"""dist_ce: the cross-entropy of T tokens over a vocabulary whose logits are split over the ranks.

Every rank has the logits (T, V/N) of the same tokens for its part of the vocabulary, in rank order, and all target
ids. Everyone needs the loss of each token, log(sum(exp(logits))) - logit of the target, and the mean of the losses
(Megatron-LM, Shoeybi et al. 2019, section 3: the output embedding).

It is not linear. What the backward needs is saved: `shift`, a number for each token by which its logits were
shifted before exp (their maximum, or a number near it), and `log_sum`, the logarithm of the sum of
exp(logits - shift). Only their sum means something. It is saved in two parts because float32 does not hold the sum
well where logits are large.

The backward is a Problem of its own, without a collective: (softmax - one at the target) times the cotangent.
The loss is replicated, and so is its cotangent: every rank has the same, there is no 1/N.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from overlayccl_core.configuration.fields import Count, Fields
from overlayccl_core.program.arithmetics import NUMPY_DTYPES
from overlayccl_core.program.case import Case, ParameterValue, fewer_ranks
from overlayccl_core.program.kinds import DType, Placement
from overlayccl_core.program.language import (
    add,
    all_reduce,
    exp,
    log,
    mul,
    one_hot,
    pick,
    reduce_max,
    reduce_sum,
    reshape,
    scale,
    sub,
)
from overlayccl_core.program.nodes import Port
from overlayccl_core.program.problem import Direction, Draw, Nonlinear, PortSpec, Problem, Segment
from overlayccl_core.program.recorder import IO

LOGITS: Port = ("logits",)
TARGETS: Port = ("targets",)
SHIFT: Port = ("shift",)
LOG_SUM: Port = ("log_sum",)
Floats = NDArray[np.float32]

OFF = 30  # how far from the maximum a forward may save a shift, and a backward takes one


class Entry(Fields):
    """The ranks must divide the vocabulary."""

    tokens: Count = Field(description="tokens whose loss is computed at once (batch * sequence)")
    vocabulary: Count = Field(description="words over all ranks; a multiple of the ranks")
    range: Count | None = Field(
        default=None,
        description="no logit is larger than this in size, but for padding of -inf: the model sees to it"
        " (default: any)",
    )


def parameters(entry: Entry, ranks: int, dtype: DType) -> dict[str, ParameterValue]:
    """The entry's own fields; range 0: any."""
    if entry.vocabulary % ranks:
        padded = -(-entry.vocabulary // ranks) * ranks
        raise ValueError(
            f"the ranks must divide the vocabulary (got {ranks} and {entry.vocabulary}): pad it to {padded} words,"
            " with logits of -inf for those that mean nothing"
        )
    return {"tokens": entry.tokens, "vocabulary": entry.vocabulary, "range": entry.range or 0}


def name(case: Case) -> str:
    """t256-v32256, or t256-v32256-within60: tokens, words, the range of the logits."""
    within = f"-within{case['range']}" if case["range"] else ""
    return f"t{case['tokens']}-v{case['vocabulary']}{within}"


def problem(case: Case) -> Problem:
    """Ports ("logits",) (T, V/N), ("targets",) (T) -> ("losses",) (T), ("mean",) (1); saved: shift, log_sum (T)."""
    each = _replicated(case, case["tokens"])
    saved = PortSpec(
        shape=each.shape, dtype=case.dtype, placement=each.placement, cotangent=each.cotangent, saved=True
    )
    return Problem(
        case=case,
        inputs=_given(case),
        outputs={("losses",): each, ("mean",): _replicated(case, 1), SHIFT: saved, LOG_SUM: saved},
        segments=(
            Segment(name=("head",), gives=(LOGITS, TARGETS)),
            Segment(name=("loss",), needs=(("losses",), ("mean",), SHIFT, LOG_SUM)),
        ),
        parameters=_parameters(case),
        linear=False,
        nonlinear=Nonlinear(
            draws=partial(_draws, case),
            backward=_backward(case),
            backward_reference=backward_reference,
            wrong_saved=partial(_wrong_shift, case),
        ),
    )


def _backward(case: Case) -> Problem:
    """What the forward was given and saved, ("d_losses",) and ("d_mean",) -> ("d_logits",)."""
    each, one = _replicated(case, case["tokens"]), _replicated(case, 1)
    cotangents: dict[Port, PortSpec] = {("d_mean",): one, ("d_losses",): each}
    inputs = {**cotangents, LOG_SUM: each, SHIFT: each, **_given(case)}
    return Problem(
        case=case,
        direction=Direction.BACKWARD,
        inputs=inputs,
        outputs={("d_logits",): _given(case)[LOGITS]},
        segments=(
            Segment(name=("d_loss",), gives=tuple(inputs)),
            Segment(name=("d_head",), needs=(("d_logits",),)),
        ),
        parameters=_parameters(case),
        linear=False,
        nonlinear=Nonlinear(draws=partial(_backward_draws, case)),
    )


def _replicated(case: Case, size: int) -> PortSpec:
    return PortSpec(
        shape=(size,), dtype=case.dtype, placement=Placement.REPLICATE, cotangent=Placement.REPLICATE
    )


def _given(case: Case) -> dict[Port, PortSpec]:
    tokens, words, limit = case["tokens"], case["vocabulary"], case["range"]
    within = (-limit, limit) if limit else None
    return {
        LOGITS: PortSpec(shape=(tokens, words // case.ranks), dtype=case.dtype, within=within),
        TARGETS: PortSpec(
            shape=(tokens,), dtype=DType.INT64, placement=Placement.REPLICATE, within=(0, words - 1)
        ),
    }


def _parameters(case: Case) -> dict[str, ParameterValue]:
    shard = case["vocabulary"] // case.ranks
    return {
        "world_size": case.ranks,
        "ranks_per_node": case.ranks_per_node,
        "tokens": case["tokens"],
        "vocabulary": case["vocabulary"],
        "shard": shard,
        "first_word": tuple(rank * shard for rank in range(case.ranks)),
        "range": case["range"],
        "dtype": case.dtype.value,
    }


def reference(io: IO, p: Any) -> None:
    """The maximum, the sum and the target's logit, each by an all_reduce."""
    logits, column = io.read("logits"), (p.tokens, 1)
    largest = all_reduce(reduce_max(logits, 1), "max")
    shifted = sub(logits, reshape(largest, column))
    log_sum = log(all_reduce(reduce_sum(exp(shifted), 1)))
    target = all_reduce(pick(shifted, io.read("targets"), p.first_word))
    losses = sub(log_sum, target)
    io.write("losses", losses)
    io.write("mean", scale(reduce_sum(losses, 0), 1, p.tokens))
    io.write("shift", largest)
    io.write("log_sum", log_sum)


def backward_reference(io: IO, p: Any) -> None:
    """(softmax - one at the target) * cotangent, of which the mean gives every token a share."""
    column = (p.tokens, 1)
    shifted = sub(io.read("logits"), reshape(io.read("shift"), column))
    softmax = exp(sub(shifted, reshape(io.read("log_sum"), column)))
    off = sub(softmax, one_hot(io.read("targets"), p.first_word, p.shard, p.dtype))
    share = scale(reshape(io.read("d_mean"), (1, 1)), 1, p.tokens)
    cotangent = add(reshape(io.read("d_losses"), (1, p.tokens)), share)
    io.write("d_logits", mul(off, reshape(cotangent, column)))


# ------------------------------------------------------------------------------------- what it is tried on
Place = tuple[int, int]  # rank, word of its part
EDGES = ("first", "last", "any")  # word of a rank's part, where what is met by index is met or missed


def _on(rank: int, x: Floats, other: Any) -> Floats:
    """x [ranks, words], but `other` on one rank."""
    return np.where(np.arange(len(x))[:, None] == rank, other, x).astype(np.float32)


def _one(x: Floats, place: Place) -> Floats:
    made = np.zeros_like(x)
    made[place] = 100
    return made


# In words -> logits [ranks, V/N] of one token, from unit normals; where its target is; a place on another rank.
KINDS: dict[str, Callable[[Floats, Place, Place], Floats]] = {
    "logits of size 1": lambda x, target, other: x,
    "logits of size 10": lambda x, target, other: 10 * x,
    "logits of size 30": lambda x, target, other: 30 * x,
    "the logits of one rank 800 below": lambda x, target, other: _on(other[0], x, x - 800),
    "logits of -inf on one rank": lambda x, target, other: _on(other[0], x, -np.inf),
    "the largest logit on several ranks": lambda x, target, other: np.round(x).clip(-1, 1),
    "one logit far above the others, of the target": lambda x, target, other: _one(x, target),
    "one logit far above the others, not of the target": lambda x, target, other: _one(x, other),
}
AROUND = (0, 1000, 1000, -1000, -1000)  # so that hardly a token is spared what overflows
ROUNDS = 2  # of all kinds at all edges, at least, in several draws where a Case has fewer tokens


def _draws(case: Case, random: np.random.Generator, hostile: bool) -> Iterator[Draw]:
    """Every kind of logits at every edge, each around some number; which token has which is drawn."""
    kinds = list(product(KINDS, EDGES)) if hostile else [(next(iter(KINDS)), "any")]
    for done in range(0, ROUNDS * len(kinds), case["tokens"]):
        order = random.permutation(np.arange(done, done + case["tokens"]) % len(kinds))
        around = random.choice(AROUND, case["tokens"]) if hostile else np.zeros(case["tokens"], int)
        yield _draw(case, random, [kinds[k] for k in order], around)


def _draw(
    case: Case, random: np.random.Generator, kinds: Sequence[tuple[str, str]], around: NDArray[np.int64]
) -> Draw:
    tokens, ranks, words = len(kinds), case.ranks, case["vocabulary"] // case.ranks
    logits = random.standard_normal((ranks, tokens, words), np.float32)
    home = (random.permutation(tokens) + random.integers(ranks)) % ranks  # targets in every rank's part
    other = (home + random.integers(1, ranks, tokens)) % ranks
    word = random.integers(0, words, tokens)
    for t, (kind, edge) in enumerate(kinds):
        word[t] = {"first": 0, "last": words - 1}.get(edge, word[t])
        logits[:, t] = KINDS[kind](logits[:, t], (home[t], word[t]), (other[t], word[t])) + around[t]
    if limit := case["range"]:
        logits = np.where(np.isneginf(logits), logits, logits.clip(-limit, limit))  # padding stays what it is

    def label(port: Port, element: int) -> str:
        if port == ("mean",):
            return "of all tokens"
        t = element // words if port == ("d_logits",) else element
        return f"of a token with {kinds[t][0]}" + (f", around {around[t]}" if around[t] else "")

    typed = logits.reshape(ranks, -1).astype(NUMPY_DTYPES[case.dtype])
    return Draw(inputs={LOGITS: typed, TARGETS: (home * words + word)[None]}, label=label)


def _backward_draws(case: Case, random: np.random.Generator, hostile: bool) -> Iterator[Draw]:
    """The same with what a forward may save, and what belongs to it.

    Forward and backward are chosen apart: a backward must take what any forward may save (`_wrong_shift`).
    """
    off = _off(case)
    for draw in _draws(case, random, hostile):
        dtype = NUMPY_DTYPES[case.dtype]
        logits = draw.inputs[LOGITS].astype(np.float64).reshape(case.ranks, case["tokens"], -1)
        shift = logits.max((0, 2)) + random.permutation(np.resize((0, off, -off), case["tokens"]))
        if case["range"]:
            shift[random.permutation(len(shift))[::2]] = 0
        log_sum = np.log(np.exp(logits - shift[:, None]).sum((0, 2)))
        made = {SHIFT: shift, LOG_SUM: log_sum}
        made |= {("d_losses",): random.standard_normal(len(shift)), ("d_mean",): random.standard_normal(1)}
        inputs = {**draw.inputs, **{port: x[None].astype(dtype) for port, x in made.items()}}
        yield Draw(inputs=inputs, label=draw.label)


def _off(case: Case) -> int:
    """How far from the largest logit a shift may be; 16 bits do not hold what would belong to another one."""
    return OFF if case.dtype.bytes > 2 else 0


def _wrong_shift(case: Case, inputs: Mapping[Port, Any], saved: Mapping[Port, Any]) -> str:
    """Where a shift is none that backwards are tried with: near the largest logit, or 0 within a range."""
    logits = inputs[LOGITS].reshape(case.ranks, case["tokens"], -1)
    largest, shift = logits.max((0, 2)).astype(np.float64), saved[SHIFT].astype(np.float64)
    right = np.abs(shift - largest) <= _off(case)
    if case["range"]:
        right |= shift == 0
    if right.all():
        return ""
    rank, token = np.argwhere(~right)[0]
    return (
        f"shift, on rank {rank}, element {token}: {shift[rank, token]:.10g}, where the largest logit is"
        f" {largest[token]:.10g}. Gradients are right of a shift within {_off(case)} of it"
        f"{', or of 0' if case['range'] else ''}: save another, and log_sum with it"
    )


# --------------------------------------------------------------------------------------------------- facts
def has_backward(case: Case) -> bool:
    """The gradient of the logits, which every rank has for its own part."""
    return True


def equals_backward(case: Case) -> Case | None:
    """None: its library is BACKWARD in strategies/dist_ce.py."""
    return None


def payload_bytes(case: Case) -> int:
    """Bytes that one rank gives at least: a maximum, a sum and a target's logit for each token."""
    return int(3 * case["tokens"] * case.dtype.bytes)


def bus_factor(case: Case) -> float:
    """busbw = algbw * 2 (n - 1) / n, as all_reduce in nccl-tests, doc/PERFORMANCE.md."""
    return 2 * (case.ranks - 1) / case.ranks


def proxy(large: Case) -> dict[str, Any]:
    """The same tokens, and as many words on each of fewer ranks."""
    words = large["vocabulary"] // large.ranks * fewer_ranks(large)["ranks"]
    return {"tokens": large["tokens"], "vocabulary": words, "range": large["range"] or None}


def examples(ranks: int) -> dict[str, dict[str, Any]]:
    """By name: entries at which all its strategies are proven, at so many ranks."""
    small = {"tokens": 6, "vocabulary": 10 * ranks}
    train = {"tokens": 256, "vocabulary": 144 * ranks}  # OLMoE
    within = {"range": 40}
    return {"small": small | within, "small-any": small, "train": train, "train-within": train | within}
