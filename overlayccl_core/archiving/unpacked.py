"""A folder that an archive was unpacked to: its configuration asks nobody whom nobody here has named."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from overlayccl_core.archiving.said import NAME
from overlayccl_core.configuration.searches import Search
from overlayccl_core.configuration.settings import PROPOSER
from overlayccl_core.search.proposer import asks

COMMAND = "command"  # the field of a search that runs a program, and the key that names one


def refuse_unnamed(search: Search, root: Path, typed: Mapping[str, Any]) -> None:
    """ValueError where a search of an archive would ask a service, or run a program, that nobody typed.

    typed: keys and values of --config, without what the archive's own profile configures.
    """
    plugin = asks(search.proposer)
    if plugin is None or plugin.language_model(search).recorded or not (root / NAME).is_file():
        return
    name, program = search.file.stem, getattr(search, COMMAND, None)
    here = f"this is an archive ({root / NAME}), and its configuration"
    if typed.get(PROPOSER) != name:
        mend = f"read {search.file}, then name it: --config {PROPOSER}={name}"
        raise ValueError(f"{here} asks {search.proposer}: {mend}")
    if program is not None and typed.get(COMMAND) != program:
        raise ValueError(f"{here} runs {program!r}: read that, then name who answers: {COMMAND}='PROGRAM'")
