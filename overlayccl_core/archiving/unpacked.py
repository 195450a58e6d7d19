"""A folder that an archive was unpacked to: nothing in it is asked or run that nobody here has named."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from overlayccl_core import loader
from overlayccl_core.archiving.manifest import NAME
from overlayccl_core.configuration.searches import Search
from overlayccl_core.configuration.settings import PROPOSER
from overlayccl_core.search.proposer import asks

COMMAND = "command"  # the field of a search that runs a program, and the key that names one


def use_plugins(root: Path) -> str:
    """Let a project's plug-ins count; those of an archive only where somebody named them: else why they do not."""
    own = root / loader.OF_PROJECT
    if not is_unpacked(root):
        loader.use_project(root)
    elif loader.VARIABLE not in os.environ and own.is_dir():
        mend = f"Read {own}, then name it: {loader.VARIABLE}={own}"
        return f"this is an archive ({root / NAME}): its plug-ins do not count. {mend}"
    return ""


def is_unpacked(root: Path) -> bool:
    """Whether a folder is one that an archive was unpacked to, by what the archive says of its run."""
    return (root / NAME).is_file()


def refuse_unnamed(search: Search, root: Path, typed: Mapping[str, Any]) -> None:
    """ValueError where a search of an archive would ask a service, or run a program, that nobody typed.

    typed: keys and values of --config, without what the archive's own profile configures.
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
