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

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
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
from overlayccl_core.program.meaning import TooLarge
from overlayccl_core.program.nodes import Port
from overlayccl_core.program.problem import Alike, Direction, Draw, Nonlinear, PortSpec, Problem, Segment
from overlayccl_core.program.recorder import IO

LOGITS: Port = ("logits",)
TARGETS: Port = ("targets",)
SHIFT: Port = ("shift",)
LOG_SUM: Port = ("log_sum",)
Floats = NDArray[Any]
Ints = NDArray[np.int64]
Random = np.random.Generator

FAR_ABOVE, FAR_IN_FLOAT16 = 1e6, 1e4  # how large logits are tried: float64 holds their sums to 1e-9
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
            draws=partial(_draws, case),
            parts=dict.fromkeys((LOGITS, TARGETS, ("losses",), SHIFT, LOG_SUM), case["tokens"]),
            named=(LOGITS,),
            means={("mean",): ("losses",)},
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
            draws=partial(_backward_draws, case),
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


def _on(rank: int, x: Floats, other: Any) -> Floats:
    """x [ranks, words], but `other` on one rank."""
    return np.where(np.arange(len(x))[:, None] == rank, other, x)


def _at(place: Place, x: Floats, value: float) -> Floats:
    """x with `value` at one place."""
    made = x.copy()
    made[place] = value
    return made


def _near(place: Place, x: Floats, loss: float) -> Floats:
    """x with such a logit at a place that this is the loss of a target there; its softmax is exp(-loss)."""
    others = np.exp(_at(place, x, -np.inf)).sum(dtype=np.float64)
    return _at(place, x, float(np.log(others / np.expm1(loss))))


# In words -> logits [ranks, V/N] of one token, from unit normals x; t: where its target is; o: a place on another
# rank; h: how far is far; loss: one of those that a training run sees.
KINDS: dict[str, Callable[[Floats, Place, Place, float, float], Floats]] = {
    "the target's logit near the others": lambda x, t, o, h, loss: _near(t, x, loss),
    "another's logit near the others": lambda x, t, o, h, loss: _near(o, x, loss),
    "logits of size 10": lambda x, t, o, h, loss: 10 * x,
    "logits of size 30": lambda x, t, o, h, loss: 30 * x,
    "the logits of one rank 800 below": lambda x, t, o, h, loss: _on(o[0], x, x - 800),
    "logits of size 1": lambda x, t, o, h, loss: x,
    "logits of -inf on one rank": lambda x, t, o, h, loss: _on(o[0], x, -np.inf),
    "logits of -inf at every second word": lambda x, t, o, h, loss: np.where(
        (np.arange(x.shape[1]) - t[1]) % 2 == 1, -np.inf, x
    ),
    "the largest logit on several ranks": lambda x, t, o, h, loss: np.round(x).clip(-1, 1),
    "the target's logit far above the others": lambda x, t, o, h, loss: _at(t, x, h),
    "the target's logit far below the others": lambda x, t, o, h, loss: _at(t, x, -h),
    "the target's logit at -inf": lambda x, t, o, h, loss: _at(t, x, -np.inf),
    "a logit that is NaN": lambda x, t, o, h, loss: _at(o, x, np.nan),
    "logits that are nearly equal": lambda x, t, o, h, loss: x / 64,
    "equal logits": lambda x, t, o, h, loss: 0 * x,
    "logits of -inf on all ranks but one": lambda x, t, o, h, loss: _on(t[0], np.full_like(x, -np.inf), x),
}
NEAR_LOSSES = 16  # the largest of them: ln V of 50,000 words is 11, and a run starts a little above
LOSSES_DRAWN = 64  # at least, of each token or of one that is computed alike
FAR = "one logit far above the others"
AROUNDS = 5  # numbers that logits are around, no divisor of the number of kinds; the kind at 5 is of size 1
LOGITS_DRAWN = 2**26  # at most, in all draws of a Program: a few seconds
LEAST_DRAWS = 4  # however many logits one has
SIZES = np.array([0, 2**24, 1, 2**16, 2**-20])  # of cotangents: a loss may be scaled; in float16 their roots


