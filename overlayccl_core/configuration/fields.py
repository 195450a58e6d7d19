"""Fields that people write: declared once as a class, read from YAML, checked, and refused in one line.

A class of fields derives from `Fields`; each field has its type, its bounds and a description (units, meaning),
which is said again where a value is wrong. Nothing is coerced: neither "4" nor true is a 4. An int may stand for a
float, and a list becomes a tuple.
"""

import difflib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

T = TypeVar("T", bound="Fields")
_SHOWN = 60  # characters of a wrong value


class Fields(BaseModel):
    """Base of all classes of fields. Values are frozen; a field that is not declared is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def from_data(cls, data: object, **given: Any) -> Self:
        """The object that plain data (of YAML or JSON) describes. ValueError: field, rule, value and mend.

        given: fields that do not stand in the data, and may not.
        """
        if not isinstance(data, Mapping):
            raise ValueError(f"must be a mapping of fields (got {_shown(data)})")
        allowed = [name for name in cls.model_fields if name not in given]
        for name in data:
            if name not in allowed:
                raise ValueError(f"{name}: there is no such field: {hint(name, allowed)}")
        try:  # as JSON: there a list may be a tuple and a word an enum's, and all else stays strict
            return cls.model_validate_json(json.dumps({**data, **given}, default=str))
        except ValidationError as error:
            raise ValueError(_said(cls, error)) from None

    def to_json(self) -> str:
        """One line with sorted keys: equal objects give equal text."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The object that `to_json` wrote."""
        return cls.from_data(json.loads(text))


def read(what: str, path: Path, cls: type[T], **given: Any) -> T:
    """The object that a YAML file describes. ValueError: file, field, rule, value and mend.

    what: the word for such a file (`search`). given: fields that do not stand in the file (its name).
    """
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml"))) or "none"
        raise ValueError(f"no {what} {path.stem!r}: {path} does not exist; there are: {known}")
    try:
        return cls.from_data(parsed(path), **given)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def parsed(path: Path) -> Any:
    """What a YAML file holds. ValueError if it is no YAML."""
    try:
        return yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise ValueError(f"not readable as YAML: {' '.join(str(error).split())}") from None


def hint(word: object, known: Iterable[str]) -> str:
    """The nearest of the known names, or all of them."""
    names = list(known)
    close = difflib.get_close_matches(str(word), names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"choose among {', '.join(names)}"


def _said(cls: type[Fields], error: ValidationError) -> str:
    """One mistake in one line. An unknown field goes first: a missing one is often the same field, misspelt."""
    first = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
    *above, last = loc = first["loc"] or ("",)
    where = ".".join(map(str, loc))
    if first["type"] == "extra_forbidden":
        return f"{where}: there is no such field: {hint(last, _names(_at(cls, above)))}"
    if first["type"] == "value_error":
        text = str(first["ctx"]["error"])
        return f"{where}: {text}" if where else text
    meant = _description(cls, loc)
    mend = f": {meant}" if meant else ""
    if first["type"] == "missing":
        return f"{where}: must be there{mend}"
    subject, rule = first["msg"].split(" should ", 1) if " should " in first["msg"] else ("", first["msg"])
    return f"{where}: {'must ' if subject else ''}{rule} (got {_shown(first['input'])}){mend}"


def _shown(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _names(annotation: Any) -> tuple[str, ...]:
    found = _bare(annotation)
    return tuple(found.model_fields) if _is_fields(found) else ()


def _description(cls: type[Fields], loc: Iterable[int | str]) -> str | None:
    """What the innermost declared field on the way means."""
    found, annotation = None, cls
    for part in loc:
        bare = _bare(annotation)
        if _is_fields(bare) and part in bare.model_fields:
            found = bare.model_fields[str(part)].description or found
        annotation = _step(annotation, part)
    return found


def _at(annotation: Any, loc: Iterable[int | str]) -> Any:
    for part in loc:
        annotation = _step(annotation, part)
    return annotation


def _step(annotation: Any, part: int | str) -> Any:
    """The type of a field, of a mapping's values or of a list's items."""
    found = _bare(annotation)
    if _is_fields(found):
        return found.model_fields[str(part)].annotation if part in found.model_fields else None
    arguments = get_args(found)
    if not arguments:
        return None
    return arguments[0] if isinstance(part, int) else arguments[-1]


def _bare(annotation: Any) -> Any:
    """A type without what Annotated adds."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _is_fields(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, Fields)
