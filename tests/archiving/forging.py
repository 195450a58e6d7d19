"""An archive that says something else, with all hashes mended."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl
from pyarrow import parquet

from overlayccl_core.archiving import make, manifest, packing
from overlayccl_core.archiving.content import content_of
from overlayccl_core.archiving.findings import Check, CheckOutcome, Finding
from overlayccl_core.archiving.manifest import Manifest
from overlayccl_core.archiving.verify import verify
from overlayccl_core.tables.page import TABLES
from overlayccl_core.tables.sidecar import sha256_of
from overlayccl_core.tables.table import NAME_KEY, VERSION_KEY

Change = Callable[[Path], None]


def forged(archive: Path, place: Path, change: Change) -> Path:
    """An archive in which `change` was made; then sidecars, manifest and sums were made to fit."""
    folder = packing.unpack(archive, place / "unpacked")
    change(folder)
    about = Manifest.loads((folder / manifest.NAME).read_bytes())
    tree = folder / "results" / about.tree
    for sidecar in tree.rglob("*.sidecar.json"):
        record = json.loads(sidecar.read_text())
        table = sidecar.with_name(sidecar.name.replace(".sidecar.json", ".parquet"))
        record["sha256"] = sha256_of(table)
        record["inputs"] = {
            name: sha256_of(folder / name) if (folder / name).exists() else old
            for name, old in record["inputs"].items()
        }
        sidecar.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    content = content_of(Path("results", about.tree), folder, folder)
    jobs = make.jobs_in(content, folder, about)
    target = place / "forged.tar.zst"
    packing.pack(make.with_manifest(content, jobs, about), make.folder_of(about), make.when(jobs), target)
    shutil.rmtree(place / "unpacked")
    return target


def rewritten(path: Path, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    """A table with other content, as the pipeline writes one."""
    frame = change(pl.read_parquet(path))
    (table,) = (one for one in TABLES if one.name == path.stem)
    named = frame.to_arrow().replace_schema_metadata({NAME_KEY: table.name, VERSION_KEY: str(table.version)})
    parquet.write_table(named, path, compression="zstd")


def looked_at(archive: Path) -> list[Finding]:
    """All that verifying finds."""
    return list(verify(archive, 2, lambda line: None))


def wrong(found: Sequence[Finding]) -> list[tuple[Check, str, str]]:
    """What is refuted."""
    return [(one.check, one.subject, one.message) for one in found if one.outcome is CheckOutcome.WRONG]
