"""Files of schedules, whatever their format."""

from collections.abc import Callable

from overlayccl_core.schedules import msccl, mscclpp
from overlayccl_core.schedules.schedule import Schedule

FORMATS: dict[str, Callable[[str, str | None], list[Schedule]]] = {"<": msccl.read, "{": mscclpp.read}
"""First character of a text -> who reads it."""


def read(text: str, collective: str | None = None) -> list[Schedule]:
    """Return the schedule of a file, once for each use that it is for (out of place, in place).

    Args:
        collective: What it should be, in place of what the file says.

    Raises:
        ValueError: It is no file of a schedule.
        Rejected: It is none that can run: a deadlock, a race, a wrong index; one line, with the place.
    """
    format_ = FORMATS.get(text.lstrip("\ufeff \t\r\n")[:1])
    if format_ is None:
        raise ValueError("neither XML nor JSON: give MSCCL XML, or an execution plan of MSCCL++ as JSON")
    return format_(text, collective)
