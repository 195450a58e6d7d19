"""Tables are written whole or not at all, checked both ways, and are a function of their content."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from overlayccl_core.tables.atomic import write_bytes
from overlayccl_core.tables.rows import TableError
from overlayccl_core.tables.table import Table, flag, integer, number, numbers, read, text, texts, write

KINDS = Table(
    name="kinds",
    version=1,
    columns=(
        text("name"),
        number("time_us", nullable=True),
        integer("count"),
        flag("good"),
        numbers("samples_us"),
        text("status", values=("fitted", "zero")),
        texts("marks", values=("a", "b")),
    ),
)
GOOD: dict[str, Any] = {
    "name": "a",
    "time_us": None,
    "count": 1,
    "good": True,
    "samples_us": [1.0, 2],
    "status": "zero",
    "marks": ["a"],
}


def test_what_is_written_is_read_from_rows_and_frames(tmp_path: Path) -> None:
    rows = [GOOD, {**GOOD, "time_us": np.float64(2), "count": np.int64(3), "good": np.bool_(False)}]
    written = write(KINDS, rows, tmp_path / "rows.parquet")
    write(KINDS, written.select(sorted(written.columns)), tmp_path / "frame.parquet")
    files = [(tmp_path / f"{name}.parquet").read_bytes() for name in ("rows", "frame")]
    assert files[0] == files[1]
    assert read(KINDS, tmp_path / "rows.parquet").equals(written)
    assert written["time_us"].to_list() == [None, 2.0]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["frame.parquet", "rows.parquet"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": 1.5}, "row 0, column count: "),
        ({"count": True}, "must be Int64"),
        ({"count": None}, "count is null in row 0"),
        ({"name": 3}, "must be String"),
        ({"good": 1}, "must be Boolean"),
        ({"time_us": "3"}, "must be Float64"),
        ({"time_us": float("nan")}, "NaN"),
        ({"samples_us": [1.0, float("nan")]}, "NaN"),
        ({"samples_us": [1.0, None]}, "list with a null"),
        ({"samples_us": 3.0}, "must be a list"),
        ({"status": "odd"}, "none of fitted, zero"),
        ({"marks": ["a", "odd"]}, "none of a, b"),
        ({"extra": 1}, "unknown: ['extra']"),
    ],
)
def test_rows_that_break_the_schema_are_refused_and_nothing_is_written(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "kinds.parquet"
    write(KINDS, [GOOD], path)
    before = path.read_bytes()
    with pytest.raises(TableError) as error:
        write(KINDS, [{**GOOD, **change}], path)
    assert message in str(error.value)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["kinds.parquet"]


def test_missing_columns_and_too_few_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"missing: \['count'\]"):
        write(KINDS, [{k: v for k, v in GOOD.items() if k != "count"}], tmp_path / "t.parquet")
    with pytest.raises(TableError, match="0 rows where at least 1"):
        write(KINDS, [], tmp_path / "t.parquet")
    with pytest.raises(TableError, match="time_us must be Float64"):
        write(
            KINDS, pl.DataFrame({**{k: [v] for k, v in GOOD.items()}, "count": ["x"]}), tmp_path / "t.parquet"
        )


def damaged(kind: str, data: bytes) -> bytes:
    middle = len(data) // 3
    return {
        "empty": b"",
        "truncated": data[: len(data) // 2],
        "not parquet": b"a,b\n1,2\n" * 40,
        "scrambled": data[:middle] + bytes(255 - b for b in data[middle:-4]) + data[-4:],
    }[kind]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("empty", "empty"),
        ("truncated", "truncated"),
        ("not parquet", "not Parquet"),
        ("scrambled", "damaged"),
    ],
)
def test_damaged_files_are_refused_with_the_command_that_makes_them_again(
    kind: str, told: str, tmp_path: Path
) -> None:
    path = tmp_path / "kinds.parquet"
    write(KINDS, [GOOD] * 100, path)
    path.write_bytes(damaged(kind, path.read_bytes()))
    with pytest.raises(TableError) as error:
        read(KINDS, path)
    assert told in str(error.value)
    assert f"{path} --force" in str(error.value)


def test_files_of_another_schema_version_or_origin_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "kinds.parquet"
    write(KINDS, [GOOD], path)
    newer = Table(name="kinds", version=2, columns=KINDS.columns)
    with pytest.raises(TableError, match=r"version 2; .*version 1"):
        read(newer, path)
    other = Table(name="others", version=1, columns=KINDS.columns)
    with pytest.raises(TableError, match="found table 'kinds'"):
        read(other, path)
    same_name = Table(name="kinds", version=1, columns=KINDS.columns[:-1])
    with pytest.raises(TableError, match="where the schema has"):
        read(same_name, path)
    pl.DataFrame({"a": [1]}).write_parquet(path)
    with pytest.raises(TableError, match="OverlayCCL did not write"):
        read(KINDS, path)
    with pytest.raises(TableError, match="no such file"):
        read(KINDS, tmp_path / "nowhere.parquet")


def test_a_value_that_a_foreign_hand_put_in_is_refused_when_read(tmp_path: Path) -> None:
    path = tmp_path / "kinds.parquet"
    frame = write(KINDS, [GOOD], path)
    metadata = {"overlayccl.table": "kinds", "overlayccl.version": "1"}
    frame.with_columns(status=pl.lit("odd")).write_parquet(path, metadata=metadata)
    with pytest.raises(TableError, match="'odd'"):
        read(KINDS, path)


def test_metadata_holds_name_and_version_only(tmp_path: Path) -> None:
    path = tmp_path / "kinds.parquet"
    write(KINDS, [GOOD], path)
    metadata = pl.read_parquet_metadata(path)
    assert {k: v for k, v in metadata.items() if k != "ARROW:schema"} == {
        "overlayccl.table": "kinds",
        "overlayccl.version": "1",
    }


def test_units_of_columns_stand_in_their_names() -> None:
    names = ("time_us", "us", "sent_bytes", "rate_gbps", "time", "us_time")
    assert [number(name).unit for name in names] == ["us", "us", "bytes", "GB/s", "", ""]


def test_a_schema_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="is of strings"):
        integer("n", values=("a",))
    with pytest.raises(ValueError, match="different names"):
        Table(name="t", version=1, columns=(KINDS.columns[0], KINDS.columns[0]))


def test_interrupted_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.bin"
    write_bytes(path, b"old")

    def fail(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]
