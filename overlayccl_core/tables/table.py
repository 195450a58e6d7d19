"""Parquet tables with a declared schema: checked when written, checked when read."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow
from pyarrow import parquet

from overlayccl_core.tables.atomic import write_bytes
from overlayccl_core.tables.remake import remake
from overlayccl_core.tables.rows import TableError, columns_of, frame_of

UNIT_OF_SUFFIX = {"us": "us", "bytes": "bytes", "gbps": "GB/s"}
NAME_KEY = "overlayccl.table"
VERSION_KEY = "overlayccl.version"
MAGIC = b"PAR1"
Rows = Sequence[Mapping[str, Any]] | pl.DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its type, whether it may be null, and (closed sets) its possible values."""

    name: str
    dtype: pl.DataType
    nullable: bool = False
    doc: str = ""
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.values and self.dtype not in (pl.String(), pl.List(pl.String())):
            raise ValueError(f"column {self.name}: a closed set of values is of strings (got {self.dtype})")

    @property
    def unit(self) -> str:
        """Its unit, by the end of its name; empty without one."""
        return UNIT_OF_SUFFIX.get(self.name.rpartition("_")[2], "")


def _of(dtype: pl.DataType) -> Callable[..., Column]:
    """Return the declaration of a column of a type: `text("arm", nullable=True, doc="...")`."""

    def column(name: str, *, nullable: bool = False, doc: str = "", values: tuple[str, ...] = ()) -> Column:
        return Column(name=name, dtype=dtype, nullable=nullable, doc=doc, values=values)

    return column


text, texts = _of(pl.String()), _of(pl.List(pl.String()))
integer, integers = _of(pl.Int64()), _of(pl.List(pl.Int64()))
number, numbers = _of(pl.Float64()), _of(pl.List(pl.Float64()))
flag = _of(pl.Boolean())


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table's schema. `version` goes up when a column is added, dropped or changes its meaning.

    Attributes:
        row: What one row is, in words.
        folder: Below results/<deployment>/; brackets mark an optional part.
        rule: The rule that writes it.
    """

    name: str
    version: int
    columns: tuple[Column, ...]
    minimum_rows: int = 1
    row: str = ""
    folder: str = ""
    rule: str = ""

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names):
            raise ValueError(f"table {self.name}: columns must have different names (got {names})")

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """Types by column, in order."""
        return {column.name: column.dtype for column in self.columns}


def write(table: Table, rows: Rows, path: str | Path) -> pl.DataFrame:
    """Check `rows` against the schema, write them atomically to `path`, and return them as a frame.

    The bytes depend on the content alone: the file's metadata holds only the schema's name and version.

    Raises:
        TableError: Names table, column and row (a ValueError).
    """
    frame = frame_of(rows, table.schema, f"table {table.name}")
    problem = _broken_rule(table, frame)
    if problem:
        raise TableError(f"table {table.name}: {problem}; nothing was written to {path}")
    buffer = io.BytesIO()
    named = frame.to_arrow().replace_schema_metadata({NAME_KEY: table.name, VERSION_KEY: str(table.version)})
    parquet.write_table(named, buffer, compression="zstd")
    write_bytes(Path(path), buffer.getvalue())
    return frame


def read(table: Table, path: str | Path) -> pl.DataFrame:
    """Return the table at `path`. TableError: what is there instead, and the command to make the file again."""
    file = Path(path)
    if not file.is_file():
        raise TableError(f"{file}: there is no such file; make it: {remake(file)}")
    data = file.read_bytes()
    wrong = _foreign(table, data)
    if not wrong:
        try:
            frame = pl.read_parquet(io.BytesIO(data))
        except (pl.exceptions.PolarsError, OSError) as error:
            wrong = f"a damaged Parquet file ({str(error).splitlines()[0]})"
        else:
            wrong = _broken_rule(table, frame)
    if wrong:
        again = f"{table.rule} -- COMMAND" if table.rule.startswith("overlayccl ") else remake(file)
        raise TableError(
            f"{file}: expected table {table.name!r}, version {table.version}; found {wrong}. "
            f"Make it again: {again}"
        )
    return frame


def _foreign(table: Table, data: bytes) -> str:
    if not data:
        return "an empty file"
    if not data.startswith(MAGIC):
        return "a file that is not Parquet"
    if len(data) < 12 or not data.endswith(MAGIC):
        return f"a truncated Parquet file of {len(data)} bytes"
    try:
        metadata = parquet.read_metadata(io.BytesIO(data)).metadata or {}
    except (pyarrow.ArrowException, OSError) as error:
        return f"a damaged Parquet file ({str(error).splitlines()[0]})"
    name, version = (metadata.get(key.encode(), b"").decode() for key in (NAME_KEY, VERSION_KEY))
    if not name:
        return "a Parquet file that OverlayCCL did not write"
    if name != table.name:
        return f"table {name!r}"
    if version != str(table.version):
        return f"its version {version}, of another release of OverlayCCL (that one reads it)"
    return ""


def _broken_rule(table: Table, frame: pl.DataFrame) -> str:
    """Return the first broken rule of the schema as a clause; empty if there is none."""
    if dict(frame.schema) != table.schema:
        return f"columns {columns_of(dict(frame.schema))} where the schema has {columns_of(table.schema)}"
    if frame.height < table.minimum_rows:
        return f"{frame.height} rows where at least {table.minimum_rows} are due"
    for column in table.columns:
        problem = _broken_column(column, frame[column.name])
        if problem:
            return f"column {column.name} {problem}"
    return ""


def _broken_column(column: Column, values: pl.Series) -> str:
    if values.null_count() and not column.nullable:
        row = values.is_null().arg_max()
        return f"is null in row {row} and may not be"
    flat = values.explode() if values.dtype == pl.List else values
    if values.dtype == pl.List and flat.null_count() > values.null_count() + (values.list.len() == 0).sum():
        return "holds a list with a null in it"
    if flat.dtype.is_float() and flat.is_nan().any():
        return "holds a NaN: what is unknown is null"
    if column.values:
        others = set(flat.drop_nulls().unique().to_list()) - set(column.values)
        if others:
            return f"holds {sorted(others)[0]!r}, which is none of {', '.join(column.values)}"
    return ""
