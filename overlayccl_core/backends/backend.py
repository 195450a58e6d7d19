"""What a backend is: the one place that knows a library.

A backend NAME is the folder `backends/NAME/` with `backend.py` in it, here or in a folder of yours
(`overlayccl_core.loader`), and a deployment names it. Its `backend.py` defines at its top level what `Backend`
declares. It must import without the library (rules that start no ranks load it too); what runs in the ranks
is in other files of the folder.

`deployed.py` beside it prints deployed modules (`evidence.deployment_files.Printer`). It is loaded apart: what is
measured does not depend on it.

Neutral, and called with a backend: what a selftest checks (`selftest.py`), batches of timings (`timing.py`),
launches that are kept and repeated (`partial.py`), trials (`trials.py`). For backends whose ranks are processes:
the watcher of a host's ranks (`launch.py`: a `Starter` says how they are started), agents that do so on several
nodes (`nodes.py`). For those whose ranks compute with torch's tensors: all of the launches
(`torch_ranks/launching.py`)."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from overlayccl_core import loader
from overlayccl_core.backends.plan import LaunchPlan
from overlayccl_core.backends.rank import Rank
from overlayccl_core.backends.trials import Observed, Trial
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.launching.launch import Launch, Watch
from overlayccl_core.program.program import Program

Rows = list[dict[str, Any]]


class Backend(Protocol):
    """What `backends/<name>/backend.py` defines. What starts ranks raises RefusedError where `refuses` says why,
    and LaunchError where ranks die, hang or raise."""

    REQUIRES: tuple[str, ...]
    """Modules that must be installed, by the names under which they are imported."""

    FRAMEWORK_ARMS: bool
    """Whether its ranks can run torch's own arms (`Rank.framework_step`); else no model is trained with them."""

    def emit(self, program: Program) -> str:
        """The source of the module that is timed and trained: the backend's dialect."""

    def fingerprint(self, deployment: Deployment) -> str:
        """CPU, devices, versions, library, ranks and what is set for them that changes their speed, in one line
        (`fingerprint.line`): equal where measurements may be compared. A run asks for it before any job, and
        measures anew where it differs: so it imports the library only where nothing else tells its version, and
        where ranks start on other hosts it is made of what the deployment's file says of these, not of the host
        that asks. It tells the versions that deployed modules compare (`Printer.VERSIONS`). Where times are not of
        real collectives between real ranks, its part `emulated` says what they are of, and so does the report."""

    def refuses(self, deployment: Deployment) -> str:
        """Why its ranks cannot be started from here, with the mend; empty if they can. A library that it does not
        know, or that lacks what it needs here, is such a reason."""

    def cannot_train(self, deployment: Deployment) -> str:
        """Why it has no training launch, in a clause; empty: it has one. No model may be configured without."""

    def oversubscribed(self, deployment: Deployment) -> bool:
        """Whether ranks share cores, so that every time contains the operating system's scheduler."""

    def doctor(self, deployment: Deployment) -> Rows:
        """What is installed here and what is missing, and whether ranks can be started: rows of check, ok,
        detail."""

    def host(self, deployment: Deployment) -> Rows:
        """What this host has and lacks if ranks run on it: rows of check, ok, detail. A node is asked by a job."""

    def time_launch(self, deployment: Deployment, folder: Path, plan: LaunchPlan, watch: Watch) -> float:
        """Time the plan of a folder: writes `Calibration` and the stamps (ns) as rounds go, says with status
        rows how far it is. Returns the share (0..1) of the CPU that others took."""

    def run_once(
        self,
        deployment: Deployment,
        folder: Path,
        trials: Sequence[Trial],
        *,
        may_refuse: bool = False,
        step_timeout_s: float = 60.0,
    ) -> Sequence[Observed]:
        """Run every trial on all ranks, in order, in one launch in a folder; what comes out can be read while the
        folder is there. A trial that raises ends the launch, whose other ranks may be inside its collectives.
        may_refuse: it does not, because what raises there is the library, which refuses alike on all ranks."""

    def train(self, deployment: Deployment, launch: Launch, watch: Watch) -> float:
        """Start a worker module on all ranks and wait for its end; in it, `rank.run_rank` gives the Rank.
        Returns the share (0..1) of the CPU that others took. ValueError with `cannot_train` where it has none."""

    def run_rank(self, folder: Path, library: str, work: Callable[[Rank], None]) -> None:
        """In a rank's process: join the others, do the work, say so. For `rank.run_rank`, which calls it."""


def backend_of(deployment: Deployment) -> Backend:
    """The deployment's backend; ValueError naming those there are."""
    return loader.plug_in(Backend, "backends", deployment.backend)
