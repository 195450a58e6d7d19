"""Jobs of a batch that fail on real ranks: how, what is said of them, and that a batch goes on without them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from overlayccl_core.backends.launch import Failure, LaunchError
from overlayccl_core.backends.plan import write_text
from overlayccl_core.measuring.job_status import JobStatus

FILE = "failed.json"
STATUS_OF = {
    Failure.CRASHED: JobStatus.CRASHED,
    Failure.HUNG: JobStatus.HUNG,
    Failure.RAISED: JobStatus.RAISED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """How a job failed, and for people: what happened and where its evidence is. launch: of its batch."""

    status: JobStatus
    message: str
    launch: int = 0


def blamed(error: LaunchError, launch: int = 0) -> tuple[str, Failed] | None:
    """(the job that ranks were at when they failed, how); None where no job is to blame."""
    status = STATUS_OF.get(error.kind)
    if status is None or error.job is None:
        return None
    message = f"{error.said}; see {error.evidence}" if error.evidence else error.said
    return error.job, Failed(status=status, message=message, launch=launch)


class FailedJobs(Mapping[str, Failed]):
    """Name of a job -> how it failed, kept in a batch's folder: a run that was cut off does not try them again.

    tried: whether all jobs of the batch were tried by now, before they are timed.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._held: dict[str, Failed] = {}
        self.tried = False
        if self._path.exists():
            data = json.loads(self._path.read_text())
            self.tried = data["tried"]
            self._held = {
                name: Failed(**{**one, "status": JobStatus(one["status"])})
                for name, one in data["failed"].items()
            }

    def add(self, name: str, failed: Failed) -> None:
        """One more."""
        self._held[name] = failed
        self._write()

    def all_tried(self) -> None:
        """No job needs to be tried any more."""
        self.tried = True
        self._write()

    def _write(self) -> None:
        failed = {name: asdict(one) for name, one in self._held.items()}
        write_text(self._path, json.dumps({"tried": self.tried, "failed": failed}))

    def __getitem__(self, name: str) -> Failed:
        return self._held[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)
