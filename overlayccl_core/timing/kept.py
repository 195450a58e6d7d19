"""The launches of a batch, kept as they come: a run that was cut off goes on where it stopped.

<folder>/launch-<number>.<attempt>.json   rows of a launch, finished or cut off
<folder>/launch-<number>.<attempt>/       a launch at work, or what a dead run left of one

A launch that others disturbed has a second attempt.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlayccl_core.tables.atomic import write_text

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLaunch:
    """A launch that was kept. rows: at least one; complete: it ended by itself, not by an interruption."""

    rows: Sequence[Row]
    complete: bool

    @property
    def disturbed(self) -> bool:
        """Others took too much of the CPU."""
        return bool(self.rows[0]["disturbed"])

    @property
    def foreign_cpu_share(self) -> float:
        """Of the CPU (0..1), taken by others; infinite where it was cut off before this was known."""
        share = self.rows[0]["foreign_cpu_share"]
        return math.inf if share is None else float(share)


class KeptLaunches:
    """The launches of one batch (one key) in one folder, by number; a batch of timings has number 0 alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def attempts(self, number: int = 0) -> list[KeptLaunch]:
        """What is kept of a launch, first attempt first."""
        paths = sorted(self.folder.glob(f"launch-{number}.*.json"), key=_attempt)
        return [KeptLaunch(**json.loads(path.read_text())) for path in paths]

    def next_attempt(self, number: int = 0) -> int:
        """The first that nothing is kept of."""
        return max(map(_attempt, self.folder.glob(f"launch-{number}.*.json")), default=-1) + 1

    def work(self, number: int, attempt: int) -> Path:
        """The folder in which an attempt works."""
        return self.folder / f"launch-{number}.{attempt}"

    def keep(self, work: Path, rows: Sequence[Row], *, complete: bool = True) -> None:
        """Keep the rows of the attempt that works in a folder, if there are any."""
        if rows:
            write_text(work.with_name(f"{work.name}.json"), json.dumps({"rows": rows, "complete": complete}))

    def left_at_work(self) -> list[tuple[Path, bool]]:
        """(folder, whether its rows are kept) of the attempts that a dead run left."""
        folders = sorted(path for path in self.folder.glob("launch-*") if path.is_dir())
        return [(path, path.with_name(f"{path.name}.json").exists()) for path in folders]

    def discard_cut_off(self) -> None:
        """Forget attempts that were cut off: what ran beside a Program that failed is timed anew."""
        for path in self.folder.glob("launch-*.json"):
            if not json.loads(path.read_text())["complete"]:
                path.unlink()

    def least_disturbed(self, number: int = 0) -> KeptLaunch:
        """The attempt of which others took least, among those that ended by themselves."""
        complete = [one for one in self.attempts(number) if one.complete]
        return min(complete, key=lambda one: one.foreign_cpu_share)

    def disturbed_twice(self, number: int) -> bool:
        """Whether it was repeated in vain."""
        attempts = self.attempts(number)
        return len(attempts) > 1 and all(one.disturbed for one in attempts)

    def launch_quietly(
        self,
        number: int,
        launch: Callable[[], None],
        *,
        lacking: bool,
        repeat: bool,
        progress: Callable[[str], None],
    ) -> None:
        """Launch if something is lacking; then, where `repeat`, once more if others disturbed the only attempt.

        launch: one more attempt, which is kept.
        """
        if lacking:
            launch()
        kept = self.attempts(number)
        if repeat and len(kept) == 1 and kept[0].disturbed:
            progress(f"others took {kept[0].foreign_cpu_share:.0%} of the CPU: launching once more")
            launch()


def _attempt(path: Path) -> int:
    return int(path.name.removesuffix(".json").rpartition(".")[2])
