"""Files of the configuration that are found by their name: read and checked against a schema."""

from pathlib import Path
from typing import Any

import jsonschema
import yaml


def read(kind: str, name: str, folder: Path, schema: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
    """(file, fields) of `folder/name.yaml`. ValueError: file, field and mend; `kind` is the word for what it is."""
    path = folder / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in folder.glob("*.yaml"))) or "none"
        raise ValueError(f"no {kind} {name!r}: {path} does not exist; there are: {known}")
    try:
        data = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: not readable as YAML: {' '.join(str(error).split())}") from None
    errors = jsonschema.Draft202012Validator(schema).iter_errors(data)
    first = min(errors, key=lambda error: [str(part) for part in error.absolute_path], default=None)
    if first is not None:
        where = ".".join(str(part) for part in first.absolute_path)
        raise ValueError(f"{path}: {where + ': ' if where else ''}{first.message}")
    return path, data
