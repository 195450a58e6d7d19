"""Small schedules of our own, as the text of a file.

A step of MSCCL is a line: `rrc i0 i0 x2 <1.3 !` receives, adds chunks 0 and 1 of `i`, writes them there, waits for
step 3 of thread block 1 and is waited for. `s` has a source alone, `r` and `rcs` a destination alone.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

Block = tuple[int, int, int, Sequence[str]]  # send, recv, channel, steps


def xml(
    collective: str, ranks: Iterable[Sequence[Block]], chunks: int, *, scratch: int = 0, in_place: bool = True
) -> str:
    """A schedule, given the thread blocks of each rank, over so many chunks of the longer buffer."""
    gpus = []
    for rank, blocks in enumerate(ranks):
        inner = "".join(_block(number, *block) for number, block in enumerate(blocks))
        sizes = f'i_chunks="{chunks}" o_chunks="{chunks}" s_chunks="{scratch}"'
        gpus.append(f'<gpu id="{rank}" {sizes}>{inner}</gpu>')
    placed = f'inplace="{int(in_place)}" outofplace="{int(not in_place)}"'
    head = f'name="small" proto="Simple" nchannels="2" nchunksperloop="{chunks}" ngpus="{len(gpus)}"'
    return f'<algo {head} coll="{collective}" {placed} minBytes="0" maxBytes="0">{"".join(gpus)}</algo>'


def _block(number: int, send: int, recv: int, channel: int, steps: Sequence[str]) -> str:
    inner = "".join(_step(at, line) for at, line in enumerate(steps))
    return f'<tb id="{number}" send="{send}" recv="{recv}" chan="{channel}">{inner}</tb>'


def _step(at: int, line: str) -> str:
    kind, *words = line.split()
    places = [word for word in words if word[0] in "ios"]
    source, into = (*places, *places, "i-1", "i-1")[:2]
    count = next((word[1:] for word in words if word[0] == "x"), "0" if kind == "nop" else "1")
    block, _, step = next((word[1:] for word in words if word[0] == "<"), "-1.-1").partition(".")
    return (
        f'<step s="{at}" type="{kind}" srcbuf="{source[0]}" srcoff="{source[1:]}" dstbuf="{into[0]}"'
        f' dstoff="{into[1:]}" cnt="{count}" depid="{block}" deps="{step}" hasdep="{int("!" in words)}"/>'
    )


def ring(n: int) -> str:
    """all_reduce in place: a chunk of each rank goes round, first added up, then handed out."""

    def steps(rank: int) -> list[str]:
        came = [f"i{(rank - k) % n}" for k in range(2 * n - 1)]
        kinds = ["s", *["rrs"] * (n - 2), "rrcs", *["rcs"] * (n - 2), "r"]
        return [f"{kind} {chunk} {chunk}" for kind, chunk in zip(kinds, came, strict=True)]

    return xml("allreduce", [[((r + 1) % n, (r - 1) % n, 0, steps(r))] for r in range(n)], n)


def all_pairs(n: int) -> str:
    """all_reduce in place: chunk r of everybody to rank r's scratch, added there, the sum back to everybody."""
    ranks = []
    for rank in range(n):
        others = [peer for peer in range(n) if peer != rank]
        last = f"<{n - 1}.{n - 2}"
        blocks: list[Block] = [
            (peer, peer, 0, [f"s i{peer}", f"r s{at} !", f"s i{rank} {last}", f"r i{peer}"])
            for at, peer in enumerate(others)
        ]
        added = [f"re s{at} i{rank} <{at}.1" for at in range(n - 1)]
        ranks.append([*blocks, (-1, -1, 0, [*added[:-1], f"{added[-1]} !"])])
    return xml("allreduce", ranks, n, scratch=n - 1)


def hierarchical() -> str:
    """all_reduce in place on two nodes of two ranks: halves in the node, quarters between nodes, and back."""
    ranks = []
    for rank in range(4):
        node, local = divmod(rank, 2)
        mine, theirs, quarter = 2 * local, 2 - 2 * local, 2 * local + node
        within = [f"s i{theirs} x2", f"rrc i{mine} i{mine} x2 !", f"s i{mine} x2 <1.3", f"r i{theirs} x2"]
        beyond = [
            f"s i{quarter ^ 1} <0.1",
            f"rrc i{quarter} i{quarter}",
            f"s i{quarter}",
            f"r i{quarter ^ 1} !",
        ]
        ranks.append([(rank ^ 1, rank ^ 1, 0, within), (rank ^ 2, rank ^ 2, 1, beyond)])
    return xml("allreduce", ranks, 4)


