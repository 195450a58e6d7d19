"""Gradients as people list them: names, sizes and ready times, read from a file.

Accepted: .json, .csv (with a header), .parquet, and anything else as text of two words a line.
"""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, prod
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.configuration.sizes import in_bytes
from overlayccl_core.program.kinds import DType

Row = dict[str, Any]
EITHER = "shape or bytes"  # the value in a file without columns; its form tells the two apart
ACCEPTED = (
    "accepted are .json ({name: [rows, columns]} or {name: bytes}), .csv and .parquet (columns tensor, and "
    "shape or bytes, and ready_ms if known), and text with a name and a shape or a size on each line "
    "(head 256x128, scale (), or head 128KiB)"
)
ACCEPTED_READY = (
    "accepted are .json ({name: ms}), .csv and .parquet (columns tensor and ready_ms), and text with a name "
    "and a time in ms on each line"
)
_BETWEEN = r"(?:\s*[x*,]\s*|\s+)"  # axes
_SHAPE = re.compile(
    rf"(?:torch\.Size)?\(?\s*[\[(]\s*(?:\d+(?:{_BETWEEN}\d+)*\s*,?)?\s*[\])]\s*\)?|\d+(?:{_BETWEEN}\d+)+"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradient:
    """One tensor's gradient on a rank. ready_us: since the backward pass began."""

    name: str
    bytes: int
    ready_us: float

    def __post_init__(self) -> None:
        if self.bytes < 1:
            raise ValueError(f"gradient {self.name}: needs at least one byte (got {self.bytes})")
        if not (isfinite(self.ready_us) and self.ready_us >= 0):
            raise ValueError(f"gradient {self.name}: ready_ms must be a time from 0 on (got {self.ready_us})")


def in_order_of_readiness(sizes: Mapping[str, int], ready_us: Mapping[str, float]) -> tuple[Gradient, ...]:
    """Sort gradients by readiness; those ready at once go in the reverse of the order of `sizes`.

    Args:
        sizes: Bytes by name, in the order of the forward pass; a tensor of no bytes has no gradient.

    Raises:
        ValueError: The names differ.
    """
    for missing, where in (
        (sizes.keys() - ready_us.keys(), "ready times"),
        (ready_us.keys() - sizes, "sizes"),
    ):
        if missing:
            names = ", ".join(sorted(missing)[:3]) + (", ..." if len(missing) > 3 else "")
            raise ValueError(
                f"the {where} hold nothing for {len(missing)} tensors ({names}): name all in both"
            )
    gradients = [
        Gradient(name=name, bytes=sizes[name], ready_us=ready_us[name])
        for name in reversed(list(sizes))
        if sizes[name]
    ]
    return tuple(sorted(gradients, key=lambda g: g.ready_us))


def spread_by_bytes(sizes: Mapping[str, int], backward_us: float) -> dict[str, float]:
    """Return [name] -> ready time: last tensor first, each after its share by bytes of the backward pass.

    The work of a matrix is proportional to its elements, so this is a transformer's backward pass except
    attention.

    Raises:
        ValueError: The pass takes no finite time above 0.
    """
    if not 0 < backward_us < float("inf"):
        raise ValueError(f"the backward pass must take a time above 0 (got {backward_us / 1e3:g} ms)")
    total, done = sum(sizes.values()), 0
    ready: dict[str, float] = {}
    for name in reversed(list(sizes)):
        done += sizes[name]
        ready[name] = backward_us * done / total
    return ready


def read_sizes(path: str | Path, dtype: DType) -> tuple[dict[str, int], dict[str, float] | None]:
    """Return (bytes by name in the order of the file, ready_us by name if the file has a column ready_ms).

    A scalar has one element; a tensor with an axis of 0 has none, and so 0 bytes.

    Args:
        dtype: Of the elements, for shapes.

    Raises:
        ValueError: The message has the file, the fault and the accepted forms.
    """
    file = Path(path)
    rows = _rows(file, EITHER, ACCEPTED)
    names = _names(file, rows, ACCEPTED)
    shapes = any(_is_shape(row.get(EITHER)) for row in rows)
    sizes = {name: _bytes(file, row, shapes, dtype) for name, row in zip(names, rows, strict=True)}
    if not any(sizes.values()):
        raise ValueError(f"{file}: none of its tensors has an element; {ACCEPTED}")
    timed = ["ready_ms" in row for row in rows]
    if not any(timed):
        return sizes, None
    return sizes, {
        name: _ready_us(file, name, row.get("ready_ms")) for name, row in zip(names, rows, strict=True)
    }


def read_ready(path: str | Path) -> dict[str, float]:
    """Return ready_us by name. ValueError: the file, the fault and the accepted forms."""
    file = Path(path)
    rows = _rows(file, "ready_ms", ACCEPTED_READY)
    names = _names(file, rows, ACCEPTED_READY)
    return {name: _ready_us(file, name, row.get("ready_ms")) for name, row in zip(names, rows, strict=True)}


def _rows(file: Path, wanted: str, accepted: str) -> list[Row]:
    """Return rows with `tensor` and other columns; a pair of name and value becomes tensor and `wanted`."""
    if not file.exists():
        raise ValueError(f"{file}: there is no such file; {accepted}")
    try:
        rows = _read(file, wanted)
    except (UnicodeDecodeError, json.JSONDecodeError, pl.exceptions.PolarsError, csv.Error, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{file}: not readable ({reason}); {accepted}") from None
    except _NotRows as error:
        raise ValueError(f"{file}: {error}; {accepted}") from None
    if not rows:
        raise ValueError(f"{file}: lists no tensor; {accepted}")
    return [{("tensor" if k == "name" else k): v for k, v in row.items()} for row in rows]


class _NotRows(Exception):
    """The content has another form."""


def _read(file: Path, wanted: str) -> list[Row]:
    match file.suffix.lower():
        case ".json":
            return _from_json(file, wanted)
        case ".csv":
            return _from_csv(file)
        case ".parquet":
            return pl.read_parquet(file).to_dicts()
        case _:
            return _from_text(file, wanted)


def _from_json(file: Path, wanted: str) -> list[Row]:
    data = json.loads(file.read_text(encoding="utf-8-sig"))
    if isinstance(data, dict):
        return [
            {"tensor": name, **(value if isinstance(value, dict) else {wanted: value})}
            for name, value in data.items()
        ]
    if isinstance(data, list) and all(isinstance(item, dict) for item in data):
        return data
    if isinstance(data, list) and all(isinstance(item, list) and len(item) == 2 for item in data):
        return [{"tensor": name, wanted: value} for name, value in data]
    raise _NotRows("is neither a mapping of names nor a list of rows")


def _from_csv(file: Path) -> list[Row]:
    reader = csv.DictReader(
        io.StringIO(file.read_text(encoding="utf-8-sig"), newline=""), skipinitialspace=True
    )
    columns = [c.strip() for c in reader.fieldnames or ()]
    if not {"tensor", "name"} & set(columns):
        raise _NotRows(f"has no column tensor (the first line is {', '.join(columns) or 'empty'})")
    reader.fieldnames = columns
    rows = []
    for row in reader:
        if None in row or None in row.values():
            raise _NotRows(
                f"line {reader.line_num} has not {len(columns)} fields (quote a shape with commas)"
            )
        rows.append({k: v.strip() for k, v in row.items()})
    return rows


def _from_text(file: Path, wanted: str) -> list[Row]:
    rows = []
    for number, line in enumerate(file.read_text(encoding="utf-8-sig").splitlines(), 1):
        words = line.partition("#")[0].split(maxsplit=1)
        if len(words) == 1:
            raise _NotRows(f"line {number} is not a name and a value (got {line.strip()!r})")
        if words:
            rows.append({"tensor": words[0].rstrip(":"), wanted: words[1].strip()})
    return rows


def _names(file: Path, rows: Sequence[Row], accepted: str) -> list[str]:
    names: dict[str, None] = {}
    for row in rows:
        name = row.get("tensor")
        if not isinstance(name, str) or not name:
            raise ValueError(f"{file}: every row needs a tensor's name (got {name!r}); {accepted}")
        if name in names:
            raise ValueError(f"{file}: names {name!r} twice: every tensor once")
        names[name] = None
    return list(names)


def _bytes(file: Path, row: Row, shapes: bool, dtype: DType) -> int:
    """Return the bytes of one row. shapes: the file has shapes, so a bare number may be meant as one."""
    name = row["tensor"]
    for column in (EITHER, "bytes", "shape"):
        size = row.get(column)
        if size is None or size == "":
            continue
        bare = _is_bare(size)
        if column == EITHER and bare and shapes:
            raise ValueError(
                f"{file}: {name}: {size} is a bare number among shapes: write [{size}] for a shape of one axis, "
                f"{size}B for bytes"
            )
        if column == "shape" or (column == EITHER and _is_shape(size)):
            return _elements(file, name, [size] if isinstance(size, int) else size) * dtype.bytes
        return _payload(file, name, int(size) if bare else size, dtype)
    raise ValueError(f"{file}: {name} has neither shape nor bytes; {ACCEPTED}")


def _is_shape(size: Any) -> bool:
    return isinstance(size, list) or (isinstance(size, str) and _SHAPE.fullmatch(size) is not None)


def _is_bare(size: Any) -> bool:
    return (isinstance(size, int) and not isinstance(size, bool)) or (
        isinstance(size, str) and size.isdigit()
    )


def _elements(file: Path, name: str, shape: Any) -> int:
    whole = isinstance(shape, list) or _is_shape(shape) or _is_bare(shape)
    axes = [int(n) for n in re.findall(r"\d+", shape)] if isinstance(shape, str) and whole else shape
    if not whole or not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in axes):
        raise ValueError(
            f"{file}: {name}: a shape is of whole numbers from 0 on, [] of a scalar (got {shape!r})"
        )
    return prod(axes)


def _payload(file: Path, name: str, size: Any, dtype: DType) -> int:
    if size == 0 and _is_bare(size):
        return 0
    try:
        size_in_bytes = in_bytes(size)
    except ValueError:
        raise ValueError(f"{file}: {name}: {size!r} is neither a shape nor a size; {ACCEPTED}") from None
    if size_in_bytes % dtype.bytes:
        raise ValueError(
            f"{file}: {name}: {size_in_bytes} bytes are no whole number of {dtype.value}: check --dtype"
        )
    return size_in_bytes


def _ready_us(file: Path, name: str, ready_ms: Any) -> float:
    try:
        ready_us = float("nan") if isinstance(ready_ms, bool) else 1e3 * float(ready_ms)
    except (TypeError, ValueError):
        ready_us = float("nan")
    if not (isfinite(ready_us) and ready_us >= 0):
        raise ValueError(
            f"{file}: {name}: ready_ms must be a time from 0 on (got {ready_ms!r}); {ACCEPTED_READY}"
        )
    return ready_us
