"""The Rank of a worker module, whatever the library: all that a worker knows of a backend.

A worker module has `main(folder)`, called in the process of every rank (`Launch.worker`). It ends with

    run_rank(folder, work)

This joins the others, calls work(rank), reports the end, and leaves. An exception in `work` goes to rank-<r>.error
and ends the launch.
"""

import json
import py_compile
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
    """A Case of a deployed file, ready on this rank, with the attributes of an emitted module."""

    file: ModuleType
    Read: Any
    DIGEST: Mapping[str, str]  # direction -> digest of its Program
    forward: Callable[[], Generator[Any, Any, None]]
    backward: Callable[[], Generator[Any, Any, None]]

    @property
    def calls(self) -> int:
        """Calls of the library so far."""


class Rank(Protocol):
    """This rank, and the services of its library for a worker."""

    @property
    def index(self) -> int:
        """The rank's number, from 0."""

    @property
    def ranks(self) -> int:
        """The number of ranks."""

    @property
    def device(self) -> str:
        """The device of its tensors, by torch's name."""

    @property
    def status(self) -> RankStatus:
        """The row for the worker's progress: a rank without progress for too long counts as hung."""

    @property
    def folder(self) -> Path:
        """The launch's folder."""

    @property
    def library_version(self) -> str:
        """The library's version on this rank, in words (`torch 2.9.0`)."""

    def largest(self, *values: float) -> list[float]:
        """Return the largest of each value over all ranks, on all ranks."""

    def everybody(self, *values: float) -> list[list[float]]:
        """Return the values of every rank, by rank, on all ranks, as floats of 64 bits."""

    def now_ns(self) -> int:
        """Return the launch's clock: equal on all ranks, even if their hosts' clocks differ. It begins anywhere."""

    def meet(self) -> None:
        """Return on all ranks at the same instant of the launch's clock."""

    @property
    def is_lazy(self) -> bool:
        """Whether calls are recorded first and run at `end_call`; then only values still held are computed."""

    def end_call(self) -> None:
        """End a call of a module: if calls are recorded first, the next call is a separate one."""

    def force(self) -> None:
        """Wait until everything issued on the device has happened."""

    def compiled(self) -> tuple[int, float]:
        """Return (graphs, seconds) compiled by the library on this rank so far; graphs found compiled count."""

    def make_usual_groups(self) -> None:
        """Make the groups common to every launch, used or not: the number of groups changes the cost of a call."""

    def load(self, path: Path, name: str, members: Members) -> ModuleType:
        """Import an emitted module as `name` and connect it; on every rank in the same order.

        Args:
            members: Global ranks of the groups of its Case.
        """

    def load_deployed(self, path: Path, name: str, members: Members, case: str, way: str) -> Deployed:
        """Import a deployed file as `name`, connect a way of a Case, and run the Case's own selftest."""

    def framework_step(self, model: Any, arm: FrameworkArm) -> Callable[[Sequence[Any]], Any]:
        """Make an arm of the framework's own (measuring/frameworks.py), as a step without optimizer.

        The step takes the batches and goes forward and backward through each. It leaves the gradient of their mean
        loss, mean over replicas, in the parameters. It returns a tensor of their losses on this rank, None if other
        ranks compute them.

        Args:
            model: A torch module that returns the loss of a batch. For FSDP it lists the modules to gather in
                `units`, and their parameters become shards. A pipeline gets this rank's stage, tensor parallelism
                the rank's share.

        Raises:
            ValueError: There is no such step.
        """

    def own_part(self, tensor: Any) -> Any:
        """Return this rank's part of a parameter or gradient; a framework's step may keep shards."""

    def library_calls(self, operation: str) -> int | None:
        """Return the number of library calls in an operation named by torch's dispatcher (`c10d.allreduce_`).

        None: it is no operation of the library. A call that passes the dispatcher several times (at both ends)
        counts once. If the dispatcher sees no calls of the library, calls started by modules are counted.
        """


def write_joining(folder: Path, deployment: Deployment) -> None:
    """Write the backend and library into a launch's folder, for `run_rank`."""
    text = json.dumps({"backend": deployment.backend, "library": deployment.library})
    (folder / JOINING_FILE).write_text(text)


def run_rank(folder: Path, work: Callable[[Rank], None]) -> None:
    """Do the work of one rank of a launch started by a backend."""
    told = json.loads((folder / JOINING_FILE).read_text())
    loader.load("backends", told["backend"]).run_rank(folder, told["library"], work)


def compile_together(rank: Rank, files: Sequence[Path]) -> None:
    """Compile source files, each on one rank, for all of them. What is no Python fails where it is loaded."""
    for file in files[rank.index :: rank.ranks]:
        py_compile.compile(str(file), quiet=2)
    rank.meet()
