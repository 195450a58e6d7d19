"""Execution plans of MSCCL++ of our own, whose right form is known; `n` ranks each."""

from collections.abc import Callable

from tests.schedules.plan_writing import (
    NOP,
    Plan,
    local,
    meet,
    move,
    pipeline,
    remote,
    semaphores,
    switch,
    sync,
)


def gets(n: int) -> Plan:
    """all_gather: everybody reads everybody's input."""
    plan = Plan("allgather", n, 1, n)
    for rank in range(n):
        peers = plan.peers(rank)
        plan.block(
            rank,
            *meet(peers),
            move("copy", [local("i", 0)], [local("o", rank)]),
            move("get", [remote(p, "i", 0) for p in peers], [local("o", p) for p in peers]),
            *meet(peers),
        )
    return plan


def puts(n: int) -> Plan:
    """all_to_all: everybody writes into everybody's output."""
    plan = Plan("alltoall", n, n, n)
    for rank in range(n):
        peers = plan.peers(rank)
        plan.block(
            rank,
            *meet(peers),
            move("copy", [local("i", rank)], [local("o", rank)]),
            move("put", [local("i", p) for p in peers], [remote(p, "o", rank) for p in peers]),
            *meet(peers),
        )
    return plan


def ports(n: int) -> Plan:
    """all_gather in place, over port channels: put, signal, flush."""
    plan = Plan("allgather", n, 1, n, inplace=True)
    for rank in range(n):
        peers = plan.peers(rank)
        plan.block(
            rank,
            *meet(peers, "port"),
            move(
                "put",
                [local("o", rank)] * len(peers),
                [remote(p, "o", rank) for p in peers],
                channel_type="port",
                peers=peers,
            ),
            NOP,
            sync("signal", peers, "port"),
            NOP,
            sync("flush", peers, "port"),
            sync("wait", peers, "port"),
            NOP,
        )
    return plan


def told_puts(n: int, name: str = "pws") -> Plan:
    """all_gather in place, over port channels: puts that signal, and flush."""
    plan = Plan("allgather", n, 2, 2 * n, inplace=True)
    for rank in range(n):
        peers = plan.peers(rank)
        spans = [remote(p, "o", 2 * rank, 2) for p in peers]
        put = move(name, [local("o", 2 * rank, 2)] * len(peers), spans, channel_type="port", peers=peers)
        flush = [NOP, sync("flush", peers, "port")] if name == "pws" else []
        plan.block(rank, *meet(peers, "port"), put, *flush, NOP, sync("wait", peers, "port"), NOP)
    return plan


def reads_and_writes(n: int) -> Plan:
    """all_reduce in place: rank r adds up chunk r of everybody, and hands it out (rres)."""
    plan = Plan("allreduce", n, n, n, inplace=True)
    for rank in range(n):
        peers = plan.peers(rank)
        spans = [local("i", rank), *(remote(p, "i", rank) for p in peers)]
        plan.block(rank, *meet(peers), move("rres", spans, spans), *meet(peers))
    return plan


def reads(n: int) -> Plan:
    """all_reduce: rank r adds up chunk r of everybody (rre), and everybody gets it."""
    plan = Plan("allreduce", n, n, n)
    for rank in range(n):
        peers = plan.peers(rank)
        plan.block(
            rank,
            *meet(peers),
            move("rre", [local("i", rank), *(remote(p, "i", rank) for p in peers)], [local("o", rank)]),
            *meet(peers),
            move("get", [remote(p, "o", p) for p in peers], [local("o", p) for p in peers]),
            *meet(peers),
        )
    return plan


def sends(n: int) -> Plan:
    """all_reduce: chunk r of everybody into the scratch of rank r, which adds up and hands out (res)."""
    plan = Plan("allreduce", n, n, n, n)
    for rank in range(n):
        peers = plan.peers(rank)
        plan.block(
            rank,
            move("put", [local("i", p) for p in peers], [remote(p, "s", rank) for p in peers]),
            *meet(peers),
            move(
                "res",
                [local("i", rank), *(local("s", p) for p in peers)],
                [local("o", rank), *(remote(p, "o", rank) for p in peers)],
            ),
            *meet(peers),
        )
    return plan


