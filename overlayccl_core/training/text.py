"""Text to train on: of a folder that a model names, as bytes or as the tokens of a file that it names, too; or what
every machine has, the sources of Python's standard library, as bytes.

Of the library, files are taken in the order of their names and split by a digest of the name, so that the split is
the same wherever the library is.
"""

import hashlib
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from overlayccl_core.configuration import corpus, tokens
from overlayccl_core.training.segments import Tensor

HELD_OUT = 10  # one file in so many is for validation
FEWEST_BYTES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """uint8[bytes] or int32[tokens] to train on, and to validate with."""

    train: Tensor
    validation: Tensor


@cache
def standard_library(folder: Path | None = None) -> Text:
    """The text; ValueError where Python came without its sources."""
    home = folder or Path(sysconfig.get_paths()["stdlib"])
    parts: dict[bool, list[bytes]] = {True: [], False: []}
    for path in sorted(home.glob("*.py")):
        held_out = hashlib.blake2b(path.name.encode(), digest_size=8).digest()[0] % HELD_OUT == 0
        parts[held_out].append(path.read_bytes())
    train, validation = b"".join(parts[False]), b"".join(parts[True])
    if min(len(train), len(validation)) < FEWEST_BYTES:
        raise ValueError(
            f"{home} has {len(train)} bytes of Python sources to train on: this Python came without them; "
            "use one that has its standard library as .py files"
        )
    return _text(train, validation)


@cache
def of(folder: str | None, tokenizer: str | None = None) -> Text:
    """The text of a model's `corpus` and `tokenizer`. ValueError where there is none."""
    if folder is None:
        return standard_library()
    if tokenizer is None:
        return _text(*corpus.read(Path(folder)))
    train, validation = tokens.read(Path(folder), Path(tokenizer))
    return Text(train=torch.from_numpy(train), validation=torch.from_numpy(validation))


def _text(train: bytes, validation: bytes) -> Text:
    return Text(
        train=torch.frombuffer(bytearray(train), dtype=torch.uint8),
        validation=torch.frombuffer(bytearray(validation), dtype=torch.uint8),
    )


def batch(text: Tensor, *, seed: int, step: int, replica: int, shape: tuple[int, int]) -> Tensor:
    """int64[batch, sequence + 1]: stretches drawn at random; the same for the same arguments on every rank."""
    key = hashlib.blake2b(repr((seed, step, replica)).encode(), digest_size=7).digest()
    random = torch.Generator().manual_seed(int.from_bytes(key))
    rows, sequence = shape
    starts = torch.randint(0, len(text) - sequence - 1, (rows,), generator=random)
    return text[starts[:, None] + torch.arange(sequence + 1)].to(torch.int64)
