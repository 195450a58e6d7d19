"""Numbers in fewer bytes, and what is lost on the way: it is added to the next numbers of the same kind.

*Error feedback* (Seide et al., Interspeech 2014; Karimireddy et al., ICML 2019): a rank sends c(x + e), and keeps
e = x + e - c(x + e). What one step loses, the next ones bring: sums over many steps differ by the last e alone.
"""

from typing import Protocol

import torch
import torch.nn.functional as F  # noqa: N812

BLOCK = 1024
"""Elements with one scale."""


class Compressor(Protocol):
    """Makes bytes of rows of float32, and such rows of the bytes. Each row by itself: it goes to another rank."""

    def encode(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the bytes of [rows, elements] float32: [rows, bytes] uint8."""

    def decode(self, wire: torch.Tensor, elements: int) -> torch.Tensor:
        """Return [rows, elements] float32 of [rows, bytes] uint8."""


class Bf16:
    """Half of the bytes: the eight upper bits of a mantissa."""

    def encode(self, rows: torch.Tensor) -> torch.Tensor:
        return rows.bfloat16().view(torch.uint8)

    def decode(self, wire: torch.Tensor, elements: int) -> torch.Tensor:
        return wire.view(torch.bfloat16)[:, :elements].float()


class Int8:
    """A quarter of the bytes: multiples of a scale, -127 to 127 of them; 1024 elements have one scale.

    An infinity or a NaN makes its block NaN, for a script that looks for them (gradient scalers).
    """

    def encode(self, rows: torch.Tensor) -> torch.Tensor:
        blocks = F.pad(rows, (0, -rows.shape[1] % BLOCK)).unflatten(1, (-1, BLOCK))
        scale = (blocks.abs().amax(2) / 127).clamp(min=torch.finfo(torch.float32).tiny)
        steps = blocks.div(scale[..., None]).round_()
        scale = scale.where(scale.isfinite(), torch.nan)
        return torch.cat((scale.view(torch.uint8), steps.to(torch.int8).view(torch.uint8).flatten(1)), dim=1)

    def decode(self, wire: torch.Tensor, elements: int) -> torch.Tensor:
        scales = 4 * -(-elements // BLOCK)
        scale = wire[:, :scales].contiguous().view(torch.float32)
        steps = wire[:, scales:].view(torch.int8).unflatten(1, (-1, BLOCK))
        return (steps * scale[..., None]).flatten(1)[:, :elements]


COMPRESSORS: dict[str, Compressor] = {"bf16": Bf16(), "int8": Int8()}


class Feedback:
    """What was lost in one place of a training step; the next step brings it.

    Attributes:
        step: The last step in which it was used.
    """

    def __init__(self) -> None:
        self.step = 0
        self._lost: dict[str, torch.Tensor] = {}

    def encode(self, compressor: Compressor, name: str, rows: torch.Tensor) -> torch.Tensor:
        """Return the bytes of [rows, elements] and what was lost under this name; keep what is lost now.

        What is not finite is not kept.
        """
        whole = rows + self._lost[name] if name in self._lost else rows
        wire = compressor.encode(whole)
        lost = whole - compressor.decode(wire, rows.shape[1])
        self._lost[name] = lost.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
        return wire
