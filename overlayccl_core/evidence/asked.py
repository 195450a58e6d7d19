"""The settings that a table was made with: its sidecar holds the command, and that the settings of its rule."""

import json
from pathlib import Path

from overlayccl_core.configuration.settings import Settings
from overlayccl_core.tables.rows import TableError
from overlayccl_core.tables.sidecar import path_of
from overlayccl_core.tables.table import remake

OPTION = "--settings"


def settings_of(table: Path) -> Settings | None:
    """The part of the settings that a table's rule declares; None where no sidecar tells any.

    The configuration of today may be another, as may be the preset or a file given as --configfile. TableError
    for a sidecar whose settings are not of this release.
    """
    beside = path_of(table)
    if not beside.exists():
        return None
    command: list[str] = json.loads(beside.read_bytes())["command"]
    if OPTION not in command:
        return None
    try:
        return Settings.from_part(command[command.index(OPTION) + 1])
    except (IndexError, TypeError, ValueError) as error:
        raise TableError(
            f"{beside}: its settings are not of this release ({error}). Make it again: {remake(table)}"
        ) from None
