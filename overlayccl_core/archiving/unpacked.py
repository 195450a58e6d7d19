"""Unpacked archives: nothing in them is asked or run unless the user names it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from overlayccl_core import loader
from overlayccl_core.archiving.manifest import NAME
from overlayccl_core.configuration.searches import Search
from overlayccl_core.configuration.settings import PROPOSER
from overlayccl_core.search.proposer import asks

COMMAND = "command"  # a search's field for a program to run, and its override key


def use_plugins(root: Path) -> str:
    """Activate a project's plug-ins; those of an archive only if the user named them: else return why not."""
    own = root / loader.OF_PROJECT
    if not is_unpacked(root):
        loader.use_project(root)
    elif loader.VARIABLE not in os.environ and own.is_dir():
        mend = f"Read {own}, then name it: {loader.VARIABLE}={own}"
        return f"this is an archive ({root / NAME}): its plug-ins do not count. {mend}"
    return ""


def is_unpacked(root: Path) -> bool:
    """Return whether a folder is an unpacked archive, by its manifest."""
    return (root / NAME).is_file()


def refuse_unnamed(search: Search, root: Path, typed: Mapping[str, Any]) -> None:
    """Raise ValueError if an archive's search would ask a service, or run a program, that the user did not type.

    Args:
        typed: Keys and values of --config, without those of the archive's own profile.
    """
    plugin = asks(search.proposer)
    if plugin is None or plugin.language_model(search).recorded or not is_unpacked(root):
        return
    name, program = search.file.stem, getattr(search, COMMAND, None)
    here = f"this is an archive ({root / NAME}), and its configuration"
    if typed.get(PROPOSER) != name:
        mend = f"read {search.file}, then name it: --config {PROPOSER}={name}"
        raise ValueError(f"{here} asks {search.proposer}: {mend}")
    if program is not None and typed.get(COMMAND) != program:
        raise ValueError(f"{here} runs {program!r}: read that, then name who answers: {COMMAND}='PROGRAM'")
