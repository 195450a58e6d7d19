"""A profile: where jobs run and what they may use, of Snakemake. Of its file only what commands of people need is
read here: the deployment, and where Slurm puts its jobs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlayccl_core.configuration.fields import hint, parsed

FOLDER = "profiles"
FILE = "profile.yaml"
DEFAULT = "default"  # Snakemake reads it beside every other


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """partition, account: of Slurm's jobs; empty: the cluster's default."""

    name: str
    deployment: str
    partition: str = ""
    account: str = ""


def load(root: Path, name: str) -> Profile:
    """The profile of a repository. ValueError: file, field and mend."""
    folder = root / FOLDER
    known = sorted(path.parent.name for path in folder.glob(f"*/{FILE}") if path.parent.name != DEFAULT)
    if name not in known:
        raise ValueError(f"no profile {name!r} in {folder}: {hint(name, known)}")
    file = folder / name / FILE
    data: Any = parsed(file)
    if not isinstance(data, Mapping):
        raise ValueError(f"{file}: must be a mapping of Snakemake's options")
    resources = data.get("default-resources") or {}
    if not isinstance(resources, Mapping):
        raise ValueError(f"{file}: default-resources: must be a mapping, such as {{slurm_partition: NAME}}")
    return Profile(
        name=name,
        deployment=_deployment(file, data.get("config")),
        partition=str(resources.get("slurm_partition", "")),
        account=str(resources.get("slurm_account", "")),
    )


def _deployment(file: Path, config: Any) -> str:
    """Of `config: [deployment=NAME]`, the one thing that a profile says of the configuration."""
    given = [str(one).partition("=") for one in config] if isinstance(config, list) else []
    named = [value for key, _, value in given if key == "deployment"]
    if len(named) != 1 or not named[0]:
        raise ValueError(f"{file}: config: must be [deployment=NAME], a file in config/deployments")
    return named[0]
