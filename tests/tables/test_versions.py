"""A table with other columns has another version: `python -m tests.tables.test_versions` writes schemas.json."""

import hashlib
import json
from pathlib import Path

from overlayccl_core.tables.page import OF_COMMANDS, TABLES
from overlayccl_core.tables.table import Table

ALL = (*TABLES, *OF_COMMANDS)
FILE = Path(__file__).with_name("schemas.json")


def schema(table: Table) -> list[object]:
    """[version, digest of the columns without their descriptions]."""
    columns = [
        (c.name, str(c.dtype), c.unit, c.nullable, list(map(str, c.values or ()))) for c in table.columns
    ]
    return [table.version, hashlib.sha256(repr(columns).encode()).hexdigest()[:12]]


def test_changed_columns_have_another_version() -> None:
    known = json.loads(FILE.read_text())
    for table in ALL:
        version, digest = schema(table)
        if known.get(table.name, [None])[0] == version:
            assert known[table.name][1] == digest, f"{table.name}: raise its version, then write {FILE.name}"
    assert {table.name: schema(table) for table in ALL} == known, f"write {FILE.name} anew"


if __name__ == "__main__":
    FILE.write_text(json.dumps({table.name: schema(table) for table in ALL}, indent=1) + "\n")
