"""Random mixed Programs: collectives of any kind, size and groups, several in flight, local work between them.

They judge a fitted model: Programs of one seed are fitted, those of another are held out.
"""

import numpy as np

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.probes.probe import Probe, ProbeBuilder, ProbeRole, operand_size, resized
from overlayccl_core.probes.structured import subgroups
from overlayccl_core.program import maps, nodes
from overlayccl_core.program.groups import Groups, world
from overlayccl_core.program.kinds import COLLECTIVES, DType
from overlayccl_core.program.maps import Map
from overlayccl_core.program.nodes import Node

MOST_OPERATIONS = 8
SMALLEST_LOG2, LARGEST_LOG2 = 8.0, 19.0  # elements of a collective's larger side
REUSE_CHANCE, LOCAL_CHANCE, WAIT_CHANCE, BOUNDARY_CHANCE = 0.4, 0.4, 0.4, 0.1
SUBGROUP_CHANCE = 0.4
LARGEST_GROWTH = 8  # most repeats of a value to reach the size of the next collective


def mixed_probes(
    deployment: Deployment, *, seed: int, count: int, role: ProbeRole, first: int = 0
) -> list[Probe]:
    """Return `count` mixed Programs of 1 to 8 collectives; each is a function of (seed, its number) alone."""
    return [_mixed(deployment, seed, number, role) for number in range(first, first + count)]


def _mixed(deployment: Deployment, seed: int, number: int, role: ProbeRole) -> Probe:
    rng = np.random.default_rng([seed, number])
    probe = ProbeBuilder(deployment.ranks, deployment.ranks_per_node, uniform=deployment.uniform)
    kinds = [
        COLLECTIVES[i] for i in rng.integers(len(COLLECTIVES), size=rng.integers(1, MOST_OPERATIONS + 1))
    ]
    unwritten: list[Node] = []
    for kind in kinds:
        groups = _groups(deployment, rng)
        size = operand_size(kind, _payload(rng, deployment.ranks), groups.size)
        operand = _operand(probe, rng, size, unwritten)
        shift = int(rng.integers(1, groups.size))
        unwritten.append(probe.issue(kind, operand, groups, shift=shift))
        if rng.random() < WAIT_CHANCE:
            probe.write(unwritten.pop(rng.integers(len(unwritten))))
        if rng.random() < BOUNDARY_CHANCE:
            probe.boundary()
    for node in unwritten:
        probe.write(_local_work(rng, node) if rng.random() < LOCAL_CHANCE else node)
    return probe.finish(f"mixed-{seed}-{number}", role, seed=seed, number=number)


def _groups(deployment: Deployment, rng: np.random.Generator) -> Groups:
    """All ranks, or groups that structured probes have, where there are any."""
    smaller = list(subgroups(deployment).values())
    if not smaller or rng.random() >= SUBGROUP_CHANCE:
        return world(deployment.ranks)
    return smaller[rng.integers(len(smaller))]


def _payload(rng: np.random.Generator, ranks: int) -> int:
    """Draw a log-uniform size, a multiple of the ranks; never a power of two, as structured probes have those."""
    size = -(-int(2.0 ** rng.uniform(SMALLEST_LOG2, LARGEST_LOG2)) // ranks) * ranks
    return size + ranks if size & (size - 1) == 0 else size


def _operand(probe: ProbeBuilder, rng: np.random.Generator, size: int, earlier: list[Node]) -> Node:
    """A fresh input, or an earlier result (still to be written) cut or repeated, maybe worked on."""
    usable = [x for x in earlier if x.size * LARGEST_GROWTH >= size and x.dtype is DType.FLOAT32]
    if usable and rng.random() < REUSE_CHANCE:
        operand = resized(usable[rng.integers(len(usable))], size)
    else:
        operand = probe.read(size)
    return _local_work(rng, operand) if rng.random() < LOCAL_CHANCE else operand


def _local_work(rng: np.random.Generator, x: Node) -> Node:
    """x scaled, rounded to bfloat16 and back, transposed, rotated, or doubled by adding a rotated copy."""
    match rng.integers(5):
        case 0:
            return nodes.make_scale(x, int(rng.integers(2, 9)))
        case 1:
            return nodes.make_cast(nodes.make_cast(x, DType.BFLOAT16), DType.FLOAT32)
        case 2:
            columns = next(c for c in (8, 4, 2, 1) if x.size % c == 0)
            width = next(w for w in (64, 16, 4, 1) if x.size % (columns * w) == 0)
            shape = (x.size // (columns * width), columns, width)
            return nodes.make_view([x], maps.permuted(shape, (1, 0, 2)))
        case 3:
            return _rotated(x)
        case _:
            both = nodes.make_view([x, _rotated(x)], maps.identity(2 * x.size))
            return nodes.make_sum(both, 2)


def _rotated(x: Node) -> Node:
    third = max(1, x.size // 3)
    return nodes.make_view([x], Map(1, x.size, [0, x.size - third], [third, 0]))
