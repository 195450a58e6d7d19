"""A Snakemake profile: its `config`, used like --config, and what Slurm's jobs ask for."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlayccl_core.configuration.fields import hint, parsed

FOLDER = Path("profiles")
FILE = "profile.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Settings of a profile.

    Attributes:
        overrides: Keys and values of its `config`.
        partition, account: For Slurm jobs; empty means the cluster's defaults.
        gres: Devices of each node for Slurm jobs (`gpu:8`); empty: none are asked for.
    """

    name: str
    overrides: Mapping[str, str]
    partition: str = ""
    account: str = ""
    gres: str = ""


def load(name: str, root: Path) -> Profile:
    """Return a profile of a repository. ValueError: file, field and mend."""
    file = root / FOLDER / name / FILE
    if not file.is_file():
        known = sorted(path.parent.name for path in (root / FOLDER).glob(f"*/{FILE}"))
        raise ValueError(f"no profile {name!r}: {file} does not exist: {hint(name, known or ['none'])}")
    return read(file, name)


def read(file: Path, name: str) -> Profile:
    """Return the profile in a file. ValueError: file, field and mend."""
    try:
        return _profile(name, parsed(file))
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def _profile(name: str, data: Any) -> Profile:
    if not isinstance(data, Mapping):
        raise ValueError(f"must be a mapping of Snakemake's options (got {type(data).__name__})")
    resources = data.get("default-resources") or {}
    if not isinstance(resources, Mapping):
        raise ValueError("default-resources: must be a mapping, such as {slurm_partition: NAME}")
    return Profile(
        name=name,
        overrides=_overrides(data.get("config", [])),
        partition=str(resources.get("slurm_partition", "")),
        account=str(resources.get("slurm_account", "")),
        gres=str(resources.get("gres", "")),
    )


def _overrides(config: Any) -> dict[str, str]:
    if isinstance(config, Mapping):
        return {str(key): str(value) for key, value in config.items()}
    if not isinstance(config, list) or not all(isinstance(item, str) and "=" in item for item in config):
        raise ValueError(f"config: must be a list of key=value, such as [deployment=local] (got {config!r})")
    return {key.strip(): value.strip() for key, _, value in (item.partition("=") for item in config)}
