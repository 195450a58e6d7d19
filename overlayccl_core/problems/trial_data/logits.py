"""Logits and targets on which programs of cross-entropy are tried, and the shifts which a forward may save.

A token's data is a turn: a number which fixes its kind of logits, the number they are around, and the loss.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.program.arithmetics import NUMPY_DTYPES
from overlayccl_core.program.case import Case
from overlayccl_core.program.kinds import DType
from overlayccl_core.program.meaning import TooLarge
from overlayccl_core.program.nodes import Port
from overlayccl_core.program.problem import Alike, Draw

LOGITS: Port = ("logits",)
TARGETS: Port = ("targets",)
SHIFT: Port = ("shift",)
LOG_SUM: Port = ("log_sum",)
Floats = NDArray[Any]
Ints = NDArray[np.int64]
Random = np.random.Generator
Place = tuple[int, int]  # rank, word of its part

FAR_ABOVE, FAR_IN_FLOAT16 = 1e6, 1e4  # the largest logits tried: float64 holds their sums to 1e-9
OFF = 30  # largest distance of a shift from the maximum, saved by a forward and taken by a backward


@dataclass(frozen=True, slots=True)
class _Token:
    """A token to make logits for.

    Attributes:
        x: Unit normals [ranks, words of a rank].
        other: A place on another rank than the target's.
        far: Distance of a logit far from the others.
        loss: A loss seen in training.
    """

    x: Floats
    target: Place
    other: Place
    far: float
    loss: float

    def at(self, place: Place, value: float) -> Floats:
        """Return x with a value at one place."""
        made = self.x.copy()
        made[place] = value
        return made

    def near(self, place: Place) -> Floats:
        """Return x with the logit at a place which gives a target there the loss: softmax is exp(-loss)."""
        others = np.exp(self.at(place, -np.inf)).sum(dtype=np.float64)
        return self.at(place, float(np.log(others / np.expm1(self.loss))))

    def on(self, rank: int, x: Floats, other: Any) -> Floats:
        """Return x, but `other` on one rank."""
        return np.where(np.arange(len(x))[:, None] == rank, other, x)


# In words -> logits [ranks, words of a rank] of one token.
KINDS: dict[str, Callable[[_Token], Floats]] = {
    "the target's logit near the others": lambda t: t.near(t.target),
    "another's logit near the others": lambda t: t.near(t.other),
    "logits of size 10": lambda t: 10 * t.x,
    "logits of size 30": lambda t: 30 * t.x,
    "the logits of one rank 800 below": lambda t: t.on(t.other[0], t.x, t.x - 800),
    "logits of size 1": lambda t: t.x,
    "logits of -inf on one rank": lambda t: t.on(t.other[0], t.x, -np.inf),
    "logits of -inf at every second word": lambda t: np.where(
        (np.arange(t.x.shape[1]) - t.target[1]) % 2 == 1, -np.inf, t.x
    ),
    "the largest logit on several ranks": lambda t: np.round(t.x).clip(-1, 1),
    "the target's logit far above the others": lambda t: t.at(t.target, t.far),
    "the target's logit far below the others": lambda t: t.at(t.target, -t.far),
    "the target's logit at -inf": lambda t: t.at(t.target, -np.inf),
    "a logit that is NaN": lambda t: t.at(t.other, np.nan),
    "logits that are nearly equal": lambda t: t.x / 64,
    "equal logits": lambda t: 0 * t.x,
    "logits of -inf on all ranks but one": lambda t: t.on(t.target[0], np.full_like(t.x, -np.inf), t.x),
}
NAMES = list(KINDS)
FAR = "one logit far above the others"  # no kind: it has a word of its own in each draw
FRIENDLIEST = NAMES.index("logits of size 1")
NEAR_LOSSES = 16  # the largest of them: ln V of 50,000 words is 11, and a run starts a little above
LOSSES_DRAWN = 64  # at least, of each token or of one that is computed alike
AROUNDS = 5  # numbers around which logits lie, no divisor of the number of kinds
PAIRS = len(KINDS) * AROUNDS
LOGITS_DRAWN = 2**26  # at most, in all draws of a Program: a few seconds
LEAST_DRAWS = 4  # however many logits one has
SIZES = np.array([0, 2**24, 1, 2**16, 2**-20])  # of cotangents: a loss may be scaled; in float16 their roots


def draws(case: Case, random: Random, hostile: bool, alike: Alike | None) -> Iterator[Draw]:
    """Draw the first kind with many losses, then each kind around each number, then a logit far above at each word.

    From draw to draw a token goes on to the next loss, kind, number and word. Tokens computed alike are tried in
    each other's place. If words are, too, one of each rank's part stands for the others.

    Raises:
        TooLarge: After the draws within the limit, if a Program needs more for what it computes apart.
    """
    tokens, words = case["tokens"], case["vocabulary"]
    if not hostile:
        yield _draw(case, random, np.arange(tokens) * PAIRS + FRIENDLIEST)
        return
    alike = alike or Alike(parts=np.zeros(tokens, np.int64), evenly=False)
    times = np.bincount(alike.parts)
    fewest, step = int(times.min()), times[alike.parts]
    near, far = -(-LOSSES_DRAWN // fewest), -(-(case.ranks if alike.evenly else words) // fewest)
    plain = max(1 if alike.evenly else len(KINDS), PAIRS - fewest + 1)
    most = max(LEAST_DRAWS, LOGITS_DRAWN // (tokens * words))
    if (asked := near + plain + far) > most:
        near, plain = min(near, most // 4), min(plain, most // 4)
        far = most - near - plain
    nth = np.empty(tokens, np.int64)  # of those that are alike
    for one, count in enumerate(times):
        nth[alike.parts == one] = random.permutation(count)
    strides = random.choice(np.flatnonzero(np.gcd(np.arange(PAIRS), PAIRS) == 1), len(times))  # not in step
    first = random.integers(PAIRS, size=len(times))
    high, targets = _words(case, random), _words(case, random)
    begin = PAIRS * int(random.integers(2**16))
    for draw in range(near):
        yield _draw(case, random, begin + (nth + draw * step) * PAIRS)
    for draw in range(plain + far):
        turn = begin + (first[alike.parts] + strides[alike.parts] * (nth + draw)) % PAIRS
        word = (nth + (draw - plain) * step) % words
        yield _draw(case, random, turn, *((targets[word], high[word]) if draw >= plain else ()))
    if asked > most and not (alike.evenly and len(times) == 1):
        odd = int(np.argmax(alike.parts == times.argmin()))
        raise TooLarge(
            f"token {odd} is computed as {fewest - 1} others, words {'' if alike.evenly else 'not '}alike: it needs"
            f" {asked} draws (limit {most}). Compute all of them alike"
        )


def _words(case: Case, random: Random) -> Ints:
    """Order all words: of the ranks' parts first one end, then the other, then the rest."""
    shard = case["vocabulary"] // case.ranks
    first = np.arange(case.ranks) * shard
    near = first + random.integers(2, size=case.ranks) * (shard - 1)
    far = np.setdiff1d(2 * first + shard - 1 - near, near)
    others = np.setdiff1d(np.arange(case["vocabulary"]), [*near, *far])
    return np.concatenate([random.permutation(some) for some in (near, far, others)])


