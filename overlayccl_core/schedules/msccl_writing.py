"""A Program of permutes, sums and layouts as MSCCL XML, for libraries that take it (MSCCL, RCCL).

What the runtimes ask of a file (src/misc/msccl/msccl_parser.cc, src/include/msccl/msccl_struct.h and the kernels
beside them, in ROCm/rccl and Azure/msccl-executor-nccl):

- `nchunksperloop` is the number of chunks of the larger of input and output; it must divide the call's elements.
- A step waits for one other step. For more waits there are `nop`s before it; the step itself must have the last.
- `re` steps with one target that follow each other, none of them with a wait, are one addition of all their terms.
- A thread block has at most 64 steps, and a channel of a GPU 32 peers.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from graphlib import CycleError
from itertools import product

from overlayccl_core.problems.captured import EXCHANGE, KINDS
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.program import Program
from overlayccl_core.schedules.instructions import Fusing, Place, RankInstruction, Twins, instructions_of
from overlayccl_core.schedules.program_chunks import ProgramChunks, chunks_of
from overlayccl_core.schedules.schedule import IN_FILES
from overlayccl_core.schedules.schedule import KINDS as CALLS
from overlayccl_core.schedules.thread_blocks import PlacedBlocks, ThreadBlock, placed

PROTOCOLS = ("Simple", "LL", "LL128")
NAMES = {KINDS.index(CALLS[name]): word for word, name in IN_FILES.items()}
SPREADS = (1, 2, 4, 8, 16, 32)  # channels
MAX_STEPS = 64  # MSCCL_MAX_NUM_STEPS
MAX_BLOCKS = 128  # of a GPU: the one waited for is an int8
MAX_PEERS = 32  # MSCCL_MAX_NUM_THREAD_BLOCKS_PER_CHANNEL
_NO_NAME = re.compile(r"[^\w.-]", re.ASCII)
NOP = '"nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0"'


def write(program: Program, name: str = "overlayccl", protocol: str = PROTOCOLS[0]) -> str:
    """Return a Program of one captured call as the text of a file.

    It is for use in place and out of place where some order of its steps is right for both, and for calls of the
    Program's own size.

    Raises:
        Rejected: It is of another Problem, calls other collectives than permutes, does more than move and add, or
            needs more than the runtimes have; with the mend.
    """
    kind = _kind(program)
    chunks = chunks_of(program)
    in_place, blocks = _blocks(kind, chunks)
    return "\n".join(_file(program, name, protocol, chunks, blocks, in_place))


def _blocks(kind: int, chunks: ProgramChunks) -> tuple[bool, PlacedBlocks]:
    """Return whether it is for use in place, and the first thread blocks that run and that the runtimes take."""
    refused = ""
    for in_place in (False,) if kind == EXCHANGE else (True, False):
        for instructions in _variants(chunks, in_place):
            for spread, paired in product(SPREADS, (True, False)):
                blocks = placed(instructions, len(chunks.results), paired=paired, spread=spread)
                lacking = "" if blocks is None else _lacking(blocks)
                if blocks is not None and not lacking and blocks.runs():
                    return in_place, blocks
                refused = refused or lacking
        if refused:
            break
    raise Rejected(f"no runtime takes it: {refused}")


def _variants(chunks: ProgramChunks, in_place: bool) -> Iterator[list[RankInstruction]]:
    """Yield instructions, the fewest first; those that are not fused come last, and always run out of place."""
    twins = _twins(chunks) if in_place else [{} for _ in chunks.results]
    fused: list[list[RankInstruction]] = []
    for fusing in (Fusing.MESSAGES, Fusing.CHUNKS):
        with suppress(CycleError):
            fused.append(instructions_of(chunks, twins, fusing))
    yield from sorted(fused, key=len)
    with suppress(CycleError):
        yield instructions_of(chunks, twins, Fusing.NOTHING)


def _kind(program: Program) -> int:
    case = program.problem.case
    kinds = tuple(case["kinds"]) if case.problem == "captured" else ()
    if len(kinds) != 1 or kinds[0] not in NAMES:
        names = ", ".join(KINDS[kind] for kind in NAMES)
        raise Rejected(
            f"{case.id}: MSCCL XML is of one collective, without a factor: take captured with one call, of "
            f"{names}"
        )
    if case.ranks < 2:
        raise Rejected(f"{case.id}: one rank sends nothing: take two or more")
    return int(kinds[0])


def _twins(chunks: ProgramChunks) -> Twins:
    """In place the smaller of input and output is the rank's own part of the larger."""
    given, results = chunks.given, len(chunks.results[0])
    both = min(given, results)
    ranks = range(len(chunks.results))
    firsts = [(rank * both * (results > given), rank * both * (given > results)) for rank in ranks]
    return [{("o", o + i): ("i", first + i) for i in range(both)} for o, first in firsts]


