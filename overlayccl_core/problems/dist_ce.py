"""dist_ce: the cross-entropy of T tokens over a vocabulary, with the logits split over the ranks.

Every rank has the logits (T, V/N) of the same tokens for its part of the vocabulary, in rank order, and all target
ids. Everyone needs the loss of each token, log(sum(exp(logits))) - logit of the target, and the mean of the losses
(Megatron-LM, Shoeybi et al. 2019, section 3: the output embedding).

It is not linear. The forward saves two numbers of each token for the backward: `shift`, subtracted from its logits
before exp (their maximum, or a number near it), and `log_sum`, the logarithm of the sum of exp(logits - shift).
Only their sum means something; float32 does not hold it well if logits are large.

The backward is a Problem of its own, without a collective: (softmax - one at the target) times the cotangent.
The loss is replicated, and so is its cotangent: every rank has the same, there is no 1/N.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from pydantic import Field

from overlayccl_core.configuration.fields import Count, Fields
from overlayccl_core.problems.trial_data.logits import (
    LOG_SUM,
    LOGITS,
    SHIFT,
    TARGETS,
    backward_draws,
    draws,
    wrong_shift,
)
from overlayccl_core.program.case import Case, ParameterValue, all_reduce_factor, divisible, fewer_ranks
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
from overlayccl_core.program.problem import Direction, Nonlinear, PortSpec, Problem, Segment, of_every_problem
from overlayccl_core.program.recorder import IO


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
        raise ValueError(
            f"the ranks must divide the vocabulary (got {ranks} and {entry.vocabulary}): pad it to"
            f" {divisible(entry.vocabulary, ranks)} words, with logits of -inf for those that mean nothing"
        )
    return {"tokens": entry.tokens, "vocabulary": entry.vocabulary, "range": entry.range or 0}


def name(case: Case) -> str:
    """t256-v32256, or t256-v32256-within60: tokens, words, the range of the logits."""
    within = f"-within{case['range']}" if case["range"] else ""
    return f"t{case['tokens']}-v{case['vocabulary']}{within}"


def problem(case: Case) -> Problem:
    """Ports ("logits",) (T, V/N), ("targets",) (T) -> ("losses",) (T), ("mean",) (1); saved: shift, log_sum (T)."""
    each = _replicated(case, case["tokens"])
    saved = replace(each, saved=True)
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
            draws=partial(draws, case),
            parts=dict.fromkeys((LOGITS, TARGETS, ("losses",), SHIFT, LOG_SUM), case["tokens"]),
            named=(LOGITS,),
            means={("mean",): ("losses",)},
            backward=_backward(case),
            backward_reference=backward_reference,
            wrong_saved=partial(wrong_shift, case),
        ),
    )


def _backward(case: Case) -> Problem:
    """Ports: inputs and saved outputs of the forward, ("d_losses",) and ("d_mean",) -> ("d_logits",)."""
    each, one = _replicated(case, case["tokens"]), _replicated(case, 1)
    cotangents: dict[Port, PortSpec] = {("d_mean",): one, ("d_losses",): each}
    inputs = {**cotangents, LOG_SUM: each, SHIFT: each, **_given(case)}
    rows = (LOGITS, TARGETS, ("d_losses",), SHIFT, LOG_SUM, ("d_logits",))
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
        nonlinear=Nonlinear(
            draws=partial(backward_draws, case),
            parts=dict.fromkeys(rows, case["tokens"]),
            named=(LOGITS, ("d_logits",)),
        ),
    )


def _replicated(case: Case, size: int) -> PortSpec:
    same = Placement.REPLICATE
    return PortSpec(shape=(size,), dtype=case.dtype, placement=same, cotangent=same)


def _given(case: Case) -> dict[Port, PortSpec]:
    tokens, words, limit = case["tokens"], case["vocabulary"], case["range"]
    within, same = (-limit, limit) if limit else None, Placement.REPLICATE
    return {
        LOGITS: PortSpec(shape=(tokens, words // case.ranks), dtype=case.dtype, within=within),
        TARGETS: PortSpec(shape=(tokens,), dtype=DType.INT64, placement=same, within=(0, words - 1)),
    }


def _parameters(case: Case) -> dict[str, ParameterValue]:
    shard = case["vocabulary"] // case.ranks
    return {
        **of_every_problem(case),
        "tokens": case["tokens"],
        "vocabulary": case["vocabulary"],
        "shard": shard,
        "first_word": tuple(rank * shard for rank in range(case.ranks)),
        "range": case["range"],
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
    """(softmax - one at the target) * cotangent; the mean's is shared among the tokens."""
    column = (p.tokens, 1)
    shifted = sub(io.read("logits"), reshape(io.read("shift"), column))
    softmax = exp(sub(shifted, reshape(io.read("log_sum"), column)))
    off = sub(softmax, one_hot(io.read("targets"), p.first_word, p.shard, p.dtype))
    share = scale(reshape(io.read("d_mean"), (1, 1)), 1, p.tokens)
    cotangent = add(reshape(io.read("d_losses"), (1, p.tokens)), share)
    io.write("d_logits", mul(off, reshape(cotangent, column)))


def has_backward(case: Case) -> bool:
    """Every rank computes the gradient of its own logits."""
    return True


def equals_backward(case: Case) -> Case | None:
    """None: its library is BACKWARD in strategies/dist_ce.py."""
    return None


def payload_bytes(case: Case) -> int:
    """Bytes that one rank gives at least: a maximum, a sum and a target's logit for each token."""
    return int(3 * case["tokens"] * case.dtype.bytes)


bus_factor = all_reduce_factor


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