def scatters(n: int) -> Plan:
    """reduce_scatter: chunk r of everybody into the scratch of rank r, which adds up (re)."""
    plan = Plan("reducescatter", n, n, 1, n)
    for rank in range(n):
        peers = plan.peers(rank)
        plan.block(
            rank,
            move("put", [local("i", p) for p in peers], [remote(p, "s", rank) for p in peers]),
            *meet(peers),
            move("re", [local("i", rank), *(local("s", p) for p in peers)], [local("o", 0)]),
        )
    return plan


def packets(n: int, way: str = "respkt") -> Plan:
    """all_reduce by packets in two steps; the sum is handed out by the operation itself, or by rppkt."""
    plan = Plan("allreduce", n, n, n, 2 * n, protocol="LL")
    for rank in range(n):
        peers = plan.peers(rank)
        src = [local("i", rank), *(local("s", p) for p in peers)]
        mine, theirs = local("s", n + rank), [remote(p, "s", n + rank) for p in peers]
        dst = {
            "respkt": [local("o", rank), *theirs],
            "recspkt": [local("o", rank), mine, *theirs],
            "recpkt": [local("o", rank), mine],
        }[way]
        out = [move("ppkt", [local("i", p) for p in peers], [remote(p, "s", rank) for p in peers])]
        plan.block(rank, *out, move(way, src, dst))
        if way == "recpkt":
            plan.block(rank, move("rppkt", [mine], theirs))
        plan.block(rank, *(move("upkt", [local("s", n + p)], [local("o", p)]) for p in peers))
    return plan


def packet_sums(n: int) -> Plan:
    """reduce_scatter by packets (repkt), in place."""
    plan = Plan("reducescatter", n, n, 1, n, protocol="LL", inplace=True)
    for rank in range(n):
        peers = plan.peers(rank)
        plan.block(
            rank,
            move("ppkt", [local("i", p) for p in peers], [remote(p, "s", rank) for p in peers]),
            move("repkt", [local("i", rank), *(local("s", p) for p in peers)], [local("i", rank)]),
        )
    return plan


def port_packets(n: int, name: str = "ppkt") -> Plan:
    """all_gather by packets that are made (cpkt) and then sent over port channels."""
    plan = Plan("allgather", n, 1, n, n, protocol="LL")
    for rank in range(n):
        peers = plan.peers(rank)
        src = [local("s", rank)] * (len(peers) if name == "ppkt" else 1)
        dst = [remote(p, "s", rank) for p in peers]
        plan.block(
            rank,
            move("cpkt", [local("i", 0)], [local("s", rank)]),
            *([NOP] if name == "ppkt" else []),
            move(name, src, dst, channel_type="port", peers=peers),
        )
        plan.block(rank, *(move("upkt", [local("s", p)], [local("o", p)]) for p in range(n)))
    return plan


def switch_sums(n: int) -> Plan:
    """all_reduce in place by a switch (glres), between relaxed signals."""
    plan = Plan("allreduce", n, n, n, inplace=True)
    plan.switch = "i"
    for rank in range(n):
        around = meet(plan.peers(rank), kind="rlx")
        glres = move("glres", [switch(rank)], [switch(rank)], channel_type="switch")
        plan.block(rank, *around, glres, *around)
    return plan


def switch_stores(n: int) -> Plan:
    """all_gather by a switch (gstore)."""
    plan = Plan("allgather", n, 1, n)
    plan.switch = "o"
    for rank in range(n):
        around = meet(plan.peers(rank))
        plan.block(rank, *around, move("gstore", [local("i", 0)], [switch(rank)]), *around)
    return plan


def switch_packets(n: int) -> Plan:
    """all_gather in place by packets that a switch hands out, also to who has them (gstorepkt)."""
    plan = Plan("allgather", n, 1, n, n, protocol="LL", inplace=True)
    plan.switch = "s"
    for rank in range(n):
        made = move("cpkt", [local("i", 0)], [local("s", rank)])
        plan.block(rank, made, move("gstorepkt", [local("s", rank)], [switch(rank)], channel_type="switch"))
        plan.block(rank, *(move("upkt", [local("s", p)], [local("o", p)]) for p in range(n)))
    return plan


