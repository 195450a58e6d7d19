"""What varies is beside the table."""

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from overlayccl_core import loader
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.rows import TableError
from overlayccl_core.tables.sidecar import path_of, write_sidecar


def test_sidecar_tells_where_a_table_came_from(tmp_path: Path) -> None:
    table, source = tmp_path / "probes.parquet", tmp_path / "capabilities.parquet"
    table.write_bytes(b"table")
    source.write_bytes(b"source")
    loader.load("backends", "torchdist")
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    write_sidecar(table, inputs=[source], command=["python", "-m", "x"], started=start, ended=end)
    record = json.loads(path_of(table).read_text())
    assert path_of(table).name == "probes.sidecar.json"
    assert record["inputs"] == {str(source): hashlib.sha256(b"source").hexdigest()}
    assert record["sha256"] == hashlib.sha256(b"table").hexdigest()
    assert record["started_utc"] == start.isoformat()
    assert record["command"] == ["python", "-m", "x"]
    assert {"python", "torch", "polars"} <= set(record["versions"])
    assert record["host"] and record["cores"] > 0


def test_measurements_of_two_machines_are_not_mixed() -> None:
    here, there = pl.DataFrame({"fingerprint": ["here", "here"]}), pl.DataFrame({"fingerprint": ["there"]})
    nowhere = pl.DataFrame({"fingerprint": [None]}, schema={"fingerprint": pl.String})
    assert one_fingerprint({"a": here, "b": nowhere}, "") == "here"
    assert one_fingerprint({"b": nowhere}, "") is None
    with pytest.raises(TableError) as error:
        one_fingerprint({"a.parquet": here, "b.parquet": there}, "snakemake --forcerun probe")
    for part in ("a.parquet: here", "b.parquet: there", "snakemake --forcerun probe"):
        assert part in str(error.value)
