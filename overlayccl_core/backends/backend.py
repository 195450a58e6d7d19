"""The protocol of a backend, the only code that knows a library.

A backend NAME is the folder `backends/NAME/` with a `backend.py`, in the package or in a folder of plug-ins
(`overlayccl_core.loader`); a deployment names its backend. `backend.py` defines the members of `Backend` at its top
level. It must import without the library, because rules without ranks load it too. The code of the ranks stands in
other files of the folder.

`deployed.py` beside it prints deployed modules (`evidence.deployment_files.Printer`). It is loaded separately:
measurements do not depend on it.

All backends share the selftest (`timing/selftest.py`), batches of timings (`timing/batch.py`), kept and repeated
launches (`timing/launch_store.py`) and trials (`trials.py`). Backends with processes as ranks share the watcher of
a host's ranks (`launching/launch.py`; a `Starter` starts them) and its agents on nodes (`launching/nodes.py`).
Backends with torch tensors import most members from `torch_ranks/torch_backend.py`.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from overlayccl_core import loader
from overlayccl_core.backends.plan import LaunchPlan
from overlayccl_core.backends.rank import Rank
from overlayccl_core.backends.trials import Observed, Trial
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.launching.failures import RefusedError
from overlayccl_core.launching.launch import Launch, Starter, Watch
from overlayccl_core.launching.launcher import DoctorCheck, launcher_of
from overlayccl_core.launching.node_report import NodeReport
from overlayccl_core.locks import machine_is_free
from overlayccl_core.program.program import Program


class Backend(Protocol):
    """The members of `backends/<name>/backend.py`.

    Starting ranks raises RefusedError if `refuses` gives a reason, and LaunchError if ranks die, hang or raise.
    """

    REQUIRES: tuple[str, ...]
    """Required modules, by their import names."""

    FRAMEWORK_ARMS: bool
    """Whether its ranks can run torch's own arms (`Rank.framework_step`); if not, no model is trained with them."""

    def emit(self, program: Program) -> str:
        """Return the source of the module to time and train, in the backend's dialect."""

    def fingerprint(self, deployment: Deployment) -> str:
        """Describe CPU, devices, versions, library, ranks and their speed-changing settings in one line.

        Measurements with equal lines (`fingerprint.line`) may be compared. A run asks for the line before any job,
        and measures anew if it differs. So the backend imports the library only if its version is unknown
        otherwise. If ranks start on other hosts, the line describes them by the deployment's file, not by the
        asking host. It includes the versions compared by deployed modules (`Printer.VERSIONS`). If times are not of
        real collectives between real ranks, the part `emulated` names their source, and so does the report.
        """

    def refuses(self, deployment: Deployment) -> str:
        """Return why ranks cannot be started from here, and the mend; empty if they can.

        An unknown library is such a reason, and so is a missing requirement of the library.
        """

    def cannot_train(self, deployment: Deployment) -> str:
        """Return why there is no training launch, in a clause; empty if there is one. All models need one."""

    def needs_cores(self, deployment: Deployment) -> bool:
        """Tell whether each rank needs a core of its host. On fewer cores (`oversubscribed`) it waits for one."""

    def doctor(self, deployment: Deployment) -> list[DoctorCheck]:
        """Check the requirements here, and whether ranks can be started."""

    def host(self, deployment: Deployment) -> list[DoctorCheck]:
        """Check this host as a place for ranks. A job asks it on a node."""

    def starter(self, deployment: Deployment, towards: str) -> Starter:
        """Return what starts the ranks of one host; an agent on a node asks for it (`launching/node_agent.py`).

        Args:
            towards: Address of the first node; empty if this host is alone.
        """

    def time_launch(self, deployment: Deployment, folder: Path, plan: LaunchPlan, watch: Watch) -> float:
        """Time the plan of a folder and return the share (0..1) of the CPU taken by others.

        It writes `Calibration` and the stamps (ns) as rounds go; status rows report the progress.
        """

    def run_once(
        self,
        deployment: Deployment,
        folder: Path,
        trials: Sequence[Trial],
        *,
        may_refuse: bool = False,
        step_timeout_s: float = 60.0,
    ) -> Sequence[Observed]:
        """Run every trial on all ranks, in order, in one launch in a folder.

        Outputs can be read as long as the folder exists. An exception in a trial ends the launch, since other ranks
        may be inside its collectives.

        Args:
            may_refuse: An exception in a trial does not end the launch: the library refuses the call alike on all
                ranks.
        """

    def train(self, deployment: Deployment, launch: Launch, watch: Watch) -> float:
        """Start a worker module on all ranks, wait for its end, and return the CPU share (0..1) taken by others.

        In the worker, `rank.run_rank` gives the Rank.

        Raises:
            ValueError: These ranks train nothing; a run asks `cannot_train` first (workflow_scripts/preflight.py).
        """

    def run_rank(self, folder: Path, library: str, work: Callable[[Rank], None]) -> None:
        """In a rank's process, join the others, do the work and report its end. Called by `rank.run_rank`."""


def backend_of(deployment: Deployment) -> Backend:
    """Return the deployment's backend. ValueError: It does not exist; the message names the existing ones."""
    return loader.plug_in(Backend, "backends", deployment.backend)


def begin_starter(deployment: Deployment) -> None:
    """Begin what starts ranks on this host: it imports the library while the caller prepares its first launch.

    Not where agents begin theirs, nor while another measurement has the machine.
    """
    if not launcher_of(deployment).agents and machine_is_free():
        with suppress(RefusedError):  # the launch says so
            backend_of(deployment).starter(deployment, "")


def oversubscribed(deployment: Deployment, told: NodeReport) -> bool:
    """Tell whether ranks shared cores, so every time contains the operating system's scheduler.

    told: Report of the launch; its cores are those of the ranks, which the launcher may bind.
    """
    return backend_of(deployment).needs_cores(deployment) and deployment.ranks_per_node > told.cores