def all_to_all(n: int) -> str:
    """Out of place: a chunk for each rank, straight there."""
    ranks = []
    for rank in range(n):
        away: list[Block] = [(p, p, 0, [f"s i{p}", f"r o{p}"]) for p in range(n) if p != rank]
        ranks.append([*away, (-1, -1, 0, [f"cpy i{rank} o{rank}"])])
    return xml("alltoall", ranks, n, in_place=False)


def all_gather(n: int) -> str:
    """In place: each rank's input, which is its part of `o`, goes round."""
    ranks: list[list[Block]] = []
    for rank in range(n):
        steps = ["s i0", *[f"rcs o{(rank - k) % n}" for k in range(1, n - 1)], f"r o{(rank + 1) % n}"]
        ranks.append([((rank + 1) % n, (rank - 1) % n, 0, steps)])
    return xml("allgather", ranks, n)


def reduce_scatter(n: int, *, in_place: bool) -> str:
    """Everybody's chunk r straight to rank r, which adds one after the other."""
    ranks = []
    for rank in range(n):
        blocks: list[Block] = []
        for at, peer in enumerate(peer for peer in range(n) if peer != rank):
            source = f"i{rank}" if at == 0 else "o0"
            blocks.append(
                (peer, peer, 0, [f"s i{peer}", f"rrc {source} o0 ! {f'<{at - 1}.1' if at else ''}"])
            )
        ranks.append(blocks)
    return xml("reducescatter", ranks, n, in_place=in_place)


def plan(collective: str, blocks: Sequence[Sequence[Sequence[Any]]], chunks: tuple[int, int, int]) -> str:
    """A MSCCL++ plan of two ranks, in place, given the operations of each thread block of each rank.

    An operation is a dict, or the name of one without operands. A thread block has memory channel 0 to the other
    rank, whose buffers are 0: `i`, 1: `s`, 2: `o`. `chunks` are those of input, output and scratch.
    """
    gpus = []
    for rank, lists in enumerate(blocks):
        made = [
            {
                "id": number,
                "ops": [op if isinstance(op, dict) else _named(op) for op in ops],
                "channels": [{"channel_type": "memory", "channel_ids": [0]}],
                "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": [0, 1, 2]}],
            }
            for number, ops in enumerate(lists)
        ]
        gpus.append(
            {
                "id": rank,
                **dict(zip(("input_chunks", "output_chunks", "scratch_chunks"), chunks, strict=True)),
                "threadblocks": made,
                "channels": [{"channel_type": "memory", "connected_to": [1 - rank]}],
                "remote_buffers": [
                    {"rank": 1 - rank, "type": buffer, "access_channel_types": ["memory"]} for buffer in "iso"
                ],
                "semaphores": [{"init_value": 0}],
            }
        )
    whole = {"name": "small", "collective": collective, "protocol": "Simple", "inplace": True, "gpus": gpus}
    return json.dumps(whole)


def op(name: str, sources: Sequence[str], into: Sequence[str]) -> dict[str, Any]:
    """An operation on chunks, as `op("rre", ["i0", "@s0"], ["i0"])`: `@` is the other rank's. `i0x2` are two."""
    made = {
        "name": name,
        "src_buff": [_place(one) for one in sources],
        "dst_buff": [_place(one) for one in into],
        "channel_type": "memory",
        "channel_ids": [0],
    }
    return {**made, "reduce_op": "sum"} if len(sources) > 1 else made


def _named(name: str) -> dict[str, Any]:
    return {"name": name, "channel_type": "memory", "channel_ids": [0]}


def _place(text: str) -> dict[str, Any]:
    buffer, (index, _, size) = text.lstrip("@")[0], text.lstrip("@")[1:].partition("x")
    where = {"buffer_id": "iso".index(buffer)} if text[0] == "@" else {"type": buffer}
    return {**where, "index": int(index), "size": int(size or 1)}


def put_and_added() -> str:
    """all_reduce of two chunks: a rank puts the other's half into its scratch, adds its own, puts the sum back."""
    ranks = []
    for rank in range(2):
        mine, theirs = f"i{rank}", f"i{1 - rank}"
        ops = [op("put", [theirs], ["@s0"]), "nop", "signal", "wait", "nop"]
        ops += [op("res", [mine, "s0"], [mine, f"@{mine}"]), "nop", "signal", "wait"]
        ranks.append([ops])
    return plan("allreduce", ranks, (2, 2, 1))


def in_packets() -> str:
    """The same in packets, which need no signal."""
    ranks = []
    for rank in range(2):
        mine, theirs = f"i{rank}", f"i{1 - rank}"
        sent = [op("ppkt", [theirs], ["@s0"]), op("respkt", [mine, "s0"], [mine, "@s1"])]
        ranks.append([sent, [op("upkt", ["s1"], [theirs])]])
    return plan("allreduce", ranks, (2, 2, 2))
