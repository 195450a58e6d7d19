"""The launches of a batch, kept as they come: an interrupted run continues at the same point.

<folder>/launch-<number>.<attempt>.json   rows of a launch, finished or cut off
<folder>/launch-<number>.<attempt>/       a launch at work, or the remains of a dead run's launch

A launch disturbed by others has a second attempt.
"""

import json
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlayccl_core.backends.measured import TimedProgram
from overlayccl_core.tables.atomic import write_text
from overlayccl_core.tables.plain import of_data
from overlayccl_core.timing.partial import Evidence, at_work
from overlayccl_core.timing.reporting import Progress

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLaunch:
    """A kept launch. rows: at least one; complete: it ended by itself, not by an interruption."""

    rows: Sequence[Row]
    complete: bool

    @property
    def timed(self) -> list[TimedProgram]:
        """The rows of a batch of timings."""
        return [of_data(TimedProgram, row) for row in self.rows]

    @property
    def disturbed(self) -> bool:
        return bool(self.rows[0]["disturbed"])

    @property
    def foreign_cpu_share(self) -> float:
        """The share of the CPU (0..1) taken by others; infinite if the launch was cut off before it was known."""
        share = self.rows[0]["foreign_cpu_share"]
        return math.inf if share is None else float(share)


class KeptLaunches:
    """The launches of one batch (one key) in one folder, by number; a batch of timings has number 0 only.

    A batch that begins clears the evidence of its rule's earlier failures.
    """

    def __init__(self, folder: Path, evidence: Evidence, progress: Progress) -> None:
        self.folder = folder
        self._evidence = evidence
        self._progress = progress
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            evidence.clear()

    def at_work(self, name: str, *, found_again: bool = False) -> AbstractContextManager[Path]:
        """Make the folder of a launch, as `partial.at_work`; `launch-<number>.<attempt>` for one to be kept."""
        return at_work(self.folder / name, self._evidence, found_again=found_again)

    def attempts(self, number: int = 0) -> list[KeptLaunch]:
        """Return the kept attempts of a launch, first attempt first."""
        paths = sorted(self.folder.glob(f"launch-{number}.*.json"), key=_attempt)
        return [KeptLaunch(**json.loads(path.read_text())) for path in paths]

    def next_attempt(self, number: int = 0) -> int:
        """Return the number of the next attempt."""
        return max(map(_attempt, self.folder.glob(f"launch-{number}.*.json")), default=-1) + 1

    def keep(self, work: Path, rows: Sequence[Row], *, complete: bool = True) -> None:
        """Write the rows of the attempt in a work folder, if there are any."""
        if rows:
            write_text(work.with_name(f"{work.name}.json"), json.dumps({"rows": rows, "complete": complete}))

    def left_at_work(self) -> list[tuple[Path, bool]]:
        """Return (folder, whether its rows are kept) of the attempts that a dead run left."""
        folders = sorted(path for path in self.folder.glob("launch-*") if path.is_dir())
        return [(path, path.with_name(f"{path.name}.json").exists()) for path in folders]

    def discard_cut_off(self) -> None:
        """Delete interrupted attempts: Programs beside a failed one are timed anew."""
        for path in self.folder.glob("launch-*.json"):
            if not json.loads(path.read_text())["complete"]:
                path.unlink()

    def least_disturbed(self, number: int = 0) -> KeptLaunch:
        """Return the attempt with the smallest foreign CPU share among those that ended by themselves."""
        complete = [one for one in self.attempts(number) if one.complete]
        return min(complete, key=lambda one: one.foreign_cpu_share)

    def disturbed_twice(self, number: int) -> bool:
        attempts = self.attempts(number)
        return len(attempts) > 1 and all(one.disturbed for one in attempts)

    def disturbed_once(self, number: int = 0) -> bool:
        """Tell whether others disturbed the only attempt, and say so: it is to be launched once more."""
        kept = self.attempts(number)
        if again := len(kept) == 1 and kept[0].disturbed:
            self._progress(f"others took {kept[0].foreign_cpu_share:.0%} of the CPU: launching once more")
        return again


def _attempt(path: Path) -> int:
    return int(path.name.removesuffix(".json").rpartition(".")[2])