def barriers(n: int) -> Plan:
    """all_to_all: one thread block meets the others' for both, and each puts one of two chunks."""
    plan = Plan("alltoall", n, 2 * n, 2 * n)
    barrier = {"name": "barrier", "barrier_id": 3, "num_threadblocks": 2}
    for rank in range(n):
        peers = plan.peers(rank)
        for half in range(2):
            own = [local("i", 2 * rank + half)], [local("o", 2 * rank + half)]
            put = [local("i", 2 * p + half) for p in peers], [remote(p, "o", 2 * rank + half) for p in peers]
            around = [] if half else meet(peers)
            plan.block(rank, *around, barrier, move("copy", *own), move("put", *put), barrier, *around)
    return plan


def handed_over(n: int) -> Plan:
    """all_to_all: one thread block signals and waits, another one puts; semaphores between them."""
    plan = Plan("alltoall", n, n, n)
    plan.semaphores = [0, 0]
    for rank in range(n):
        peers = plan.peers(rank)
        around = meet(peers)
        plan.block(rank, *around, semaphores("sem_release", 0), semaphores("sem_acquire", 1), *around)
        plan.block(
            rank,
            semaphores("sem_acquire", 0),
            NOP,
            move("copy", [local("i", rank)], [local("o", rank)]),
            move("put", [local("i", p) for p in peers], [remote(p, "o", rank) for p in peers]),
            NOP,
            semaphores("sem_release", 1),
        )
    return plan


def pipelines(n: int) -> Plan:
    """all_reduce in place, unit by unit: copied to scratch, summed there by a switch, copied back."""
    plan = Plan("allreduce", n, n, n, n, inplace=True, reuse_resources=True)
    plan.switch, plan.semaphores = "s", [0, 0, 4]
    for rank in range(n):
        peers = plan.peers(rank)
        plan.block(
            rank,
            pipeline(
                semaphores("sem_acquire", 2),
                NOP,
                *(move("copy", [local("i", c)], [local("s", c)]) for c in range(n)),
                *meet(peers),
                semaphores("sem_release", 0),
            ),
        )
        plan.block(
            rank,
            pipeline(
                semaphores("sem_acquire", 0),
                NOP,
                move("glres", [switch(rank)], [switch(rank)], channel_type="switch"),
                NOP,
                sync("signal", peers),
                semaphores("sem_release", 1),
            ),
        )
        plan.block(
            rank,
            pipeline(
                semaphores("sem_acquire", 1),
                sync("wait", peers, of=1),
                NOP,
                *(move("copy", [local("s", c)], [local("i", c)]) for c in range(n)),
                NOP,
                semaphores("sem_release", 2),
            ),
        )
    return plan


def shares(n: int) -> Plan:
    """all_reduce in place (rres), each chunk by three thread blocks."""
    plan = Plan("allreduce", n, n, n, inplace=True)
    for rank in range(n):
        peers = plan.peers(rank)
        spans = [local("i", rank), *(remote(p, "i", rank) for p in peers)]
        for share in range(3):
            info = {"tb_id": share, "tbg_size": 3}
            plan.block(rank, *meet(peers), move("rres", spans, spans, tbg_info=info), *meet(peers))
    return plan


RIGHT: dict[str, Callable[[int], Plan]] = {
    "gets": gets,
    "puts": puts,
    "ports": ports,
    "pws": told_puts,
    "pwsf": lambda n: told_puts(n, "pwsf"),
    "rres": reads_and_writes,
    "rre": reads,
    "res": sends,
    "re": scatters,
    "respkt": packets,
    "recspkt": lambda n: packets(n, "recspkt"),
    "recpkt": lambda n: packets(n, "recpkt"),
    "repkt": packet_sums,
    "ppkt over ports": port_packets,
    "rppkt over ports": lambda n: port_packets(n, "rppkt"),
    "glres": switch_sums,
    "gstore": switch_stores,
    "gstorepkt": switch_packets,
    "barrier": barriers,
    "semaphores": handed_over,
    "pipeline": pipelines,
    "shares": shares,
}
