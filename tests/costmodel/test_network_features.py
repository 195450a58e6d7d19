"""What is counted of calls across nodes, by hand."""

import pytest

from overlayccl_core.costmodel.features import BEYOND_BYTES, Increment, features
from overlayccl_core.probes.probe import ProbeBuilder
from overlayccl_core.program import nodes
from overlayccl_core.program.kinds import Kind


@pytest.mark.parametrize(
    ("kind", "work", "through"),
    [
        (Kind.ALL_TO_ALL, True, 2 * 2 * 8),
        (Kind.ALL_TO_ALL, False, None),
        (Kind.ALL_REDUCE, True, None),
    ],
)
def test_an_exchange_across_nodes_after_local_work_may_be_half_duplex(
    kind: Kind, work: bool, through: int | None
) -> None:
    """Two ranks of a node send 8 of their 32 bytes to each of two others, entering one after another."""
    probe = ProbeBuilder(4, 2)
    x = probe.read(8)
    probe.write(probe.issue(kind, nodes.make_scale(x, 3) if work else x))
    amounts = {c.increment: v for c, v in features(probe.finish("one").program).items()}
    assert amounts.get(Increment.HALF_DUPLEX) == through


@pytest.mark.parametrize(
    ("elements", "amounts"), [(2**10, {}), (2**13, {"16KiB": 8}), (2**16, {"16KiB": 176})]
)
def test_the_bytes_through_a_card_beyond_buffers_are_counted_by_call(
    elements: int, amounts: dict[str, int]
) -> None:
    """A node sends three quarters of what a gather across two gives: 3, 24 or 192 KiB."""
    probe = ProbeBuilder(4, 2)
    probe.write(probe.issue(Kind.ALL_GATHER, probe.read(elements // 4)))
    found = {
        c.name: v for c, v in features(probe.finish("one").program).items() if c.increment is Increment.BEYOND
    }
    assert found.get("network_card_beyond.16KiB.bytes", 0) == 1024 * amounts.get("16KiB", 0)
    assert len(found) == sum(0.75 * 4 * elements > size for size in BEYOND_BYTES)


def test_permutes_in_flight_together_share_what_buffers_hide() -> None:
    """One rank of a node sends 12 KiB to another node: three at once are 36, of which 20 are beyond 16."""
    for together, beyond in ((True, 20), (False, 0)):
        probe = ProbeBuilder(4, 2)
        made = []
        for _ in range(3):
            made.append(probe.issue(Kind.COLLECTIVE_PERMUTE, probe.read(3 * 2**10)))
            if not together:
                probe.write(made.pop())
        for x in made:
            probe.write(x)
        found = {
            c.name: v
            for c, v in features(probe.finish("one").program).items()
            if c.increment is Increment.BEYOND
        }
        assert found.get("network_card_beyond.16KiB.bytes", 0) == 1024 * beyond
