"""Text to train on: a model's corpus, as bytes or as tokens of its tokenizer file, else Python's standard library.

The library's sources (bytes) are in the order of their names and split by a digest of the name: the same split
everywhere.
"""

import hashlib
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from overlayccl_core.configuration import corpus, tokens
from overlayccl_core.configuration.text_models import TextModel
from overlayccl_core.training.segments import Tensor

HELD_OUT = 10  # one file in so many is for validation
FEWEST_BYTES = 100_000
VALIDATION_BATCHES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingText:
    """uint8[bytes] or int32[tokens] for training and for validation."""

    train: Tensor
    validation: Tensor


@cache
def standard_library(folder: Path | None = None) -> TrainingText:
    """Return the standard library's text.

    Raises:
        ValueError: Python came without its sources.
    """
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
def of(folder: str | None, tokenizer: str | None = None) -> TrainingText:
    """Return the text of a model's `corpus` and `tokenizer`.

    Raises:
        ValueError: There is no such text.
    """
    if folder is None:
        return standard_library()
    if tokenizer is None:
        return _text(*corpus.read(Path(folder)))
    train, validation = tokens.read(Path(folder), Path(tokenizer))
    return TrainingText(train=torch.from_numpy(train), validation=torch.from_numpy(validation))


def _text(train: bytes, validation: bytes) -> TrainingText:
    return TrainingText(
        train=torch.frombuffer(bytearray(train), dtype=torch.uint8),
        validation=torch.frombuffer(bytearray(validation), dtype=torch.uint8),
    )


def batch(text: Tensor, *, seed: int, step: int, replica: int, shape: tuple[int, int]) -> Tensor:
    """Draw random stretches, int64[batch, sequence + 1]: the same on every rank for the same arguments."""
    key = hashlib.blake2b(repr((seed, step, replica)).encode(), digest_size=7).digest()
    random = torch.Generator().manual_seed(int.from_bytes(key))
    rows, sequence = shape
    starts = torch.randint(0, len(text) - sequence - 1, (rows,), generator=random)
    return text[starts[:, None] + torch.arange(sequence + 1)].to(torch.int64)


def batch_of(model: TextModel, *, seed: int, step: int, replica: int) -> Tensor:
    """Draw int64[batch, sequence + 1] of a model's text to train on."""
    text = of(model.corpus, model.tokenizer).train
    return batch(text, seed=seed, step=step, replica=replica, shape=(model.batch, model.sequence))


def held_out(model: TextModel) -> Sequence[Tensor]:
    """Draw the validation batches of a model's text."""
    text = of(model.corpus, model.tokenizer).validation
    shape = (model.batch, model.sequence)
    return [batch(text, seed=0, step=k, replica=0, shape=shape) for k in range(VALIDATION_BATCHES)]
