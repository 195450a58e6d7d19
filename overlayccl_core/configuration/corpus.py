"""A folder of text to train on: its files in the order of their names; the last tenth of each is held out."""

import hashlib
from functools import cache
from pathlib import Path

HELD_OUT = 10  # one byte in so many is for validation
MEND = "or leave corpus out, for the sources of Python's standard library"


@cache
def read(folder: Path) -> tuple[bytes, bytes]:
    """(to train on, to validate with) of all files in a folder and below; hidden ones do not count.

    ValueError where there is no such folder, or no file in it.
    """
    if not folder.is_dir():
        raise ValueError(f"corpus: there is no folder {folder}: name one that has files of text, {MEND}")
    below = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    files = [folder / path for path in below if not any(part.startswith(".") for part in path.parts)]
    texts = [path.read_bytes() for path in files if path.is_file()]
    if not texts:
        raise ValueError(f"corpus: {folder} has no files: put files of text there, {MEND}")
    cuts = [len(text) - len(text) // HELD_OUT for text in texts]
    train = b"".join(text[:cut] for text, cut in zip(texts, cuts, strict=True))
    return train, b"".join(text[cut:] for text, cut in zip(texts, cuts, strict=True))


def digest(folder: Path) -> str:
    """16 hexadecimal digits for what `read` reads. ValueError as there."""
    train, validation = read(folder)
    return hashlib.sha256(b"%d %b%b" % (len(train), train, validation)).hexdigest()[:16]


def check(folder: Path, batch: int, sequence: int) -> None:
    """ValueError where either part has no room for a batch of texts of `sequence` tokens, and the next ones."""
    least = batch * (sequence + 1) + 1
    for what, text in zip(("train on", "validate with"), read(folder), strict=True):
        if len(text) < least:
            raise ValueError(
                f"corpus: {folder} has {len(text)} bytes to {what}, a batch of {batch} texts of {sequence} tokens"
                f" needs {least}: add text, make batch or sequence smaller, {MEND}"
            )
