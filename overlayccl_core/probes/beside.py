"""Probes of calls beside computing: a call alone, local work alone, and both at the same time.

The work starts while the call is in flight. Little work is over before the call, much of it after: each tells one
of the call's two costs (`costmodel/beside.py`). There are none where ranks compile: the compiler decides what runs
together.
"""

from collections.abc import Iterator

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.probes.probe import Probe, ProbeBuilder, ProbeRole, operand_size
from overlayccl_core.probes.structured import subgroups
from overlayccl_core.program import nodes
from overlayccl_core.program.groups import Groups, world
from overlayccl_core.program.kinds import COLLECTIVES, DType, Kind

Grid = tuple[tuple[int, tuple[Kind, ...], tuple[int, ...]], ...]
"""(payload in float32 elements, kinds, pieces of work)"""
PIECE = 2**19  # elements of a piece of work: its eighths are summed
ALL = tuple(COLLECTIVES)
LARGE = (Kind.ALL_REDUCE, Kind.ALL_GATHER, Kind.REDUCE_SCATTER)
WORLD: Grid = ((2**10, ALL, (1, 8)), (2**16, ALL, (2, 16)), (2**20, LARGE, (8, 32)))
SUBGROUP: Grid = ((2**16, ALL, (2, 16)),)


def beside_probes(deployment: Deployment) -> list[Probe]:
    """Return them, in a fixed order."""
    if deployment.uniform:
        return []
    of = {"world": (world(deployment.ranks), WORLD)}
    of |= {name: (groups, SUBGROUP) for name, groups in subgroups(deployment).items()}
    pieces = dict.fromkeys(some for _, grid in of.values() for _, _, works in grid for some in works)
    probes = [_probe(deployment, f"work-{some}", None, some) for some in pieces]
    for where, (groups, grid) in of.items():
        for payload, kinds, works in grid:
            for kind in kinds:
                name = f"{kind.value}-{where}-{bytes_text(payload * DType.FLOAT32.bytes)}"
                probes += _of_call(deployment, name, (kind, payload, groups), works)
    return probes


def _of_call(
    deployment: Deployment, name: str, call: tuple[Kind, int, Groups], works: tuple[int, ...]
) -> Iterator[Probe]:
    for some in (0, *works):
        yield _probe(deployment, f"{name}-beside-{some}" if some else name, call, some)


def _probe(deployment: Deployment, name: str, call: tuple[Kind, int, Groups] | None, pieces: int) -> Probe:
    """A call, if any, in flight while pieces of work are done."""
    probe = ProbeBuilder(deployment.ranks, deployment.ranks_per_node)
    inputs = [probe.read(PIECE) for _ in range(pieces)]
    called = None
    if call is not None:
        kind, payload, groups = call
        called = probe.issue(kind, probe.read(operand_size(kind, payload, groups.size)), groups)
    for x in inputs:
        probe.write(nodes.make_sum(x, 8))
    if called is not None:
        probe.write(called)
    return probe.finish(f"beside-{name}", ProbeRole.BESIDE)
