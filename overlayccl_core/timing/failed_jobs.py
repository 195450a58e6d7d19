"""Jobs that fail on real ranks: find the job to blame and its failure, and continue the batch without it.

Ranks also end for reasons outside a job: memory is short, or a person kills a process. So a job blamed for a failed
launch is tried once more, alone, and left out if it fails again. If it runs alone, it stays in the batch until MOST
launches with others have failed at it.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from overlayccl_core.launching.failures import Failure, LaunchError
from overlayccl_core.measuring.job_status import JobStatus
from overlayccl_core.tables.atomic import write_text
from overlayccl_core.tables.plain import of_data

FILE = "failed.json"
MOST = 3  # failures beside others: by now the job is a likelier cause than a person who kills ranks
Gave = TypeVar("Gave")

STATUS_OF = {
    Failure.CRASHED: JobStatus.CRASHED,
    Failure.HUNG: JobStatus.HUNG,
    Failure.RAISED: JobStatus.RAISED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The failure of a job. message: for people, the event and its evidence; launch: number of the launch."""

    status: JobStatus
    message: str
    launch: int = 0


class FailedJobs(Mapping[str, Failed]):
    """Jobs left out, by name, with their failures; kept in a batch's folder (None: not kept) for a continued run.

    Attributes:
        suspects: Jobs blamed for a failed launch, to be tried alone.
        tried: All jobs of the batch have been tried by now, before they are timed.
        unchecked: Jobs with unseen values, and the reason.
        _needed: Jobs indispensable for the meaning of the others.
    """

    def __init__(
        self, folder: Path | None, progress: Callable[[str], None], *, needed: Collection[str] = ()
    ) -> None:
        self._path = folder / FILE if folder else None
        self._progress = progress
        self._needed = needed
        self._out: dict[str, Failed] = {}
        self._times: dict[str, int] = {}
        self.suspects: list[str] = []
        self.unchecked: dict[str, str] = {}
        self.tried = False
        if self._path and self._path.exists():
            data = json.loads(self._path.read_text())
            self.tried, self.unchecked = data["tried"], data["unchecked"]
            self._out, self._times, self.suspects = (
                {name: of_data(Failed, one) for name, one in data["out"].items()},
                data["times"],
                data["suspects"],
            )

    def blame(self, error: LaunchError, launch: int = 0, *, alone: bool = False) -> None:
        """Record the job to blame for a failed launch: a suspect if it ran beside others, left out if alone.

        Raises:
            LaunchError: No job is to blame, or a needed job would be left out.
        """
        status, name = STATUS_OF.get(error.kind), error.job
        if status is None or name is None:
            raise error
        message = f"{error.said}; see {error.evidence}" if error.evidence else error.said
        failed = Failed(status=status, message=message, launch=launch)
        self._times[name] = self._times.get(name, 0) + 1
        if not alone and self._times[name] < MOST:
            self.suspects.append(name)
            self._write()
            self._progress(f"{name} {failed.status}, trying it once more, alone: {failed.message}")
            return
        if name in self._needed:
            raise error
        self.leave_out(name, failed)

    def clear(self, name: str) -> None:
        """Continue with a suspect after it ran alone to its end, unless its values were wrong."""
        if name not in self._out:
            self.suspects.remove(name)
            self._write()
            self._progress(f"{name} runs when it is alone: going on with it")

    def leave_out(self, name: str, failed: Failed) -> None:
        self._out[name] = failed
        self.suspects = [one for one in self.suspects if one != name]
        self._write()
        self._progress(f"{name} {failed.status}, going on without it: {failed.message}")

    def not_checked(self, name: str, why: str) -> None:
        """Record the reason for leaving a job's values unchecked."""
        self.unchecked[name] = why
        self._write()
        self._progress(f"{name}: {why}")

    def all_tried(self) -> None:
        self.tried = True
        self._write()

    def _write(self) -> None:
        if self._path:
            data = {
                "tried": self.tried,
                "unchecked": self.unchecked,
                "times": self._times,
                "suspects": self.suspects,
                "out": {name: asdict(one) for name, one in self._out.items()},
            }
            write_text(self._path, json.dumps(data))

    def __getitem__(self, name: str) -> Failed:
        return self._out[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._out)

    def __len__(self) -> int:
        return len(self._out)


def without_failed(
    together: Callable[[], Gave],
    alone: Callable[[str], object],
    failed: FailedJobs,
    *,
    launch: int = 0,
    before_again: Callable[[], None] = lambda: None,
) -> Gave:
    """Return the result of `together` once no launch fails any more; the one rule for judging jobs.

    Args:
        together: Launches all jobs outside `failed`.
        alone: Launches one of them.
        before_again: Called after every failure.

    Raises:
        LaunchError: As in `FailedJobs.blame`.
    """
    while True:
        tried: str | None = None
        try:
            for tried in tuple(failed.suspects):
                alone(tried)
                failed.clear(tried)
            tried = None
            return together()
        except LaunchError as error:
            failed.blame(error, launch, alone=tried is not None and tried == error.job)
            before_again()
