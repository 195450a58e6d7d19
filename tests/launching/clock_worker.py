"""What ranks run in the tests of two clocks: how far the launch's clock is from a third one, again and again."""

import json
import time
from pathlib import Path

from overlayccl_core.backends.rank import Rank, run_rank

LOOKS, EVERY_S = 40, 0.1  # as many of every rank: they meet at each
SECONDS = LOOKS * EVERY_S  # at least
TRIES = 20  # of which the one that was interrupted least counts


def main(folder: Path) -> None:
    """clock-<rank>.json: [[ns from CLOCK_REALTIME to the launch's clock, at most so far off], ...]."""

    def work(rank: Rank) -> None:
        seen = []
        for _ in range(LOOKS):
            rank.meet()
            seen.append(min((_apart(rank) for _ in range(TRIES)), key=lambda one: one[1]))
            time.sleep(EVERY_S)
            rank.status.work_on(0)
        (folder / f"clock-{rank.index}.json").write_text(json.dumps(seen))
        rank.meet()

    run_rank(folder, work)


def _apart(rank: Rank) -> tuple[int, int]:
    before = time.time_ns()
    now = rank.now_ns()
    after = time.time_ns()
    return now - (before + after) // 2, (after - before) // 2 + 1