def _draw(case: Case, random: Random, turn: Ints, targets: Any = None, high: Any = None) -> Draw:
    """Make a draw of each token's turn; `high`: of each, in place of its kind, the word far above the others."""
    tokens, ranks, words = case["tokens"], case.ranks, case["vocabulary"] // case.ranks
    targets = random.integers(0, case["vocabulary"], tokens) if targets is None else targets
    limit = float(case["range"] or (FAR_IN_FLOAT16 if case.dtype is DType.FLOAT16 else FAR_ABOVE))
    around = np.array([0, min(1000, limit / 2), -min(1000, limit / 2), limit, -limit])[turn % AROUNDS]
    height = limit * (100 / limit) ** np.maximum(random.uniform(-0.3, 1, tokens), 0)
    near = turn // len(KINDS) / AROUNDS * (5**0.5 - 1) / 2 % 1  # the golden section leaves no large gap
    losses = NEAR_LOSSES * near**2  # small ones lie closer: there are most of them
    logits = random.standard_normal((ranks, tokens, words), np.float32)
    names = [FAR if high is not None else NAMES[k] for k in turn % len(KINDS)]
    for t, name in enumerate(names):
        rank, word = divmod(int(targets[t]), words)
        other = (rank + 1 + t % (ranks - 1)) % ranks, word
        token = _Token(logits[:, t], (rank, word), other, height[t], losses[t])
        made = KINDS[name](token) if high is None else token.at(divmod(int(high[t]), words), height[t])
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


def backward_draws(case: Case, random: Random, hostile: bool, alike: Alike | None) -> Iterator[Draw]:
    """Draw the same, with shifts of all kinds which a forward may save: forward and backward are chosen apart."""
    off, dtype, tokens, normal = _off(case), NUMPY_DTYPES[case.dtype], case["tokens"], random.standard_normal
    sizes = SIZES ** (0.5 if case.dtype is DType.FLOAT16 else 1)
    for number, draw in enumerate(draws(case, random, hostile, alike)):
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
    """Return the largest distance of a shift from the maximum; 16 bits do not hold a sum for another shift."""
    return OFF if case.dtype.bytes > 2 else 0


def wrong_shift(case: Case, inputs: Mapping[Port, Any], saved: Mapping[Port, Any]) -> str:
    """Describe a saved shift on which no backward is tried, far from the largest logit and (in a range) from 0."""
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
