"""Files refused by the machine: its disk is full, a quota used up, a file system read-only."""

import errno
import os
import shutil
from pathlib import Path

from overlayccl_core.configuration.sizes import bytes_text

WHAT = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EIO: "the disk has errors",
}
MEND = "Make room there, or let it be written, then run the same command again: what is finished is kept"


def refused(error: BaseException) -> int:
    """Return the errno of a file's refusal by the machine, in an error or its causes; 0: there is none."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        if isinstance(one, OSError) and one.errno in WHAT:
            return one.errno
        if found := next((number for number in WHAT if os.strerror(number) in str(one)), 0):
            return found  # reworded by a library of another language
        seen.add(id(one))
        one = one.__cause__ or one.__context__
    return 0


def said(number: int, *places: Path) -> str:
    """Tell the fault, and the free space of each file system of the possible places."""
    free: dict[int, str] = {}
    for place in places:
        folder = next(one for one in (place, *place.parents) if one.exists())
        free.setdefault(
            folder.stat().st_dev, f"{bytes_text(shutil.disk_usage(folder).free)} free in {folder}"
        )
    return f"{WHAT[number]} ({', '.join(free.values())})"


def allocate(path: Path, size_bytes: int) -> None:
    """Create a file of zeros with its room on the disk: once mapped, writing to it cannot fail any more.

    Raises:
        OSError: There is no room.
    """
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size_bytes)
