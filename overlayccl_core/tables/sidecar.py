"""Sidecars: facts that vary from run to run (host, versions, times, digests of inputs), beside a table."""

import hashlib
import json
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib import metadata
from pathlib import Path

import polars as pl

from overlayccl_core import loader
from overlayccl_core.tables.atomic import write_bytes
from overlayccl_core.tables.remake import remake
from overlayccl_core.tables.rows import TableError
from overlayccl_core.tables.table import Table, read

LIBRARIES = ("numpy", "scipy", "polars", "snakemake")  # besides those of the process's plug-ins

TOLD = (
    *(
        "ATEN_",
        "CUBLAS",
        "CUDA_",
        "CUDNN_",
        "DNNL_",
        "FI_",
        "GLIBC_",
        "GLOO_",
        "GOMP_",
        "KMP_",
        "LD_",
        "MALLOC_",
    ),
    *("MKL_", "NCCL_", "NEURON", "NVIDIA_", "OMP_", "ONEDNN_", "PJRT_", "PYTORCH_", "TORCH_", "XLA_"),
)
"""Prefixes of variables that configure the ranks' libraries."""
THREADS = "_NUM_THREADS"  # suffix of those set by Snakemake for each job; a rank has one thread


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """Provenance of a table. Times are UTC, ISO 8601; digests are sha256 of whole files.

    Attributes:
        environment: Variables of TOLD that were set.
    """

    table: str
    sha256: str
    host: str
    cores: int
    system: str
    versions: dict[str, str]
    environment: dict[str, str]
    started_utc: str
    ended_utc: str
    inputs: dict[str, str]
    command: tuple[str, ...]


def path_of(table_path: str | Path) -> Path:
    """Return `results/local/probes.sidecar.json` for `results/local/probes.parquet`."""
    return Path(table_path).with_suffix(".sidecar.json")


def write_sidecar(
    table_path: str | Path,
    *,
    inputs: Iterable[str | Path],
    command: Iterable[str],
    started: datetime,
    ended: datetime,
) -> None:
    """Write the sidecar of a table just written; `inputs`: its sources."""
    record = Sidecar(
        table=str(table_path),
        sha256=sha256_of(Path(table_path)),
        host=platform.node(),
        cores=os.cpu_count() or 0,
        system=platform.platform(),
        versions=_versions(),
        environment=environment(),
        started_utc=started.isoformat(),
        ended_utc=ended.isoformat(),
        inputs={str(path): sha256_of(Path(path)) for path in inputs},
        command=tuple(command),
    )
    text = json.dumps(asdict(record), indent=1, sort_keys=True) + "\n"
    write_bytes(path_of(table_path), text.encode())


def read_unchanged(table: Table, table_path: str | Path) -> pl.DataFrame:
    """Return an unchanged table. TableError if it is missing, invalid or changed since it was made."""
    frame = read(table, table_path)
    check_unchanged(table_path)
    return frame


def seconds_of(table_path: str | Path) -> float | None:
    """Return the seconds of the job that wrote a table; None without a sidecar."""
    beside = path_of(table_path)
    if not beside.exists():
        return None
    record = json.loads(beside.read_bytes())
    began, ended = (datetime.fromisoformat(record[key]) for key in ("started_utc", "ended_utc"))
    return (ended - began).total_seconds()


def check_unchanged(table_path: str | Path) -> None:
    """Raise TableError if a table differs from its sidecar's; a table without a sidecar passes."""
    path, beside = Path(table_path), path_of(table_path)
    if not beside.exists():
        return
    try:
        record = json.loads(beside.read_bytes())
    except ValueError:
        record = None
    if not isinstance(record, dict) or "sha256" not in record:
        raise TableError(f"{beside}: a damaged sidecar. Make table and sidecar again: {remake(path)}")
    if record["sha256"] != sha256_of(path):
        raise TableError(
            f"{path}: changed after it was made: its sha256 is not that in {beside.name}. "
            f"Make it again: {remake(path)}"
        )


def sha256_of(path: Path) -> str:
    """Return the sha256 of a whole file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def environment() -> dict[str, str]:
    """Return the variables of TOLD that are set here."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(TOLD) and not name.endswith(THREADS)
    }


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for library in (*LIBRARIES, *loader.required()):
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            versions[library] = "not installed"
    return versions
