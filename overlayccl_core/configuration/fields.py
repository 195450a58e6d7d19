"""Configuration fields: declared once as a class, read from YAML, checked, and refused in one line.

A class of fields derives from `Fields`. Each field has a type, bounds and a description (units, meaning); errors
repeat the description. Nothing is coerced: neither "4" nor true is a 4. An int may stand for a float, and a list
becomes a tuple.
"""

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from copy import copy, deepcopy
from functools import cache, reduce
from operator import or_
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Self, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo

Count = Annotated[int, Field(ge=1)]
T = TypeVar("T")
F = TypeVar("F", bound="Fields")
_SHOWN = 60  # characters of a wrong value


class Fields(BaseModel):
    """Base of all classes of fields. Values are frozen; an undeclared field is refused.

    `validation_alias` gives a field's name in files if it differs from the name in Python.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        validate_by_name=True,
        validate_by_alias=True,
    )

    @classmethod
    def from_data(cls, data: object, **given: Any) -> Self:
        """Return the object described by plain data of a file.

        Args:
            data: Mapping of the fields in the file.
            given: Fields from elsewhere; the file may not have them.

        Raises:
            ValueError: Names field, rule, value and mend.
        """
        if not isinstance(data, Mapping):
            raise ValueError(f"must be a mapping of fields (got {_shown(data)})")
        own = cls.class_of(data)
        allowed = [name for name in declared(own) if name not in given]
        for name in data:
            if name not in allowed:
                raise ValueError(f"{name}: there is no such field: {hint(name, allowed)}")
        return own._checked(json.dumps({**data, **given}, default=str))

    def to_json(self) -> str:
        """Return one line of JSON with sorted keys: equal objects give equal text."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the object written by `to_json`. ValueError: field, rule, value and mend."""
        return cls.class_of(json.loads(text))._checked(text)

    @classmethod
    def class_of(cls, data: Mapping[str, Any]) -> type[Self]:
        """Return the class of an object: this one, or that of the plug-in named in the data (`chosen`)."""
        return cls

    @classmethod
    def _checked(cls, text: str) -> Self:
        try:  # strict JSON still takes lists for tuples and words for enums
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise ValueError(_said(cls, error)) from None

    def changed(self, **fields: Any) -> Self:
        """Return a copy with some fields changed, all checked again."""
        return type(self)(**{**dict(self), **fields})


class OfTensors(Fields):
    """A Problem's entry with `sizes`, or instead `model` (a workload) and the fields that determine its sizes."""

    sizes: tuple[Count, ...] = Field(
        default=(),
        description="elements of each tensor; or `model` (a workload) and what its sizes follow from",
    )


def declared(cls: type[Fields]) -> dict[str, FieldInfo]:
    """Return the fields of a class under their names in a file."""
    return {str(info.validation_alias or name): info for name, info in cls.model_fields.items()}


def chosen(cls: type[F], data: Mapping[str, Any], field: str, class_of: Callable[[str], type[F]]) -> type[F]:
    """Return the class of the plug-in named in a field of the data. ValueError: the field and the mend."""
    name = data.get(field)
    if not isinstance(name, str):
        got = f" (got {name!r})" if field in data else ""
        raise ValueError(f"{field}: must be there{got}: {cls.model_fields[field].description}")
    try:
        return class_of(name)
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from None


def partial(name: str, cls: type[Fields], *, only: Iterable[str] = (), deep: bool = False) -> type[Fields]:
    """Return a class with the same fields (or only some), all optional.

    Args:
        name: Name of the new class.
        cls: Class of fields.
        only: Names of the fields to keep; empty keeps all.
        deep: Make the fields of nested classes of fields optional, too. Validators of several fields are dropped.
    """
    fields: dict[str, Any] = {}
    for field in only or cls.model_fields:
        left_out = copy(cls.model_fields[field])
        left_out.default, left_out.default_factory = None, None
        kind: Any = left_out.annotation
        if deep and is_fields(kind):
            kind = partial(f"{name}{kind.__name__}", kind)
        fields[field] = (kind, left_out)
    return create_model(name, __base__=Fields, **fields)


def schema(*classes: type[Fields], given: Iterable[str] = ("name",)) -> dict[str, Any]:
    """Return the JSON schema for files of any of these classes, for editors; given: fields outside the file."""
    any_of: Any = reduce(or_, classes)
    whole: dict[str, Any] = _plain(TypeAdapter(any_of).json_schema())
    for file in [whole["$defs"][of["$ref"].split("/")[-1]] for of in whole.get("anyOf", ())] or [whole]:
        file["properties"] = {k: v for k, v in file["properties"].items() if k not in given}
        file["required"] = [name for name in file["required"] if name not in given]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **whole}


