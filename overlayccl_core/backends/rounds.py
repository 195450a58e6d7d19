"""The number and order of a Program's calls: pure functions with the same result on every rank."""

from collections.abc import Sequence
from math import ceil

import numpy as np

from overlayccl_core.measuring.statistics import FEWEST_ROUNDS

TWO = 2  # rounds: even and odd
LONG = 3  # times the lead-in
VISIT_OVERHEAD_S = 0.004  # at least: agreement on an instant (2 ms ahead) and sleep until then


def repeats_for(call_s: float, *, min_sample_ms: float, max_repeats: int) -> int:
    """Return the back-to-back calls of one sample, to last at least min_sample_ms."""
    wanted = ceil(min_sample_ms / 1e3 / max(call_s, 1e-9))
    return min(max(wanted, 1), max_repeats)


def lead_in_calls(call_s: float, *, lead_in_ms: float, max_repeats: int) -> int:
    """Return the untimed calls before a sample; none if one call is long enough to outweigh its beginning."""
    if call_s * 1e3 > LONG * lead_in_ms:
        return 0
    return min(ceil(lead_in_ms / 1e3 / max(call_s, 1e-9)), max_repeats)


def fewest_rounds(races: Sequence[Sequence[str]], minimum_rounds: int) -> int:
    """Return the minimum number of rounds, however long they take: for a race, enough for a Program to leave it.

    Args:
        races: The races of each Program.
        minimum_rounds: The batch's minimum, possibly smaller.
    """
    return max(TWO, min(FEWEST_ROUNDS, minimum_rounds)) if any(races) else TWO


def planned_rounds(
    visit_s: Sequence[float],
    caps: Sequence[int | None],
    *,
    budget_s: float,
    fewest: int = TWO,
    maximum_rounds: int,
) -> int:
    """Return the most rounds with visits inside the budget; at least `fewest`.

    Args:
        visit_s: Seconds of one visit of each Program.
        caps: Each Program's own limit of rounds, or None.
    """

    def total_s(rounds: int) -> float:
        each = (rounds if cap is None else min(rounds, cap) for cap in caps)
        return sum(s * n for s, n in zip(visit_s, each, strict=True))

    rounds = fewest
    while rounds < maximum_rounds and total_s(rounds + 1) <= budget_s:
        rounds += 1
    return rounds


def visits(index: int, rounds: int, caps: Sequence[int | None], *, seed: int) -> list[int]:
    """Return the Programs of a round in the order of their visits. index: of the round, from 0.

    A Program with fewer rounds than the batch is visited in rounds spread evenly over it, from the first on: all
    its visits happen even if the batch ends a round early.
    """
    chosen = [job for job, cap in enumerate(caps) if _takes_part(index, rounds, cap)]
    random = np.random.default_rng((seed, index))
    return [int(job) for job in random.permutation(chosen)]


def _takes_part(index: int, rounds: int, cap: int | None) -> bool:
    if cap is None or cap >= rounds:
        return True
    return index * cap % rounds < cap
