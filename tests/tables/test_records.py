"""A record is read as Snakemake writes it, or not at all."""

import json
from pathlib import Path
from typing import Any

import pytest

from overlayccl_core.tables import records

FILE = Path("results/local/theta.parquet")
TOLD = {
    "rule": "fit",
    "input": ["results/local/probes.parquet"],
    "log": ["results/local/logs/fit.log"],
    "shellcmd": "python -P -m workflow_scripts.stage fit",
    "params": ["'0123456789abcdef'", "4"],
    "starttime": 1_700_000_000.25,
    "endtime": 1_700_000_012,
}


def recorded(root: Path, **changed: Any) -> records.Record | None:
    place = root / records.record_path(FILE)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(TOLD | changed))
    return records.read(FILE, root)


def test_what_snakemake_writes_is_read(tmp_path: Path) -> None:
    record = recorded(tmp_path)
    assert record is not None
    assert (record.rule, record.parameters, record.ended) == ("fit", ("0123456789abcdef", 4), 1_700_000_012.0)
    assert records.read(Path("results/local/probes.parquet"), tmp_path) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"rule": ["fit"]},
        {"input": [5]},
        {"log": [5]},
        {"shellcmd": ["python"]},
        {"params": [5]},
        {"params": ["(" * 100_000]},
        {"params": ["-" * 100_000 + "1"]},
        {"starttime": float("-inf")},
        {"starttime": -1},
        {"endtime": float("inf")},
        {"endtime": float("nan")},
        {"endtime": 1e300},
    ],
    ids=lambda changed: str(changed)[:30],
)
def test_what_snakemake_does_not_write_is_no_record(tmp_path: Path, changed: dict[str, Any]) -> None:
    assert recorded(tmp_path, **changed) is None


def test_a_record_that_is_nested_too_deep_is_none(tmp_path: Path) -> None:
    recorded(tmp_path)
    (tmp_path / records.record_path(FILE)).write_text("[" * 200_000)
    assert records.read(FILE, tmp_path) is None
