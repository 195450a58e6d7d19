"""Tuners side by side on recorded samples: regret by seconds; what family and parts are worth, alone and together.

Even rounds are the truth, tuners see odd rounds. What a call is told to take is chosen in a second launch, with
fewer ways and more rounds, in the same manner.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from overlayccl_core.measuring.statistics import CONFIDENCE, FEWEST_ROUNDS, RESAMPLES, Ratio
from overlayccl_core.tables.tune import TunerName
from overlayccl_core.tuning.recorded import Draws, Floats, RecordedCall
from overlayccl_core.tuning.tuners import MEASURING, Tuner

Row = dict[str, Any]
LOOKS = tuple(2 ** (half / 2) for half in range(-6, 9))
"""Budgets, over the seconds of one sample of each way: an eighth to 16."""
SEEDS = {TunerName.HYPERBAND: 30}
"""Courses of each tuner; Optuna takes a hundred times as long as the others."""
USUAL_SEEDS = 1000


def curves(call: RecordedCall, cheapest: int | None) -> Iterator[Row]:
    """Yield rows of `tuner_curves`. cheapest: the way with the least price; None: no price says."""
    limits = [looks * call.look_s for looks in LOOKS]
    for name, tuner in MEASURING.items():
        seeds = SEEDS.get(name, USUAL_SEEDS)
        yield from _rows(call, name, limits, [course(tuner, call, seed, limits) for seed in range(seeds)])
    yield from _rows(call, TunerName.PRICE, limits, [[(cheapest or 0, 0)] * len(limits)])


def course(tuner: Tuner, call: RecordedCall, seed: int, limits: Sequence[float]) -> list[tuple[int, int]]:
    """Return (the way that it names, samples) within each of these seconds, ascending; at first it names plain."""
    draws = Draws(call, seed)
    found: list[tuple[int, int]] = []
    now = 0, 0
    for way in tuner(call.arms, draws.measure, seed):
        while len(found) < len(limits) and draws.seconds > limits[len(found)]:
            found.append(now)
        if len(found) == len(limits):
            return found
        now = way, draws.samples
    return found + [now] * (len(limits) - len(found))


def _rows(
    call: RecordedCall, name: TunerName, limits: Sequence[float], courses: Sequence[list[tuple[int, int]]]
) -> Iterator[Row]:
    regrets = call.regrets
    for at, (looks, seconds) in enumerate(zip(LOOKS, limits, strict=True)):
        named = regrets[[one[at][0] for one in courses]]
        yield {
            "tuner": name,
            "seeds": len(courses),
            "looks": looks,
            "seconds": seconds,
            "samples": float(np.median([one[at][1] for one in courses])),
            "regret": float(np.median(named)),
            "regret_p90": float(np.quantile(named, 0.9)),
        }


@dataclass(frozen=True, kw_only=True)
class CallVerdict:
    """What tuning a call brings.

    Attributes:
        call: The first launch, of all ways.
        best: Of it the best way by all odd rounds.
        both, family, parts: Time of the call's own over the best of all ways, of whole calls, of its own family.
        interaction: `both` over the product of the other two.
        again: The second launch, of the fastest ways; the first of them is the call's own.
        found: Of it the best way by all odd rounds.
        gain: Time of the call's own over that, in its even rounds.
    """

    call: RecordedCall
    best: int
    both: Ratio
    family: Ratio
    parts: Ratio
    interaction: Ratio
    again: RecordedCall
    found: int
    gain: Ratio

    @property
    def disturbed(self) -> bool:
        """Whether one of the launches was."""
        return self.call.disturbed or self.again.disturbed

    @property
    def chosen(self) -> int:
        """What the second launch found if it is faster beyond noise; else 0, the call's own. Disturbed: 0."""
        return self.found if self.gain.beyond_noise and not self.disturbed else 0


def judged(call: RecordedCall, again: RecordedCall) -> CallVerdict:
    """Choose by odd rounds and compare in even ones: the 2 x 2 factorial at first, one way in `again`."""
    arms = list(enumerate(call.arms))
    family = call.best_seen(way for way, arm in arms if arm.parts == 1)
    parts = call.best_seen(way for way, arm in arms if arm.family == call.arms[0].family)
    best = call.best_seen(range(len(arms)))
    found = again.best_seen(range(len(again.arms)))
    return CallVerdict(
        call=call,
        best=best,
        both=call.gain(best),
        family=call.gain(family),
        parts=call.gain(parts),
        interaction=_interaction(call.truth_us[[0, family, parts, best]]),
        again=again,
        found=found,
        gain=again.gain(found),
    )


def _interaction(cells_us: Floats) -> Ratio:
    """Return the gain of both over the product of the others. cells_us: plain, family, parts, both, [4, rounds]."""

    def ratio(medians: Floats) -> Floats:  # [..., 4] -> [...]
        plain, family, parts, both = np.moveaxis(medians, -1, 0)
        return np.asarray(family * parts / (plain * both))

    value, rounds = float(ratio(np.median(cells_us, axis=-1))), cells_us.shape[1]
    if rounds < FEWEST_ROUNDS:
        return Ratio(value=value)
    drawn = np.random.default_rng(0).integers(0, rounds, (RESAMPLES, rounds))
    resampled = ratio(np.median(cells_us[:, drawn], axis=-1).T)
    low, high = np.quantile(resampled, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Ratio(value=value, low=min(float(low), value), high=max(float(high), value))
