"""Rule selftest: do the ranks compute what they should, and what can their library do?"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.topology import Limit, of_node
from overlayccl_core.locks import machine_lock
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.selftest import SELFTEST
from overlayccl_core.timing.partial import forget
from overlayccl_core.timing.selftest import BATCH_NAME, Selftest

Rows = list[dict[str, Any]]


def main(job: RuleJob) -> None:
    """Write the tables selftest and capabilities."""
    deployment = load(job.option("deployment"))
    published = of_node(deployment.node)
    tables = run(
        deployment,
        job.partial,
        progress=job.say,
        limits=published.limits if published else (),
        largest_payload_bytes=int(job.option("payload")),
        code=job.option("code"),
    )
    job.write({SELFTEST: tables["selftest"], CAPABILITIES: tables["capabilities"]})
    forget(job.partial, BATCH_NAME, job.all_outputs)


def run(
    deployment: Deployment,
    partial_dir: Path,
    *,
    progress: Callable[[str], None],
    limits: Sequence[Limit] = (),
    largest_payload_bytes: int = 0,
    code: str = "",
) -> dict[str, Rows]:
    """Return the rows of `selftest` and `capabilities`.

    Args:
        limits: Published limits of the deployment's nodes; they decide the order of trials.
        largest_payload_bytes: Of the configured Cases.

    Raises:
        ValueError: The library computes wrong values.
    """
    selftest = Selftest(
        deployment=deployment,
        backend=backend_of(deployment),
        folder=Path(partial_dir),
        progress=progress,
        limits=limits,
        largest_payload_bytes=largest_payload_bytes,
        code=code,
    )
    with machine_lock(progress):
        checks, capabilities = selftest.run()
    passed = sum(row["outcome"] == "pass" for row in checks)
    progress(f"selftest: {passed} of {len(checks)} checks passed")
    return {"selftest": checks, "capabilities": capabilities}