def _draws(case: Case, random: Random, hostile: bool, alike: Alike | None = None) -> Iterator[Draw]:
    """The first kind with many losses; then each kind around each number; then a logit far above at each word.

    From draw to draw a token goes on to the next loss, kind, number and word. Tokens that are computed alike are
    tried in each other's place; where words are, too, one of each part stands for the others.
    """
    tokens, pairs = case["tokens"], len(KINDS) * AROUNDS
    if not hostile:
        yield _draw(case, random, np.arange(tokens) * pairs + AROUNDS)
        return
    alike = alike or Alike(parts=np.zeros(tokens, np.int64), evenly=False)
    times = np.bincount(alike.parts)
    fewest, step = int(times.min()), times[alike.parts]
    near, far = -(-LOSSES_DRAWN // fewest), -(-(case.ranks if alike.evenly else case["vocabulary"]) // fewest)
    plain = max(1 if alike.evenly else len(KINDS), pairs - fewest + 1)
    most = max(LEAST_DRAWS, LOGITS_DRAWN // (tokens * case["vocabulary"]))
    if (asked := near + plain + far) > most:
        near, plain = min(near, most // 4), min(plain, most // 4)
        far = most - near - plain
    nth = np.empty(tokens, np.int64)  # of those that are alike
    for one, count in enumerate(times):
        nth[alike.parts == one] = random.permutation(count)
    strides = random.choice(np.flatnonzero(np.gcd(np.arange(pairs), pairs) == 1), len(times))  # not in step
    first = random.integers(pairs, size=len(times))
    high, targets = _words(case, random), _words(case, random)
    begin = pairs * int(random.integers(2**16))
    yield from (_draw(case, random, begin + (nth + draw * step) * pairs) for draw in range(near))
    for draw in range(plain + far):
        turn = begin + (first[alike.parts] + strides[alike.parts] * (nth + draw)) % pairs
        word = (nth + (draw - plain) * step) % case["vocabulary"]
        yield _draw(case, random, turn, *((targets[word], high[word]) if draw >= plain else ()))
    if asked > most and not (alike.evenly and len(times) == 1):
        odd = int(np.argmax(alike.parts == times.argmin()))
        raise TooLarge(
            f"token {odd} is computed as {fewest - 1} others, words {'' if alike.evenly else 'not '}alike: it needs"
            f" {asked} draws (limit {most}). Compute all of them alike"
        )


def _words(case: Case, random: Random) -> Ints:
    """All words: of the ranks' parts first one end, then the other, then what is between."""
    shard = case["vocabulary"] // case.ranks
    first = np.arange(case.ranks) * shard
    near = first + random.integers(2, size=case.ranks) * (shard - 1)
    far = np.setdiff1d(2 * first + shard - 1 - near, near)
    others = np.setdiff1d(np.arange(case["vocabulary"]), [*near, *far])
    return np.concatenate([random.permutation(some) for some in (near, far, others)])


def _draw(case: Case, random: Random, turn: Ints, targets: Any = None, high: Any = None) -> Draw:
    """turn: of each token, which kind, number and loss. high: in place of a kind, words far above the others."""
    tokens, ranks, words = case["tokens"], case.ranks, case["vocabulary"] // case.ranks
    targets = random.integers(0, case["vocabulary"], tokens) if targets is None else targets
    limit = float(case["range"] or (FAR_IN_FLOAT16 if case.dtype is DType.FLOAT16 else FAR_ABOVE))
    around = np.array([0, min(1000, limit / 2), -min(1000, limit / 2), limit, -limit])[turn % AROUNDS]
    height = limit * (100 / limit) ** np.maximum(random.uniform(-0.3, 1, tokens), 0)
    near = turn // len(KINDS) / AROUNDS * (5**0.5 - 1) / 2 % 1  # the golden section leaves no large gap
    losses = NEAR_LOSSES * near**2  # small ones lie closer: there are most of them
    logits = random.standard_normal((ranks, tokens, words), np.float32)
    names = [FAR if high is not None else list(KINDS)[k] for k in turn % len(KINDS)]
    for t, name in enumerate(names):
        target = divmod(int(targets[t]), words)
        if high is not None:
            made = _at(divmod(int(high[t]), words), logits[:, t], height[t])
        else:
            other = (target[0] + 1 + t % (ranks - 1)) % ranks, target[1]
            made = KINDS[name](logits[:, t], target, other, height[t], losses[t])
        logits[:, t] = made + around[t]
    if case["range"]:
        logits = np.where(np.isneginf(logits), -np.inf, np.nan_to_num(logits).clip(-limit, limit))

    def label(port: Port, element: int) -> str:
        if port == ("mean",):
            return "of all tokens"
        t = element // words if port == ("d_logits",) else element
        return f"of a token with {names[t]}" + (f", around {around[t]:g}" if around[t] else "")

    typed = logits.reshape(ranks, -1).astype(NUMPY_DTYPES[case.dtype])
    return Draw(inputs={LOGITS: typed, TARGETS: targets[None].astype(np.int64)}, label=label)


def _backward_draws(case: Case, random: Random, hostile: bool, alike: Alike | None = None) -> Iterator[Draw]:
    """The same with all that a forward may save (`_wrong_shift`): the two are chosen apart."""
    off, dtype, tokens, normal = _off(case), NUMPY_DTYPES[case.dtype], case["tokens"], random.standard_normal
    sizes = SIZES ** (0.5 if case.dtype is DType.FLOAT16 else 1)
    for number, draw in enumerate(_draws(case, random, hostile, alike)):
        each, one = random.choice(sizes, tokens), sizes[number % len(sizes)]
        logits = draw.inputs[LOGITS].astype(np.float64).reshape(case.ranks, tokens, -1)
        shift = logits.max((0, 2)) + random.permutation(np.resize((0, off, -off), tokens))
        if case["range"]:
            shift[random.permutation(tokens)[::2]] = 0
        shift = shift.astype(dtype).astype(np.float64)
        log_sum = np.log(np.exp(logits - shift[:, None]).sum((0, 2)))
        made: dict[Port, Floats] = {("d_losses",): each * normal(tokens), ("d_mean",): one * normal(1)}
        made |= {SHIFT: shift, LOG_SUM: log_sum}
        inputs = {**draw.inputs, **{port: x[None].astype(dtype) for port, x in made.items()}}
        sized: dict[Port, Floats] = {("d_logits",): np.repeat(each + one / tokens, logits.shape[2])}
        yield Draw(inputs=inputs, label=draw.label, sizes=sized)


def _off(case: Case) -> int:
    """How far from the largest logit a shift may be; 16 bits do not hold what would belong to another one."""
    return OFF if case.dtype.bytes > 2 else 0


def _wrong_shift(case: Case, inputs: Mapping[Port, Any], saved: Mapping[Port, Any]) -> str:
    """Where a shift is none that backwards are tried with: near the largest logit, or 0 within a range."""
    logits = inputs[LOGITS].reshape(case.ranks, case["tokens"], -1)
    largest, shift = logits.max((0, 2)).astype(np.float64), saved[SHIFT].astype(np.float64)
    right = (np.abs(shift - largest) <= _off(case)) | np.isnan(largest)
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