def _lacking(placement: PlacedBlocks) -> str:
    """The limit of the runtimes that is exceeded, in words; empty: none is."""
    for rank, blocks in enumerate(placement.blocks):
        if len(blocks) > MAX_BLOCKS:
            return (
                f"GPU {rank} has {len(blocks)} thread blocks, and the limit is {MAX_BLOCKS}: take fewer ranks"
            )
        peers = Counter((block.channel, side) for block in blocks for side in _sides(block))
        for (channel, side), count in peers.items():
            if count > MAX_PEERS:
                return (
                    f"GPU {rank} {side} {count} peers on channel {channel}, and the limit is {MAX_PEERS}: take "
                    "fewer ranks, or a way in two steps"
                )
        for block in blocks:
            steps = sum(_length(one, placement) for one in block.instructions)
            if steps > MAX_STEPS:
                return (
                    f"GPU {rank}, thread block {block.number}: {steps} steps, and the limit is {MAX_STEPS}: take "
                    "fewer ranks, or a way with fewer exchanges"
                )
    return ""


def _sides(block: ThreadBlock) -> list[str]:
    return ["sends to"] * (block.send >= 0) + ["receives from"] * (block.receive >= 0)


def _length(one: RankInstruction, placement: PlacedBlocks) -> int:
    """Steps of an instruction, with the waits before it."""
    return max(len(placement.waits[one]) - 1, 0) + len(one.steps)


# -------------------------------------------------------------------------------------------------- text
def _file(
    program: Program, name: str, protocol: str, chunks: ProgramChunks, placement: PlacedBlocks, in_place: bool
) -> Iterator[str]:
    most = max(chunks.given, len(chunks.results[0]))
    size = most * chunks.size * program.problem.case.dtype.bytes
    channels = 1 + max(block.channel for blocks in placement.blocks for block in blocks)
    last = _last_steps(placement)
    waited_for = {other for waits in placement.waits.values() for other in waits}
    yield (
        f'<algo name="{_NO_NAME.sub("_", name)}" proto="{protocol}" nchannels="{channels}" nchunksperloop="{most}" '
        f'ngpus="{len(chunks.results)}" coll="{NAMES[_kind(program)]}" inplace="{int(in_place)}" outofplace="1" '
        f'minBytes="{size}" maxBytes="{size}">'
    )
    for rank, blocks in enumerate(placement.blocks):
        yield (
            f'  <gpu id="{rank}" i_chunks="{chunks.given}" o_chunks="{len(chunks.results[rank])}" '
            f's_chunks="{_scratch(blocks)}">'
        )
        for block in blocks:
            yield f'    <tb id="{block.number}" send="{block.send}" recv="{block.receive}" chan="{block.channel}">'
            steps = (
                step for one in block.instructions for step in _steps(one, placement, last, one in waited_for)
            )
            for s, step in enumerate(steps):
                yield f'      <step s="{s}" type={step}/>'
            yield "    </tb>"
        yield "  </gpu>"
    yield "</algo>\n"


def _steps(
    one: RankInstruction, placement: PlacedBlocks, last: dict[RankInstruction, int], tells: bool
) -> Iterator[str]:
    """The steps of an instruction, without their numbers: waits first."""
    waits = [(placement.place[other][0].number, last[other]) for other in placement.waits[one]] or [(-1, -1)]
    for block, step in waits[:-1]:
        yield f'{NOP} depid="{block}" deps="{step}" hasdep="0"'
    block, step = waits[-1]
    for i, (operation, source, target) in enumerate(one.steps):
        yield (
            f'"{operation}" {_place("src", source)} {_place("dst", target)} cnt="{one.count}" depid="{block}" '
            f'deps="{step}" hasdep="{int(tells and i == len(one.steps) - 1)}"'
        )
        block = step = -1


def _place(end: str, place: Place) -> str:
    buffer, index = place
    return f'{end}buf="{buffer}" {end}off="{index}"'


def _last_steps(placement: PlacedBlocks) -> dict[RankInstruction, int]:
    """For each instruction the number of its last step in its thread block."""
    last: dict[RankInstruction, int] = {}
    for blocks in placement.blocks:
        for block in blocks:
            step = -1
            for one in block.instructions:
                step += _length(one, placement)
                last[one] = step
    return last


def _scratch(blocks: Sequence[ThreadBlock]) -> int:
    """Chunks of scratch that the steps of a GPU use."""
    return max(
        (
            index + one.count
            for block in blocks
            for one in block.instructions
            for _, *places in one.steps
            for buffer, index in places
            if buffer == "s"
        ),
        default=0,
    )
