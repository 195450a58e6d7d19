"""Reading one configuration entry of a Case: every field is checked, every message names it and the mend."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

_BYTES = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB)")
_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class Entry:
    """The fields that a Case is made of. Errors are ValueErrors that begin with the Problem's name."""

    def __init__(self, problem: str, fields: Mapping[str, Any], *, known: Iterable[str]) -> None:
        self.problem = problem
        self._fields = fields
        unknown = sorted(set(fields) - set(known))
        if unknown:
            raise self.error(f"there is no field {unknown[0]!r} of a Case: choose among {', '.join(known)}")

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def error(self, message: str) -> ValueError:
        """A ValueError that names the Problem."""
        return ValueError(f"{self.problem}: {message}")

    def value(self, name: str) -> Any:
        """A field that must be there."""
        if name not in self._fields:
            raise self.error(f"a Case needs {name!r} (got {', '.join(self._fields) or 'nothing'}): add it")
        return self._fields[name]

    def count(self, name: str, default: int | None = None) -> int:
        """A positive integer."""
        found = self._fields.get(name, default) if default is not None else self.value(name)
        return self._positive(name, found)

    def counts(self, name: str) -> tuple[int, ...]:
        """Some positive integers."""
        found = self.value(name)
        if not isinstance(found, list | tuple) or not found:
            raise self.error(f"{name} must be a list of positive integers (got {found!r})")
        return tuple(self._positive(name, n) for n in found)

    def payload_bytes(self, name: str) -> int:
        """A size: an integer of bytes, or a text such as 64KiB."""
        return size_bytes(self.value(name), f"{self.problem}: {name}")

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of some words; the first one if the field is not there."""
        found = self._fields.get(name, choices[0])
        if found not in choices:
            raise self.error(f"{name} must be one of {', '.join(choices)} (got {found!r})")
        return str(found)

    def flag(self, name: str) -> bool:
        """true or false (the default)."""
        found = self._fields.get(name, False)
        if not isinstance(found, bool):
            raise self.error(f"{name} must be true or false (got {found!r})")
        return found

    def _positive(self, name: str, found: Any) -> int:
        if isinstance(found, bool) or not isinstance(found, int) or found < 1:
            raise self.error(f"{name} must be a positive integer (got {found!r})")
        return found


def size_bytes(value: Any, what: str) -> int:
    """65536 or "64KiB" as a number of bytes; ValueError for anything else."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    match = _BYTES.fullmatch(value) if isinstance(value, str) else None
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{what} must be a size such as 64KiB, 2MiB or a number of bytes (got {value!r})")
    return int(match[1]) * _UNITS[match[2]]
