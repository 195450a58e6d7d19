"""Shape probes: calls as candidates make them, which collectives alone or all in flight do not show.

Permutes of all shifts together; chains of permutes, each of the result of the one before; a permute, then another
collective; sums and gathers in two steps, within nodes and across them; pairs of ranks side by side; many small
gathers together, and their transposes; one call between two computations; one call alone; calls of many bytes. The
list depends on the ranks alone, not on the Problems configured, so the cost model knows the shapes of Problems that
nobody has written yet.
"""

from collections.abc import Callable, Iterator, Sequence

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.probes.probe import Probe, ProbeBuilder, ProbeRole, operand_size
from overlayccl_core.probes.structured import in_flight, named, subgroups
from overlayccl_core.program import nodes
from overlayccl_core.program.groups import Groups, contiguous, strided, world
from overlayccl_core.program.kinds import COLLECTIVES, Kind
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.rowwise import RowAttr

New = Callable[[], ProbeBuilder]

# Payloads in float32 elements, mostly beside how many.
TOGETHER = ((2**8, 3), (2**14, 2), (2**14, 3))
CHAINS = ((2**8, 3), (2**14, 2), (2**14, 3), (2**14, 4))
AFTER_A_PERMUTE = 2**14
PAIRS = ((2**13, 4), (2**15, 1))
SMALL = ((2**12, 8), (2**14, 8))
ALONE = 2**14
TWO_STEPS = (2**13, 2**16)
LARGE = {2**20: COLLECTIVES, 2**22: (Kind.ALL_REDUCE, Kind.ALL_GATHER, Kind.REDUCE_SCATTER)}
COMPUTED = (2**8, 2**10)  # rows and their width: a few KiB of sums, of a MiB of work


def shape_probes(deployment: Deployment) -> list[Probe]:
    """Return all shape probes of a deployment, in a fixed order."""

    def new() -> ProbeBuilder:
        return ProbeBuilder(deployment.ranks, deployment.ranks_per_node, uniform=deployment.uniform)

    everybody = world(deployment.ranks)
    made = [*_permutes(new, deployment.ranks)]
    for name, groups in pairs(deployment).items():
        for kind in COLLECTIVES[:-1]:
            made += [_alike(new, f"{name}-pairs", kind, size, n, groups, 1) for size, n in PAIRS]
    for kind in (Kind.ALL_GATHER, Kind.REDUCE_SCATTER):
        made += [_alike(new, "many-small", kind, size, n, everybody, n) for size, n in SMALL]
    made += [_alike(new, "one", kind, ALONE, 1, everybody, 1) for kind in COLLECTIVES]
    made += [_alike(new, "large", kind, n, 1, everybody, 1) for n, kinds in LARGE.items() for kind in kinds]
    made += _in_two_steps(new, deployment)
    made += [_between_computations(new, kind) for kind in (Kind.ALL_REDUCE, Kind.ALL_GATHER)]
    return made


def pairs(deployment: Deployment) -> dict[str, Groups]:
    """Return groups of two: ranks of two halves, where these are of a node; of several nodes also neighbours."""
    ranks, per_node = deployment.ranks, deployment.ranks_per_node
    found = {}
    if ranks > 2 and ranks % 2 == 0 and per_node % (ranks // 2) == 0:
        found["opposite"] = strided(ranks, ranks // 2)
    if per_node < ranks and per_node % 2 == 0:
        found["neighbour"] = contiguous(ranks, 2)
    return found


def _permutes(new: New, ranks: int) -> Iterator[Probe]:
    """Permutes together, in chains, and before another collective. Two ranks have one shift only."""
    everybody = world(ranks)
    for size, times in TOGETHER:
        if times < ranks:
            yield _alike(new, "shifts", Kind.COLLECTIVE_PERMUTE, size, times, everybody, times)
    for size, times in CHAINS:
        yield _chain(new, "chain", [Kind.COLLECTIVE_PERMUTE] * times, size)
    for kind in COLLECTIVES[:-1]:
        yield _chain(new, "permute-then", [Kind.COLLECTIVE_PERMUTE, kind], AFTER_A_PERMUTE)


def _in_two_steps(new: New, deployment: Deployment) -> Iterator[Probe]:
    """Sums and gathers within nodes and across them; in halves of a node and across these."""
    if len(tiers := list(subgroups(deployment).values())) == 1:
        tiers.append(strided(deployment.ranks, deployment.ranks // 2))
    if not tiers:
        return
    near, far = tiers
    scattered = (Kind.REDUCE_SCATTER, near), (Kind.ALL_REDUCE, far), (Kind.ALL_GATHER, near)
    added = (Kind.ALL_REDUCE, near), (Kind.ALL_REDUCE, far)
    gathered = (Kind.ALL_GATHER, far), (Kind.ALL_GATHER, near)
    for size in TWO_STEPS:
        for way, calls in (("scattered", scattered), ("added", added), ("gathered", gathered)):
            probe = new()
            value = probe.read(operand_size(Kind.ALL_TO_ALL, size, probe.ranks))
            for kind, groups in calls:
                value = probe.issue(kind, value, groups)
            probe.write(value)
            yield named(probe, f"two-steps-{way}", len(calls), size, ProbeRole.SHAPE)


def _alike(new: New, way: str, kind: Kind, payload: int, times: int, groups: Groups, most: int) -> Probe:
    """Collectives of one kind and size, at most `most` of them in flight."""
    probe = new()
    in_flight(probe, kind, [operand_size(kind, payload, groups.size)] * times, groups, most)
    return named(probe, f"{kind.value}-{way}", times, payload, ProbeRole.SHAPE)


def _chain(new: New, way: str, kinds: Sequence[Kind], payload: int) -> Probe:
    """Collectives of which each takes the whole result of the one before."""
    probe = new()
    value = probe.read(operand_size(kinds[-1], payload, probe.ranks))
    for kind in kinds:
        value = probe.issue(kind, value)
    probe.write(value)
    return named(probe, f"{kinds[-1].value}-{way}", len(kinds), payload, ProbeRole.SHAPE)


def _between_computations(new: New, kind: Kind) -> Probe:
    """A call of one element for each row: its exponentials are added up before, and more is done with it after."""
    rows, width = COMPUTED
    probe = new()
    x = probe.read(rows * width)
    mine = _row("row_sum", width, _row("exp", 1, x))
    everybodys = probe.issue(kind, mine)
    if kind is Kind.ALL_GATHER:
        everybodys = nodes.make_sum(everybodys, probe.ranks)
    probe.write(_row("sub", width, x, _row("log", 1, everybodys)))
    return named(probe, f"{kind.value}-between-computations", 1, rows, ProbeRole.SHAPE)


def _row(name: str, width: int, *operands: Node) -> Node:
    return nodes.make_rowwise(RowAttr(name=name, width=width), operands)
