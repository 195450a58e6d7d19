"""Names on both sides: of the commands, and of the ranks that they start. Needs no torch."""

import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

MODULE = "captured.py"
WAYS = "ways.json"
"""The files of a folder of proven ways: a deployed module, and which of its Cases makes which calls."""
PLAIN = "plain"
"""The way of a call as the script wrote it."""
FOUND = "tuned-*.json"
"""Files, one of each leader, with what ranks found out about ways that are open; `*`: its rank."""
VARIABLES = tuple(
    f"OVERLAYCCL_{name}" for name in ("RECORD", "WHOLE", "FAKE", "WAYS", "STEPS", "TUNED", "LOSSY")
)
"""What `autoload.py` reads."""

SKIPPED, TIMED = 3, 5
"""Training steps that go by before the record, and those that are timed; one more is followed."""


def ways_digest(texts: Sequence[bytes]) -> str:
    """Return the digest of the two files of a folder of proven ways."""
    return hashlib.sha256(b"\n".join(texts)).hexdigest()


class Key(NamedTuple):
    """What decides the way of a call: the same on all ranks of its group."""

    kind: str
    reduction: str
    dtype: str
    elements: int
    ranks: int
    stride: int = 1  # between the ranks of the group; 0: they are no such row
    hosts: int = 1  # that the group is spread over: its tier

    def of(self, ranks: Sequence[int], role: str = "") -> str:
        """Return the name of this call in the group of these ranks, in files of findings."""
        return f"{' '.join(map(str, self))}, ranks {' '.join(map(str, ranks))} {role}".rstrip()


FEWEST_ELEMENTS = 4096
"""Of a sum in fewer bytes: smaller ones are no gain, and losses, counts and norms are among them."""


class LossySetting(NamedTuple):
    """Which sums are made in fewer bytes, and how: `int8`, or `int8:4`, or `int8:4x8`.

    Attributes:
        compressor: How: bf16 or int8.
        ranks: Of groups with so many ranks; None: of all groups.
        stride: Whose ranks are so far apart; None: however far.
    """

    compressor: str
    ranks: int | None = None
    stride: int | None = None

    @classmethod
    def of(cls, said: str) -> "LossySetting":
        """Read a setting. ValueError if it is none."""
        found = re.fullmatch(r"(bf16|int8)(?::(\d+)(?:x(\d+))?)?", said)
        if found is None:
            raise ValueError(
                f"lossy {said!r}: give bf16 or int8, then the groups if not all are meant: int8:4 (of 4 ranks), "
                "int8:4x8 (of 4 ranks, each 8 after the one before)"
            )
        return cls(found[1], *(None if one is None else int(one) for one in found.groups()[1:]))

    def is_for(self, ranks: int, stride: int) -> bool:
        """Whether a group of so many ranks, so far apart, is meant."""
        return ranks > 1 and self.ranks in (None, ranks) and self.stride in (None, stride)

    @property
    def needs(self) -> str:
        """What a sum has that is made so, in words."""
        far = "" if self.stride is None else f", each {self.stride} after the one before,"
        groups = "a group" if self.ranks is None else f"a group of {self.ranks} ranks{far}"
        return (
            f"it takes an all_reduce or reduce_scatter (sum or mean) of at least {FEWEST_ELEMENTS} float32 in "
            f"{groups}, and the same OVERLAYCCL_LOSSY on all ranks"
        )


PARTS = (
    ("distributed/fsdp/", "FSDP"),
    ("nn/parallel/distributed.py", "DDP"),
    ("distributed/tensor/", "DTensor"),
    ("distributed/pipelining/", "pipeline"),
    ("distributed/optim/", "ZeRO"),
)
"""Files of torch that make calls for a script -> the name that people know them by."""
BACKWARD = "backward"
WRAPPERS = "typing_extensions.py"
"""The file that torch's deprecated functions are wrapped by: no line of a script."""


def part_of(inside: str, inner: str) -> str:
    """Return the part that a frame is in; empty if it is in none, `backward` if C++ calls from a backward pass.

    Args:
        inside: The frame's file, below torch's folder.
        inner: That of the innermost frame of torch.
    """
    named = next((name for path, name in PARTS if inside.startswith(path)), "")
    return named or (BACKWARD if inside == inner == "autograd/graph.py" else "")
