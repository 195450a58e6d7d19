"""Dataclasses as plain data for JSON, and back: strictly, so that a file of another form is refused."""

import json
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter

T = TypeVar("T")


def plain(value: object) -> Any:
    """Return a dataclass as plain data."""
    form: Any = type(value)
    return _form(form).dump_python(value, mode="json")


def rebuilt(form: type[T], text: str | bytes) -> T:
    """Return a value from its JSON text.

    Raises:
        ValueError: A field is missing, unknown or of another type; the message names it.
    """
    any_form: Any = form
    made: T = _form(any_form).validate_json(text, strict=True, extra="forbid")
    return made


def of_data(form: type[T], data: object) -> T:
    """Return a value from plain data. Raises as `rebuilt`."""
    return rebuilt(form, json.dumps(data))


@cache
def _form(form: Any) -> TypeAdapter[Any]:
    return TypeAdapter(form)
