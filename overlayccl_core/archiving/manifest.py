"""`archive.json`: facts about a run that its archived files do not contain."""

import json
import shlex
import subprocess
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import AfterValidator, Field

from overlayccl_core.archiving import packing
from overlayccl_core.configuration.fields import Fields
from overlayccl_core.configuration.settings import MACHINE
from overlayccl_core.tables.remake import of_profile

NAME = "archive.json"


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"must be one line of printable text (got {text!r})")
    return text


Line = Annotated[str, AfterValidator(_one_line)]


class Manifest(Fields):
    """Facts about an archived run.

    Attributes:
        tree: Folder name below results/.
        command: Command that makes it.
        config: Configuration from the command line and the profile, on top of config/config.yaml.
        machine: Fingerprint of its measurements.
        commit: Git commit, or empty without git.
        clean: Whether nothing was changed since the commit.
        measuring: Rules with all nodes to themselves.
        nodes: Number of these nodes.
        version, snakemake: Versions of the packages.
        zstandard: Version of the compression library.
    """

    tree: str = Field(pattern=r"^[a-z][a-z0-9_-]*$")  # as in the Snakefile: a folder's name, not a path
    command: Line
    config: dict[str, Any]
    machine: Line
    commit: Line
    clean: bool
    measuring: tuple[Line, ...]
    nodes: int
    version: Line
    snakemake: Line
    zstandard: Line

    @classmethod
    def loads(cls, text: str | bytes) -> Self:
        """Parse a manifest. ValueError for a missing, unknown or malformed field."""
        try:
            return cls.from_data(json.loads(text))
        except ValueError as error:
            raise ValueError(f"{NAME} is not of this release: {error}") from None

    @property
    def profile(self) -> str:
        """The profile in its command. ValueError if there is none."""
        words = shlex.split(self.command)
        if len(words) < 3 or words[:2] != ["snakemake", "--profile"]:
            raise ValueError(f"{NAME}: its command names no profile")
        return words[2]

    def dumps(self) -> bytes:
        """Return the JSON text with sorted keys."""
        return (json.dumps(self.model_dump(mode="json"), indent=1, sort_keys=True) + "\n").encode()


def configured(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return an archive's `config`: all overrides except `machine=here`, meant for that day only."""
    return {key: value for key, value in overrides.items() if key != MACHINE}


def command_of(profile: str, config: Mapping[str, Any], root: Path) -> str:
    """Return the command for a whole run, as typed in the folder `root`, without settings of the profile."""
    usual = of_profile(root, profile)
    given = ((key, _typed(value)) for key, value in sorted(config.items()))
    named = [f"{key}={text}" for key, text in given if usual.get(key) != text]
    return shlex.join(["snakemake", "--profile", profile, "all", *(["--config", *named] if named else [])])


def _typed(value: Any) -> str:
    """Return a value in the form that --config parses back: YAML, after stripping quotes at both ends."""
    if value is None:
        return ""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and not _is_plain(value):
        return f" {json.dumps(value, ensure_ascii=False)} "
    return str(value)


def _is_plain(value: str) -> bool:
    try:
        return bool(value.strip("'\"") == value == yaml.load(value, Loader=yaml.BaseLoader))
    except yaml.YAMLError:
        return False


def versions() -> dict[str, Any]:
    """Return the versions of the packages named in an archive."""
    return {
        "version": metadata.version("overlayccl"),
        "snakemake": metadata.version("snakemake"),
        "zstandard": packing.ZSTANDARD,
    }


def commit_of(root: Path, tell: Callable[[str], None] = lambda why: None) -> tuple[str, bool]:
    """Return a folder's commit and whether nothing was changed since; ("", False) without an answer of git.

    A folder of another user (seen by a container's root) is read all the same: the caller runs its Snakefile, too.

    Args:
        tell: Receives the reason if git does not answer.
    """
    git = ["git", "-C", str(root), "-c", f"safe.directory={root.resolve()}"]
    try:
        commit, changed = (
            subprocess.run([*git, *words], capture_output=True, text=True, check=False)
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain"])
        )
        said = commit.stderr if commit.returncode else changed.stderr if changed.returncode else None
    except OSError as error:
        said = str(error)
    if said is not None:
        tell(f"{NAME} names no commit, as git does not tell it: {' '.join(said.split())}")
        return "", False
    return commit.stdout.strip(), not changed.stdout.strip()
