"""A run's own preset: fields that a command put together, kept in the run's tree, where all others find them.

`config/config.yaml` has every other preset.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml

from overlayccl_core.configuration.fields import parsed

FILE = "preset.yaml"
DEFAULT = "default"
DIGITS = 8
_NAME = re.compile(r"[a-z][a-z0-9_-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPreset:
    """A preset to be kept.

    Attributes:
        name: For --preset; such as `calls`.
        fields: As under `presets` in config/config.yaml.
    """

    deployment: str
    name: str
    fields: Mapping[str, Any]

    @classmethod
    def told_apart(cls, deployment: str, kind: str, fields: Mapping[str, Any]) -> Self:
        """Return a preset whose name ends in a digest of its fields, such as `tune-tp_mlp-1a2b3c4d`."""
        return cls(deployment=deployment, name=f"{kind}-{_digest(fields)}", fields=fields)

    @property
    def path(self) -> Path:
        """Its file, below the repository's root."""
        return _path(self.deployment, self.name)

    @property
    def text(self) -> str:
        """The content of its file."""
        return f"# The preset of this tree: --preset {self.name}\n{yaml.safe_dump(dict(self.fields))}"


def is_of(tree: str, fields: Any) -> bool:
    """Return whether a tree is named after these fields, as that of a run's own preset is."""
    return tree.endswith(f"-{_digest(fields)}")


def is_name(name: object) -> bool:
    """Return whether a deployment or a preset can have a name: a folder gets it."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def tree_of(deployment: str, preset: str) -> str:
    """Return the folder below results/: the deployment's name, then the preset's unless it is the default."""
    return deployment if preset == DEFAULT else f"{deployment}-{preset}"


def kept(root: Path, deployment: object, preset: object) -> dict[str, Any]:
    """Return name -> fields of a run's own preset; empty if there is none. ValueError: its file is no YAML."""
    if not (is_name(deployment) and is_name(preset)):
        return {}
    path = root / _path(str(deployment), str(preset))
    if not path.is_file():
        return {}
    try:
        return {str(preset): parsed(path) or {}}
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _digest(fields: Any) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:DIGITS]


def _path(deployment: str, preset: str) -> Path:
    return Path("results", tree_of(deployment, preset), FILE)
