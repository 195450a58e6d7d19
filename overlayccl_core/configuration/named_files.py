"""Files of the configuration that are found by their name: read and checked against a schema."""

import difflib
from pathlib import Path
from typing import Any

import jsonschema
import yaml


def read(kind: str, path: Path, schema: dict[str, Any]) -> dict[str, Any]:
    """The fields of a YAML file. ValueError: file, field and mend; `kind` is the word for what it is.

    A field that the schema does not know is met with the nearest that it does; a value that is wrong, with the
    schema's description of the field, where it has one.
    """
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml"))) or "none"
        raise ValueError(f"no {kind} {path.stem!r}: {path} does not exist; there are: {known}")
    try:
        data = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: not readable as YAML: {' '.join(str(error).split())}") from None
    errors = jsonschema.Draft202012Validator(schema).iter_errors(data)
    first = min(errors, key=lambda error: [str(part) for part in error.absolute_path], default=None)
    if first is not None:
        raise ValueError(f"{path}: {_said(first)}")
    return data  # type: ignore[no-any-return]


def _said(error: jsonschema.ValidationError) -> str:
    field = ".".join(map(str, error.absolute_path))
    where = f"{field}: " if field else ""
    schema: Any = error.schema
    value: Any = error.instance
    if error.validator == "additionalProperties":
        allowed = list(schema["properties"])
        unknown = next(key for key in value if key not in allowed)
        close = difflib.get_close_matches(str(unknown), allowed, n=1)
        mend = f"did you mean {close[0]!r}?" if close else f"known fields are {', '.join(allowed)}"
        return f"{where}unknown field {unknown!r}: {mend}"
    meant = schema.get("description") if field else None
    return f"{where}{error.message}" + (f" ({meant})" if meant else "")
