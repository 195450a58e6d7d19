"""Rule probe: the Programs of the sweep."""

from collections.abc import Iterator

from overlayccl_core.archiving.rows import ArchivedJob, Odd, compared, once
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.probes.sweep import to_time
from overlayccl_core.program.json_form import loads
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.probes import PROBES


def complete(job: ArchivedJob) -> Iterator[Odd]:
    """Expect exactly the sweep, fitted and held-out."""
    can = Capabilities.from_rows(job.table(CAPABILITIES).iter_rows(named=True))
    probes = to_time(job.deployment, job.settings, can, lambda _: None)
    wanted = {(probe.name, probe.role.value, probe.program.digest) for probe in probes}
    rows = job.rows(PROBES)
    held = {text: loads(text).digest for text in {row["program_json"] for row in rows}}
    there = {
        (row["probe"], row["role"], digest)
        for row in rows
        for digest in (row["program"], held[row["program_json"]])
    }
    yield from compared(wanted, there)
    yield from once((row["probe"], row["launch"]) for row in rows)
