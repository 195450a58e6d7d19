"""The elements of an MSCCL XML file, as it says them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from xml.parsers import expat

from overlayccl_core.program.kinds import Rejected
from overlayccl_core.schedules.actions import BUFFERS, place_text

SENDS, RECEIVES = {"s", "rcs", "rrs", "rrcs"}, {"r", "rcs", "rrc", "rrs", "rrcs"}
READS_SOURCE = {"s", "rrc", "rrs", "rrcs", "re", "cpy"}
WRITES_TARGET = {"r", "rcs", "rrc", "rrcs", "re", "cpy"}
OPERATIONS = SENDS | RECEIVES | READS_SOURCE | {"nop"}
MAX_RANKS = 4096
MAX_NUMBER = 2**20  # of channels, and of chunks that a file has or moves in all
MAX_STEPS = 2**16  # of a file: each is compared with all before it


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class MscclStep:
    """A `step`: `source` and `target` are a buffer and its first chunk; `tells`: others may wait for it."""

    line: int
    rank: int
    block: int
    number: int
    kind: str
    source: tuple[str, int]
    target: tuple[str, int]
    count: int
    waits_for: tuple[int, int] | None
    tells: bool

    def __str__(self) -> str:
        return place_text(self.rank, self.block, self.number, self.kind)


@dataclass(frozen=True, slots=True)
class MscclBlock:
    """A `tb`: its peers (-1: none) and its channel."""

    send: int
    receive: int
    channel: int
    steps: list[MscclStep] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MscclGpu:
    """A `gpu`: the chunks of each buffer, and its thread blocks by their ids."""

    chunks: dict[str, int]
    blocks: dict[int, MscclBlock] = field(default_factory=dict)


@dataclass(slots=True)
class MscclFile:
    """An `algo`; `in_place`: the uses that it is for, of False and True."""

    name: str = ""
    collective: str = ""
    protocol: str = ""
    chunks: int = 0  # that a call is cut into
    ranks: int = 0
    in_place: tuple[bool, ...] = ()
    gpus: dict[int, MscclGpu] = field(default_factory=dict)

    @property
    def steps(self) -> list[MscclStep]:
        """All of them, in the file's order."""
        return [step for gpu in self.gpus.values() for block in gpu.blocks.values() for step in block.steps]


def parse(text: str) -> MscclFile:
    """Return the elements of a file. ValueError: it is none; Rejected: with a wrong number. Both name the line."""
    return _Reading(text).file


