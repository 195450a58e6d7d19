"""What an MSCCL XML file moves, counted: to set schedules of one collective beside each other."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from overlayccl_core.schedules.msccl_file import SENDS, parse


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleCounts:
    """The steps, thread blocks and chunks of a file.

    Attributes:
        in_place: The uses that it is for, of False and True.
        chunks: In which a rank's larger buffer, input or output, is cut.
        channels: That some thread block uses.
        blocks: Thread blocks of all ranks.
        steps: Of all ranks, by operation.
        links: Chunks from a rank to another.
    """

    name: str
    collective: str
    in_place: tuple[bool, ...]
    ranks: int
    chunks: int
    channels: int
    blocks: int
    steps: Mapping[str, int]
    links: Mapping[tuple[int, int], int]

    @property
    def moved(self) -> int:
        """Chunks between ranks, each as often as it crosses."""
        return sum(self.links.values())

    @property
    def volume(self) -> float:
        """What a rank sends on average, over its larger buffer; files of other chunks can be compared."""
        return self.moved / (self.chunks * self.ranks)

    @property
    def busiest(self) -> float:
        """The same, of the link with the most."""
        return max(self.links.values(), default=0) / self.chunks


def counts(text: str) -> ScheduleCounts:
    """Return what is in a file. ValueError: it is none; Rejected: with a wrong number. Both name the line."""
    file = parse(text)
    blocks = [(rank, block) for rank, gpu in file.gpus.items() for block in gpu.blocks.values()]
    links: Counter[tuple[int, int]] = Counter()
    for rank, block in blocks:
        for step in block.steps:
            if step.kind in SENDS:
                links[rank, block.send] += step.count
    return ScheduleCounts(
        name=file.name,
        collective=file.collective,
        in_place=file.in_place,
        ranks=file.ranks,
        chunks=max(max(gpu.chunks["i"], gpu.chunks["o"]) for gpu in file.gpus.values()),
        channels=len({block.channel for _, block in blocks}),
        blocks=len(blocks),
        steps=Counter(step.kind for step in file.steps),
        links=links,
    )
