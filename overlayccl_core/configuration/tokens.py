"""A corpus as the tokens of a tokenizer file (`tokenizer.json`, of Hugging Face's library `tokenizers`).

The first reader makes them once and keeps them in KEPT. Ranks map that file and read no text.
"""

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.configuration import corpus

KEPT = Path("results/.tokens")  # relative to the run's start folder, like the corpus
PARTS = ("train", "validation")
PIECE_BYTES = 2**20  # encoded at once; a piece ends with a line
LIBRARY = "tokenizers"
Tokens = NDArray[np.int32]


def read(folder: Path, file: Path) -> tuple[Tokens, Tokens]:
    """Return the tokens of a corpus to train on, and to validate with.

    Returns:
        Two arrays int32[tokens] of the text of `corpus.read`, in its order, without special tokens.

    Raises:
        ValueError: As in `corpus.read`, or the file is no tokenizer.
    """
    kept = [_kept(folder, file, part) for part in PARTS]
    if not all(path.exists() for path in kept):
        tokenizer = _tokenizer(file)
        for path, text in zip(kept, corpus.read(folder), strict=True):
            _keep(path, _tokens(tokenizer, text))
    train, validation = (np.load(path, mmap_mode="c") for path in kept)
    return train, validation


def digest(folder: Path, file: Path) -> str:
    """Return 16 hexadecimal digits that identify the tokens of `read`. ValueError: as there."""
    return hashlib.sha256(f"{corpus.digest(folder)} {_file_digest(file)}".encode()).hexdigest()[:16]


def check(folder: Path, file: Path, batch: int, sequence: int, vocabulary: int) -> None:
    """Raise ValueError if the vocabulary is too small for the file's tokens, or a part of the text for a batch."""
    tokenizer = _tokenizer(file)
    most = max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1
    if most > vocabulary:
        raise ValueError(
            f"tokenizer: {file} has {most} tokens, vocabulary is {vocabulary}: make vocabulary at least {most}, or "
            "name a tokenizer with fewer"
        )
    sizes = [len(tokens) for tokens in read(folder, file)]
    corpus.check_sizes(folder, sizes, "tokens", batch, sequence)


def _tokens(tokenizer: Any, text: bytes) -> Tokens:
    found = [tokenizer.encode(piece, add_special_tokens=False).ids for piece in _pieces(text)]
    return np.concatenate([np.array(ids, np.int32) for ids in found]) if found else np.zeros(0, np.int32)


def _pieces(text: bytes) -> Iterator[str]:
    start = 0
    while start < len(text):
        line = text.find(b"\n", start + PIECE_BYTES)
        end = line + 1 if line >= 0 else len(text)
        yield text[start:end].decode()
        start = end


def _kept(folder: Path, file: Path, part: str) -> Path:
    """Return the file of kept tokens, named after the state of its sources: finding it reads no text."""
    seen = [
        (path.relative_to(folder).as_posix(), path.stat().st_size, path.stat().st_mtime_ns)
        for path in corpus.files_of(folder)
    ]
    state = repr((folder.resolve().as_posix(), seen, _file_digest(file)))
    return KEPT / f"{hashlib.sha256(state.encode()).hexdigest()[:16]}.{part}.npy"


def _keep(path: Path, tokens: Tokens) -> None:
    """Write atomically, safe beside other writers of the same tokens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    own = path.with_suffix(f".{os.uname().nodename}-{os.getpid()}")
    with own.open("wb") as file:
        np.save(file, tokens)
    own.replace(path)


def _file_digest(file: Path) -> str:
    return hashlib.sha256(_bytes(file)).hexdigest()


def _bytes(file: Path) -> bytes:
    if not file.is_file():
        raise ValueError(f"tokenizer: there is no file {file}: name a tokenizer.json, or leave tokenizer out")
    return file.read_bytes()


@cache
def _tokenizer(file: Path) -> Any:
    text = _bytes(file)
    if find_spec(LIBRARY) is None:
        raise ValueError(
            f"tokenizer: {file} is read by the package {LIBRARY}, which this Python does not have: pip install "
            "'overlayccl[tokenizers]', or leave tokenizer out"
        )
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_buffer(text)
    except Exception as error:  # the library has no class of its own for it
        raise ValueError(
            f"tokenizer: {file} is no tokenizer of Hugging Face's format ({error}): name a tokenizer.json"
        ) from None