class _Reading:
    """The elements of a text, as they come."""

    def __init__(self, text: str) -> None:
        self.file = MscclFile()
        self._inside: list[str] = []
        self._rank = self._number = self._steps = self._chunks = 0
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._begin
        self._parser.EndElementHandler = lambda _name: self._inside.pop()
        self._parser.StartDoctypeDeclHandler = self._no_doctype
        try:
            self._parser.Parse(text, True)
        except expat.ExpatError as error:
            raise ValueError(f"line {error.lineno}: not XML: {expat.errors.messages[error.code]}") from None
        missing = [rank for rank in range(self.file.ranks) if rank not in self.file.gpus]
        if missing:
            raise Rejected(f"ngpus is {self.file.ranks}, and GPU {missing[0]} is not there")

    def _no_doctype(self, *_declared: object) -> None:
        raise ValueError(f"line {self._line}: it declares a document type, as no schedule does: take it out")

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        inside: dict[str, Callable[[_Element], None]] = {
            "algo": self._algo,
            "gpu": self._gpu,
            "tb": self._block,
            "step": self._step,
        }
        level = len(self._inside)
        if level >= len(inside) or name != list(inside)[level]:
            where = f" inside <{self._inside[-1]}>" if self._inside else ""
            raise ValueError(
                f"line {self._line}: <{name}>{where}: not MSCCL XML, in which <algo> has <gpu>s, these <tb>s, "
                "and these <step>s"
            )
        self._inside.append(name)
        inside[name](_Element(attributes, self._refused))

    @property
    def _line(self) -> int:
        return self._parser.CurrentLineNumber

    def _refused(self, why: str) -> Rejected:
        return Rejected(f"line {self._line}: {why}")

    def _algo(self, element: "_Element") -> None:
        file = self.file
        file.name = element.text("name") or "schedule"
        file.collective = element.text("coll").lower()
        file.protocol = element.text("proto").lower()
        file.ranks = element.integer("ngpus", 2, MAX_RANKS)
        file.chunks = element.integer("nchunksperloop", 1, MAX_NUMBER)
        in_place = element.integer("inplace", 0, 1, 0)
        out_of_place = element.integer("outofplace", 0, 1, 1 - in_place)
        file.in_place = (False,) * out_of_place + (True,) * in_place
        if not file.in_place:
            raise self._refused("it is for use neither in place nor out of place")

    def _gpu(self, element: "_Element") -> None:
        self._rank = element.integer("id", 0, self.file.ranks - 1)
        if self._rank in self.file.gpus:
            raise self._refused(f"GPU {self._rank} is there twice")
        chunks = {buffer: element.integer(f"{buffer}_chunks", 0, MAX_NUMBER, 0) for buffer in BUFFERS}
        self.file.gpus[self._rank] = MscclGpu(chunks)
        self._count(sum(chunks.values()))

    def _block(self, element: "_Element") -> None:
        blocks = self.file.gpus[self._rank].blocks
        self._number = element.integer("id", 0, MAX_NUMBER)
        if self._number in blocks:
            raise self._refused(f"thread block {self._number} of GPU {self._rank} is there twice")
        send, receive = (element.integer(peer, -1, self.file.ranks - 1) for peer in ("send", "recv"))
        blocks[self._number] = MscclBlock(send, receive, element.integer("chan", 0, MAX_NUMBER, 0))

    def _step(self, element: "_Element") -> None:
        steps = self.file.gpus[self._rank].blocks[self._number].steps
        kind, block = element.text("type"), element.integer("depid", -1, MAX_NUMBER, -1)
        waits_for = (block, element.integer("deps", 0, MAX_NUMBER)) if block >= 0 else None
        step = MscclStep(
            line=self._line,
            rank=self._rank,
            block=self._number,
            number=len(steps),
            kind=kind,
            source=element.place("src", kind in READS_SOURCE),
            target=element.place("dst", kind in WRITES_TARGET),
            count=element.integer("cnt", 0 if kind == "nop" else 1, MAX_NUMBER, 1),
            waits_for=waits_for,
            tells=element.integer("hasdep", 0, 1, 0) == 1,
        )
        if kind not in OPERATIONS:
            raise self._refused(f"{step}: {kind!r} is none of the operations {', '.join(sorted(OPERATIONS))}")
        if element.integer("s", 0, MAX_NUMBER, len(steps)) != len(steps):
            raise self._refused(f"{step}: its number is {element.text('s')}: steps are in order, from 0 on")
        steps.append(step)
        self._count(step.count)
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise self._refused(f"it has more than {MAX_STEPS} steps, which are not read")

    def _count(self, chunks: int) -> None:
        self._chunks += chunks
        if self._chunks > MAX_NUMBER:
            raise self._refused(f"it has or moves more than {MAX_NUMBER} chunks, which are not read")


@dataclass(frozen=True, slots=True)
class _Element:
    """The attributes of an element, checked as they are asked for."""

    attributes: dict[str, str]
    refused: Callable[[str], Rejected]

    def text(self, name: str) -> str:
        return self.attributes.get(name, "")

    def place(self, end: str, used: bool) -> tuple[str, int]:
        """Buffer and chunk of an end of a step; what a step does not use may be anything."""
        buffer = self.text(f"{end}buf")
        if not used:
            return "i", 0
        if buffer not in BUFFERS:
            raise self.refused(f"{end}buf must be one of {', '.join(BUFFERS)} (got {buffer!r})")
        return buffer, self.integer(f"{end}off", 0, MAX_NUMBER)

    def integer(self, name: str, least: int, most: int, default: int | None = None) -> int:
        text = self.attributes.get(name)
        if text is None and default is not None:
            return default
        try:
            value = int(text or "")
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise self.refused(
                f"{name} must be an integer from {least} to {most} (got {(text or '')[:20]!r})"
            )
        return value
