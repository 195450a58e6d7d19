"""A table that was changed after it was made is refused."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from overlayccl_core.tables.sidecar import check_unchanged


def test_a_changed_table_is_named_with_the_command_that_makes_it_again(tmp_path: Path) -> None:
    table = tmp_path / "bench.parquet"
    table.write_bytes(b"samples")
    check_unchanged(table)  # no sidecar, nothing to compare with
    record = {"sha256": sha256(b"samples").hexdigest()}
    (tmp_path / "bench.sidecar.json").write_text(json.dumps(record))
    check_unchanged(table)
    table.write_bytes(b"better samples")
    with pytest.raises(ValueError, match=r"bench\.parquet.*snakemake"):
        check_unchanged(table)
