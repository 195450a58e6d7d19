"""Files that are there whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write_bytes(path: Path, data: bytes) -> None:
    """Put `data` at `path`, whole or not at all."""
    with replacing(path) as file:
        file.write(data)


def write_text(path: Path, text: str) -> None:
    """Put a text at `path`, whole or not at all."""
    write_bytes(path, text.encode())


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write: under a temporary name in the same folder, forced to disk, then renamed.

    A reader sees the old file or the new one, never a part; a failure leaves the old one and no other file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
