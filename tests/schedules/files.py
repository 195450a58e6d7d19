"""MSCCL XML of our own: schedules whose right form is known."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Place = tuple[str, int]


@dataclass
class Schedules:
    """A file being written: thread blocks by (send, receive, channel), in the order of their first step."""

    collective: str
    ranks: int
    chunks: dict[str, int]
    in_place: bool = False
    blocks: list[dict[tuple[int, int, int], list[dict[str, object]]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.blocks = [defaultdict(list) for _ in range(self.ranks)]

    def step(
        self,
        rank: int,
        kind: str,
        source: Place = ("i", 0),
        target: Place = ("i", 0),
        *,
        send: int = -1,
        receive: int = -1,
        channel: int = 0,
        after: tuple[int, int] = (-1, -1),
        count: int = 1,
    ) -> tuple[int, int]:
        """Add a step; return its thread block and its number."""
        key = (send, receive, channel)
        steps = self.blocks[rank][key]
        steps.append({"type": kind, "source": source, "target": target, "after": after, "count": count})
        return list(self.blocks[rank]).index(key), len(steps) - 1

    def text(self) -> str:
        """The file."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        chunks = max(self.chunks.get(buffer, 0) for buffer in "io")
        yield (
            f'<algo name="ours" proto="Simple" nchannels="1" nchunksperloop="{chunks}" '
            f'ngpus="{self.ranks}" coll="{self.collective}" inplace="{int(self.in_place)}" '
            f'outofplace="{int(not self.in_place)}" minBytes="0" maxBytes="0">'
        )
        for rank, blocks in enumerate(self.blocks):
            told = {step["after"] for steps in blocks.values() for step in steps}
            sizes = " ".join(f'{b}_chunks="{self.chunks.get(b, 0)}"' for b in "ios")
            yield f' <gpu id="{rank}" {sizes}>'
            for number, ((send, receive, channel), steps) in enumerate(blocks.items()):
                yield f'  <tb id="{number}" send="{send}" recv="{receive}" chan="{channel}">'
                for i, step in enumerate(steps):
                    (srcbuf, srcoff), (dstbuf, dstoff), (depid, deps) = (
                        step["source"],  # type: ignore[misc]
                        step["target"],
                        step["after"],
                    )
                    yield (
                        f'   <step s="{i}" type="{step["type"]}" srcbuf="{srcbuf}" srcoff="{srcoff}" '
                        f'dstbuf="{dstbuf}" dstoff="{dstoff}" cnt="{step["count"]}" depid="{depid}" deps="{deps}" '
                        f'hasdep="{int((number, i) in told)}"/>'
                    )
                yield "  </tb>"
            yield " </gpu>"
        yield "</algo>"


def ring(n: int) -> str:
    """A ring all_reduce in place: each chunk goes round once to be added up, and once more to be handed out."""
    file = Schedules("allreduce", n, {"i": n}, in_place=True)
    for turn in range(n):
        for rank in range(n):
            chunk = ("i", (rank - turn) % n)
            around = {"send": (rank + 1) % n, "receive": (rank - 1) % n}
            file.step(rank, "s" if turn == 0 else "rrcs" if turn == n - 1 else "rrs", chunk, chunk, **around)
    for turn in range(1, n):
        for rank in range(n):
            chunk = ("i", (rank - turn + 1) % n)
            around = {"send": (rank + 1) % n, "receive": (rank - 1) % n}
            file.step(rank, "r" if turn == n - 1 else "rcs", chunk, chunk, **around)
    return file.text()


def all_pairs(n: int) -> str:
    """An all_reduce of two steps, in place: rank r gets chunk r of everybody, adds up, and sends to everybody."""
    file = Schedules("allreduce", n, {"i": n, "s": n}, in_place=True)
    for rank in range(n):
        others = [(rank + d) % n for d in range(1, n)]
        sent = {peer: file.step(rank, "s", ("i", peer), ("s", rank), send=peer) for peer in others}
        came = {peer: file.step(rank, "r", ("i", rank), ("s", peer), receive=peer) for peer in others}
        for peer in others:
            last = file.step(rank, "re", ("s", peer), ("i", rank), after=came[peer])
        for peer in others:
            file.step(rank, "s", ("i", rank), ("i", rank), send=peer, after=last)
        for peer in others:
            file.step(rank, "r", ("i", peer), ("i", peer), receive=peer, after=sent[peer])
    return file.text()


def exchange(n: int) -> str:
    """An all_to_all: everybody to everybody, at once."""
    file = Schedules("alltoall", n, {"i": n, "o": n})
    for rank in range(n):
        file.step(rank, "cpy", ("i", rank), ("o", rank))
        for d in range(1, n):
            to, of = (rank + d) % n, (rank - d) % n
            file.step(rank, "s", ("i", to), ("o", rank), send=to)
            file.step(rank, "r", ("i", rank), ("o", of), receive=of)
    return file.text()


def gather(n: int) -> str:
    """An all_gather in place, by doubling: with a partner twice as far each time."""
    file = Schedules("allgather", n, {"o": n}, in_place=True)
    for rank in range(n):
        came: list[tuple[int, int]] = []
        for distance in [2**turn for turn in range(n.bit_length() - 1)]:
            peer, first = rank ^ distance, rank // distance * distance
            theirs = peer // distance * distance
            for one in came[:-1]:
                file.step(rank, "nop", send=peer, after=one)
            last = came[-1] if came else (-1, -1)
            file.step(rank, "s", ("o", first), ("o", first), send=peer, count=distance, after=last)
            came.append(file.step(rank, "r", ("o", theirs), ("o", theirs), receive=peer, count=distance))
    return file.text()


def scatter(n: int) -> str:
    """A reduce_scatter by a ring, out of place: the sum of a chunk goes round and stops at its rank."""
    file = Schedules("reduce_scatter", n, {"i": n, "o": 1})
    for turn in range(n):
        for rank in range(n):
            chunk, out = ("i", (rank - turn - 1) % n), ("o", 0)
            around = {"send": (rank + 1) % n, "receive": (rank - 1) % n}
            if turn < n - 1:
                file.step(rank, "rrs" if turn else "s", chunk, chunk, **around)
            else:
                file.step(rank, "rrc", ("i", rank), out, **around)
    return file.text()


def onward(n: int) -> str:
    """To the next rank in two pieces; the last sends to nobody."""
    file = Schedules("custom", n, {"i": 2, "o": 2})
    for rank in range(n):
        for piece in range(2):
            if rank < n - 1:
                file.step(rank, "s", ("i", piece), ("o", piece), send=rank + 1, channel=piece)
            if rank:
                file.step(rank, "r", ("i", piece), ("o", piece), receive=rank - 1, channel=piece)
    return file.text()


RIGHT: dict[str, Callable[[int], str]] = {
    "ring": ring,
    "all_pairs": all_pairs,
    "exchange": exchange,
    "gather": gather,
    "scatter": scatter,
}
