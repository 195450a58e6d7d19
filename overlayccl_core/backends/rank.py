"""What a worker module has of its rank, whatever the library: the only thing that it needs to know of a backend.

A worker module has `main(folder)`, which is called in a process of every rank (`Launch.worker`) and ends with

    run_rank(folder, work)

which joins the others, calls work(rank), says that it is done, and leaves. An exception of `work` goes to
rank-<r>.error and ends the launch.
"""

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from overlayccl_core import loader
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.launching.status import RankStatus
from overlayccl_core.measuring.frameworks import FrameworkArm

JOINING_FILE = "joining.json"
Members = tuple[tuple[int, ...], ...]


class Deployed(Protocol):
    """A Case of a deployed file, ready on this rank: what an emitted module has, too."""

    file: ModuleType
    Read: Any
    DIGEST: Mapping[str, str]  # direction -> digest of its Program
    forward: Callable[[], Generator[Any, Any, None]]
    backward: Callable[[], Generator[Any, Any, None]]

    @property
    def calls(self) -> int:
        """Of the library, so far."""


class Rank(Protocol):
    """This rank and what its library does for a worker."""

    @property
    def index(self) -> int:
        """Its number, from 0."""

    @property
    def ranks(self) -> int:
        """How many there are."""

    @property
    def device(self) -> str:
        """Where its tensors live, as torch calls it."""

    @property
    def status(self) -> RankStatus:
        """Where it says what it does: a worker that says nothing for too long hangs."""

    @property
    def folder(self) -> Path:
        """The launch's folder."""

    @property
    def library_version(self) -> str:
        """The library as this rank has it, in words (`torch 2.9.0`)."""

    def largest(self, *values: float) -> list[float]:
        """The largest of each value over all ranks, on all ranks."""

    def everybody(self, *values: float) -> list[list[float]]:
        """The values of every rank, by rank, on all ranks. They are floats of 64 bits."""

    def now_ns(self) -> int:
        """The launch's clock: the same on all ranks, also where their hosts' differ. It begins anywhere."""

    def meet(self) -> None:
        """Return on all ranks at the same instant of the launch's clock."""

    @property
    def is_lazy(self) -> bool:
        """Whether calls are recorded first, and run when `end_call` says so: then only what is still held is
        computed."""

    def end_call(self) -> None:
        """A call of a module has been made: where calls are recorded first, it ends here, and what follows is
        another."""

    def force(self) -> None:
        """Wait until everything that was issued on the device has happened."""

    def compiled(self) -> tuple[int, float]:
        """(graphs, seconds) that the library has compiled on this rank so far, or has found compiled."""

    def make_usual_groups(self) -> None:
        """Make the groups of ranks that every launch has, used or not: their number changes what a call costs."""

    def load(self, path: Path, name: str, members: Members) -> ModuleType:
        """Import an emitted module as `name` and connect it; on every rank in the same order.

        members: global ranks of the groups that its Case runs in.
        """

    def load_deployed(self, path: Path, name: str, members: Members, case: str) -> Deployed:
        """Import a deployed file as `name` and connect one of its Cases, whose own selftest passes first."""

    def framework_step(self, model: Any, arm: FrameworkArm) -> Callable[[Sequence[Any]], Any]:
        """An arm of the framework's own (measuring/frameworks.py), as a step without optimizer.

        model: a torch module that gives the loss of a batch; for FSDP with a module for each unit that is gathered,
        in `units`; their parameters become shards. Of a pipeline it is this rank's stage, of a tensor-parallel
        model its share. The step takes the batches, goes forward and backward through each, leaves in the
        parameters the gradient of their mean loss, mean over replicas, and returns a tensor of their losses on this
        rank, or None where others compute them. ValueError where there is no such thing.
        """

    def own_part(self, tensor: Any) -> Any:
        """What this rank has of a parameter or gradient, which a framework's step may keep in shards."""

    def library_calls(self, operation: str) -> int | None:
        """How many calls of the library an operation is that torch's dispatcher names (`c10d.allreduce_`).

        None: it is not the library's. A call that the dispatcher sees several times (at both ends) counts once.
        Where it sees none, what modules start is counted.
        """


class _Backend(Protocol):
    def run_rank(self, folder: Path, library: str, work: Callable[[Any], None]) -> None: ...


def write_joining(folder: Path, deployment: Deployment) -> None:
    """Tell the ranks of a launch's folder whose they are: `run_rank` reads it."""
    text = json.dumps({"backend": deployment.backend, "library": deployment.library})
    (folder / JOINING_FILE).write_text(text)


def run_rank(folder: Path, work: Callable[[Rank], None]) -> None:
    """Do the work of one rank of a launch that a backend has started."""
    told = json.loads((folder / JOINING_FILE).read_text())
    backend: _Backend = loader.load("backends", told["backend"])
    backend.run_rank(folder, told["library"], work)
