"""A folder of text to train on: its files in the order of their names; the last tenth of each is held out."""

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

HELD_OUT = 10  # one byte in so many is for validation
MEND = "or leave corpus out, for the sources of Python's standard library"


def files_of(folder: Path) -> list[Path]:
    """Return all files in a folder and below, except hidden ones. ValueError if folder or files are missing."""
    if not folder.is_dir():
        raise ValueError(f"corpus: there is no folder {folder}: name one that has files of text, {MEND}")
    below = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    seen = [folder / path for path in below if not any(part.startswith(".") for part in path.parts)]
    files = [path for path in seen if path.is_file()]
    if not files:
        raise ValueError(f"corpus: {folder} has no files: put files of text there, {MEND}")
    return files


@cache
def read(folder: Path) -> tuple[bytes, bytes]:
    """Return the bytes (to train on, to validate with) of all files of a folder; no UTF-8 character is split.

    Raises:
        ValueError: As in `files_of`, or a file is not UTF-8.
    """
    parts = [_parted(path, folder) for path in files_of(folder)]
    return b"".join(train for train, _ in parts), b"".join(validation for _, validation in parts)


def _parted(path: Path, folder: Path) -> tuple[bytes, bytes]:
    text = path.read_bytes()
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"corpus: {path} is no text of UTF-8 (at byte {error.start}): convert it, or move it out of {folder}"
        ) from None
    cut = len(text) - len(text) // HELD_OUT
    while cut < len(text) and text[cut] & 0xC0 == 0x80:  # inside a character
        cut -= 1
    return text[:cut], text[cut:]


def digest(folder: Path) -> str:
    """Return 16 hexadecimal digits that identify the bytes of `read`. ValueError: as there."""
    train, validation = read(folder)
    return hashlib.sha256(b"%d %b%b" % (len(train), train, validation)).hexdigest()[:16]


def check(folder: Path, batch: int, sequence: int) -> None:
    """Raise ValueError if a part has no room for a batch of texts of `sequence` bytes, each with its next byte."""
    check_sizes(folder, [len(text) for text in read(folder)], "bytes", batch, sequence)


def check_sizes(folder: Path, sizes: Sequence[int], unit: str, batch: int, sequence: int) -> None:
    """Check the sizes of both parts, in bytes or in tokens, as `check` does."""
    least = batch * (sequence + 1) + 1
    for what, size in zip(("train on", "validate with"), sizes, strict=True):
        if size < least:
            raise ValueError(
                f"corpus: {folder} has {size} {unit} to {what}, a batch of {batch} texts of {sequence} tokens"
                f" needs {least}: add text, make batch or sequence smaller, {MEND}"
            )
