"""Byte sizes as text in binary units: parsing and printing."""

import re
from fractions import Fraction
from typing import Annotated

from pydantic import BeforeValidator, Field

KIB, MIB, GIB = 2**10, 2**20, 2**30
UNITS = {"GiB": GIB, "MiB": MIB, "KiB": KIB, "B": 1}
_PATTERN = rf"(\d+(?:\.\d+)?) ?({'|'.join(UNITS)})"
_SIZE = re.compile(_PATTERN)


def in_bytes(size: object) -> int:
    """Parse a number of bytes: 65536, `64KiB`, `0.5 MiB`. ValueError for anything else, and below one byte."""
    if isinstance(size, int) and not isinstance(size, bool) and size > 0:
        return size
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    size_bytes = Fraction(match[1]) * UNITS[match[2]] if match else Fraction(0)
    if size_bytes < 1 or size_bytes.denominator > 1:
        raise ValueError(f"must be a size such as 64KiB, 1.5MiB or a whole number of bytes (got {size!r})")
    return int(size_bytes)


def bytes_text(size: int) -> str:
    """Return 32KiB, 1.5MiB, 100B: binary units, at most one decimal."""
    for unit, step in UNITS.items():
        if size >= step > 1:
            return f"{size / step:.1f}".removesuffix(".0") + unit
    return f"{size}B"


_WRITTEN = {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": f"^{_PATTERN}$"}]}
Bytes = Annotated[int, BeforeValidator(in_bytes), Field(json_schema_extra=_WRITTEN)]
