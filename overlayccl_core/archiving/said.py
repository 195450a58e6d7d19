"""What the files of an archive do not tell of themselves: `archive.json`."""

import json
import re
import subprocess
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Self

from overlayccl_core.archiving import packing

NAME = "archive.json"
TREE = re.compile(r"[a-z][a-z0-9_-]*")  # as in the Snakefile: a folder's name, and no path
TYPES: dict[str, type] = {"config": dict, "clean": bool, "measuring": tuple, "nodes": int}  # all others: text


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Of the run that an archive is of.

    tree: the folder's name below results/. command: what makes it. config: what the command line and the
    profile configured on top of config/config.yaml. machine: that its measurements are of. commit: of git,
    empty where there is none; clean: whether nothing had been changed since. measuring: rules that have all
    nodes to themselves, which are `nodes`. version, snakemake: of the packages; zstandard: of the library that
    compresses.
    """

    tree: str
    command: str
    config: dict[str, Any]
    machine: str
    commit: str
    clean: bool
    measuring: tuple[str, ...]
    nodes: int
    version: str
    snakemake: str
    zstandard: str

    @classmethod
    def loads(cls, text: str | bytes) -> Self:
        """ValueError where a field is missing or unknown."""
        try:
            fields = json.loads(text)
            read = cls(**{**fields, "measuring": tuple(fields["measuring"])})
        except (TypeError, KeyError) as error:
            raise ValueError(f"{NAME} is not of this release: {error}") from None
        wrong = [name for name in cls.__slots__ if not isinstance(getattr(read, name), TYPES.get(name, str))]
        if wrong or not TREE.fullmatch(read.tree):
            raise ValueError(f"{NAME}: {wrong[0] if wrong else 'tree'} is nothing that a run of ours says")
        return read

    def dumps(self) -> bytes:
        """Its text, with sorted keys."""
        return (json.dumps(asdict(self), indent=1, sort_keys=True) + "\n").encode()


def versions() -> dict[str, Any]:
    """Of the packages that an archive names."""
    return {
        "version": metadata.version("overlayccl"),
        "snakemake": metadata.version("snakemake"),
        "zstandard": packing.ZSTANDARD,
    }


def commit_of(root: Path) -> tuple[str, bool]:
    """The commit that a folder is at, and whether nothing was changed since; ("", False) where git knows none."""
    commit, changed = (
        subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=False)
        for words in (["rev-parse", "HEAD"], ["status", "--porcelain"])
    )
    if commit.returncode or changed.returncode:
        return "", False
    return commit.stdout.strip(), not changed.stdout.strip()
