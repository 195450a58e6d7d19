"""Targets of a Problem's prices. No candidate is in the fit, so they are asked of families of Problems unseen."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

ERROR_OVER_REPEAT = 2.0  # of an error to the error from noise alone
LARGEST_ERROR = 0.15  # however loud the noise
LEAST_ORDER = 0.95  # of pairs further apart than noise, or what a repeat has in order
LARGEST_REGRET = 0.05  # in the median over Cases and directions
LARGEST_REPEAT = 0.08  # above it twice the noise is more than LARGEST_ERROR: nothing is decided


class PriceWord(StrEnum):
    """Whether a Problem's prices are as right as asked."""

    MET = "met"
    SHORT = "falls short"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceVerdict:
    """The word, and each figure that falls short of its target, such as `error 19.2% (at most 12.0%)`."""

    word: PriceWord
    short: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.word}: {', '.join(self.short)}" if self.short else self.word.value


def judged(row: Mapping[str, Any]) -> PriceVerdict:
    """Judge a row of the table `fidelity` of all of a Problem's Cases."""
    repeat, error = row["repeat_rel_error"], row["median_rel_error"]
    if repeat > LARGEST_REPEAT:
        return PriceVerdict(word=PriceWord.UNDECIDED)
    short = []
    if error > (most := min(ERROR_OVER_REPEAT * repeat, LARGEST_ERROR)):
        short.append(f"error {error:.1%} (at most {most:.1%})")
    if row["pairs"] and row["pair_accuracy"] < (least := min(LEAST_ORDER, row["repeat_pair_accuracy"])):
        short.append(f"order {row['pair_accuracy']:.1%} (at least {least:.1%})")
    if (row["top1_regret"] or 0.0) > LARGEST_REGRET:
        short.append(f"regret {row['top1_regret']:.1%} (at most {LARGEST_REGRET:.0%})")
    return PriceVerdict(word=PriceWord.SHORT if short else PriceWord.MET, short=tuple(short))
