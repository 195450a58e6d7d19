"""Times of exchanges between two ranks: the pairs of a deployment, each a Program of one permute.

Both ranks of a pair send the other the same payload. Few ranks: every pair, alone. More: a sample of O(N log N)
pairs, disjoint ones at a time, which then share their hosts' links: at distances 1, 2, 4, ... (neighbours show
where a host ends, others find ranks that were dealt out in turns), and at random.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.backends.measured import Job, TimingSettings
from overlayccl_core.backends.plan import Calibration, LaunchPlan, Stamps, visit_us
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.launching.launch import no_watch
from overlayccl_core.locks import machine_lock
from overlayccl_core.program.kinds import DType
from overlayccl_core.timing.partial import Evidence, at_work
from overlayccl_core.timing.primitives import permute
from overlayccl_core.timing.reporting import Progress

Pair = tuple[int, int]
Matching = tuple[Pair, ...]
"""Disjoint pairs, timed at once."""
MOST_ALONE = 45  # pairs, of ten ranks: a visit takes some 20 ms, a round then a second or two
SMALL_BYTES = 4
NOBODY = -1
FEWEST, MOST = 6, 48  # rounds: with fewer, a busy machine shows in the latencies
SAMPLE_MS, LEAD_IN_MS = 1.0, 4.0  # many short samples: one of them is undisturbed


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTimes:
    """Times in us of an exchange, as float64[rounds, N, N]: symmetric, NaN for a pair that was not timed.

    Attributes:
        small_us: With SMALL_BYTES each way: the latency.
        large_us: With `payload_bytes` each way.
        alone: Whether each pair had the machine for itself.
    """

    small_us: NDArray[np.float64]
    large_us: NDArray[np.float64]
    payload_bytes: int
    alone: bool

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.large_us)

    @property
    def pairs(self) -> int:
        """Number of timed pairs."""
        return int(np.isfinite(self.large_us[0]).sum()) // 2


def matchings(ranks: int, seed: int = 0) -> list[Matching]:
    """Return the pairs to time, those of a matching at once: all pairs, each alone, or the sample."""
    every = list(combinations(range(ranks), 2))
    if len(every) <= MOST_ALONE:
        return [(pair,) for pair in every]
    random, made = np.random.default_rng(seed), []
    distances = [2**k for k in range((ranks - 1).bit_length())]
    for apart in distances:
        rows: tuple[list[Pair], list[Pair]] = ([], [])
        for rank in range(ranks - apart):
            rows[rank // apart % 2].append((rank, rank + apart))
        made += [tuple(row) for row in rows if row]
    for _ in distances:
        drawn = random.permutation(ranks)[: ranks // 2 * 2].reshape(-1, 2)
        made.append(tuple((int(min(pair)), int(max(pair))) for pair in drawn))
    return made


def time_pairs(
    deployment: Deployment,
    folder: Path,
    evidence: Evidence,
    *,
    payload_bytes: int,
    seconds: float,
    progress: Progress,
) -> PairTimes:
    """Start the deployment's ranks once, and time its pairs.

    Args:
        folder: For the work of the launch, visible to all nodes; it is removed.
        seconds: Budget of the launch. Two rounds are taken, however long they take.

    Raises:
        ValueError: The ranks cannot start (RefusedError), or a launch failed (LaunchError).
    """
    backend, timed = backend_of(deployment), matchings(deployment.ranks)
    jobs = []
    for nbytes in (SMALL_BYTES, payload_bytes):
        for place, pairs in enumerate(timed):
            sources = np.full(deployment.ranks, NOBODY)
            for one, other in pairs:
                sources[one], sources[other] = other, one
            program = permute(
                deployment, DType.FLOAT32, nbytes // DType.FLOAT32.bytes, sources.tolist()
            ).program
            jobs.append(Job(key=f"{nbytes} {place}", program=program, source=backend.emit(program)))
    alone = all(len(pairs) == 1 for pairs in timed)
    settings = TimingSettings(
        seconds=seconds,
        minimum_rounds=FEWEST,
        maximum_rounds=MOST,
        min_sample_ms=SAMPLE_MS,
        lead_in_ms=LEAD_IN_MS,
    )
    with machine_lock(progress), at_work(folder, evidence) as work:
        plan = LaunchPlan.of(jobs, settings, ranks=deployment.ranks)
        plan.write(work, jobs)
        backend.time_launch(deployment, work, plan, no_watch)
        stamps, calibration = np.array(plan.open_stamps(work, "r")), Calibration.read(work)
    assert calibration is not None, "the launch ended well"
    small, large = (
        _by_pair(stamps[:, half], calibration.repeats[half], timed, deployment.ranks)
        for half in (slice(len(timed)), slice(len(timed), None))
    )
    return PairTimes(small_us=small, large_us=large, payload_bytes=payload_bytes, alone=alone)


def _by_pair(
    stamps: Stamps, repeats: Sequence[int], timed: Sequence[Matching], ranks: int
) -> NDArray[np.float64]:
    """Return float64[rounds, N, N] of stamps [visits, matchings, ranks, 2]: a pair's time is that of its own ranks.

    A pair in several matchings has the least of its times in each round.
    """
    rounds = int((stamps[..., 1] > 0).all(axis=(1, 2)).sum())
    us = np.full((rounds, ranks, ranks), np.nan)
    for index in range(rounds):
        for place, pairs in enumerate(timed):
            for pair in pairs:
                took, _ = visit_us(stamps[index, place, list(pair)], repeats[place])
                us[(index, *pair)] = us[(index, *pair[::-1])] = np.fmin(us[(index, *pair)], took)
    return us
