"""What a rule's job writes: all of its tables, or nothing that counts as made."""

from pathlib import Path

import pytest

from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.sidecar import path_of
from overlayccl_core.tables.table import Table, TableError, integer

FIRST, SECOND = (Table(name=name, version=1, columns=(integer("n", doc=""),)) for name in ("first", "second"))


def job(folder: Path, *tables: Table) -> RuleJob:
    outputs = [f"{table.name}={folder / table.name}.parquet" for table in tables]
    return RuleJob.of(["tiny", "--outputs", *outputs], say=lambda _: None)


def test_no_table_has_a_sidecar_before_all_tables_are_written(tmp_path: Path) -> None:
    made = job(tmp_path, FIRST, SECOND)
    with pytest.raises(TableError):
        made.write({FIRST: [{"n": 1}], SECOND: [{"n": "one"}]})
    first, second = made.all_outputs
    assert not path_of(first).exists() and not second.exists()
    made.write({FIRST: [{"n": 1}], SECOND: [{"n": 2}]})
    assert path_of(first).exists() and path_of(second).exists()


def test_a_table_that_is_no_output_of_the_rule_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="rule tiny has 0 outputs 'second'"):
        job(tmp_path, FIRST).write({SECOND: [{"n": 1}]})