def _plain(part: Any) -> Any:
    """Drop titles, which repeat names, and null defaults of optional fields."""
    if isinstance(part, list):
        return [_plain(item) for item in part]
    if not isinstance(part, dict):
        return part
    noise = {
        k for k, v in part.items() if (k == "title" and isinstance(v, str)) or (k == "default" and v is None)
    }
    return {k: _plain(v) for k, v in part.items() if k not in noise}


def described(cls: type[Fields]) -> str:
    """Return the fields of a class and their meanings, in one line."""
    return "; ".join(f"{name}: {info.description}" for name, info in declared(cls).items())


def unique(items: tuple[T, ...]) -> tuple[T, ...]:
    """Validate: no item stands twice."""
    if len(set(items)) < len(items):
        raise ValueError(f"items must differ (got {_shown(list(items))})")
    return items


def read(
    what: str, path: Path, cls: type[F], *, data_of: Callable[[Path], Any] | None = None, **given: Any
) -> F:
    """Return the object described by a YAML file.

    Args:
        what: Word for such a file (`search`), for messages.
        data_of: Reads the fields of a file, if they are more than its text.
        given: Fields outside the file (its name).

    Raises:
        ValueError: Names file, field, rule, value and mend.
    """
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml"))) or "none"
        raise ValueError(f"no {what} {path.stem!r}: {path} does not exist; there are: {known}")
    try:
        return cls.from_data((data_of or parsed)(path), **given)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def parsed(path: Path) -> Any:
    """Return the content of a YAML file. ValueError if it is no YAML, or has a field twice."""
    try:
        return deepcopy(_loaded(path.read_text()))
    except yaml.YAMLError as error:
        raise ValueError(f"not readable as YAML: {' '.join(str(error).split())}") from None


@cache
def _loaded(text: str) -> Any:
    """Parse YAML text, cached: one run reads the same files many times."""
    return yaml.load(text, Loader=_EachFieldOnce)


class _EachFieldOnce(yaml.SafeLoader):
    """A YAML loader that refuses two equal fields; SafeLoader would silently keep the second."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: dict[Any, int] = {}
        for key, _ in node.value:
            name, line = self.construct_object(key, deep=deep), key.start_mark.line + 1
            if name != "<<" and seen.setdefault(name, line) != line:
                raise ValueError(
                    f"line {line}: {name} stands in line {seen[name]}, too, and only one of them would count: "
                    "put what is in both under one"
                )
        return super().construct_mapping(node, deep)


def hint(word: object, known: Iterable[str]) -> str:
    """Suggest the nearest of the known names, or list all."""
    names = list(known)
    close = difflib.get_close_matches(str(word), names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"choose among {', '.join(names)}"


def _said(cls: type[Fields], error: ValidationError) -> str:
    """Tell one mistake in one line, an unknown field first: a missing one is often the same field, misspelt."""
    first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    loc = first["loc"]
    where, mend = ".".join(map(str, loc)), _place(cls, loc)[1]
    if first["type"] == "extra_forbidden":
        rule, mend = f"there is no such field: {hint(loc[-1], declared(_place(cls, loc[:-1])[0]))}", None
    elif first["type"] == "missing":
        rule = "must be there"
    elif first["type"] == "value_error":
        rule = str(first["ctx"]["error"])
    else:
        rule = f"{first['msg']} (got {_shown(first['input'])})"
    return ": ".join(part for part in (where, rule, mend) if part)


def _shown(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _place(cls: type[Fields], loc: Iterable[int | str]) -> tuple[Any, str | None]:
    """Return (type at a place, description of the innermost declared field on the way there)."""
    kind: Any = cls
    meant: str | None = None
    for part in loc:
        if is_fields(kind):
            info = declared(kind).get(str(part))
            kind, meant = (info.annotation, info.description or meant) if info else (None, meant)
        else:  # a mapping's value, or a list's item
            arguments = get_args(kind) or (None,)
            kind = arguments[0 if isinstance(part, int) else -1]
        kind = _bare(kind)
    return kind, meant


def _bare(annotation: Any) -> Any:
    """Strip a type of Annotated and of `| None`."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    others = [kind for kind in get_args(annotation) if kind is not type(None)]
    return _bare(others[0]) if get_origin(annotation) is UnionType and len(others) == 1 else annotation


def is_fields(kind: Any) -> bool:
    """Return whether a type is a class of fields."""
    return isinstance(kind, type) and issubclass(kind, Fields)
