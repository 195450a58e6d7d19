"""The search at a cluster's size, on a Case that is small: what it makes up fits the tables that stages read."""

from dataclasses import replace

import pytest

from benchmarks import cluster, made_up
from benchmarks.examples import example
from overlayccl_core.configuration import topology
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.program.kinds import DType
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.rows import frame_of
from tests.capabilities import call

GIB = 2**30


@pytest.fixture(scope="module")
def library() -> Capabilities:
    """What is made up of seven nodes of 32 ranks."""
    of = topology.load(cluster.TOPOLOGY)
    rows = made_up.capabilities(of, made_up.deployment(of, 7))
    return Capabilities.from_rows(frame_of(rows, CAPABILITIES.schema, "capabilities").iter_rows(named=True))


@pytest.mark.parametrize(
    ("operation", "size", "stride", "payload_bytes", "supported"),
    [
        ("all_reduce", 224, 1, 8 * GIB, True),
        ("all_reduce", 224, 1, 8 * GIB + 1, False),
        ("all_reduce_max", 7, 32, 1, True),
        ("all_gather", 7, 32, 2 * GIB + 1, False),
        ("all_to_all", 32, 1, 1, True),
        ("all_to_all", 7, 32, 1, False),
        ("all_to_all", 224, 1, 1, False),
        ("collective_permute", 224, 1, 1, False),
    ],
)
def test_the_library_that_is_made_up_refuses_what_is_published(
    library: Capabilities, operation: str, size: int, stride: int, payload_bytes: int, supported: bool
) -> None:
    asked = call(operation, (size, stride), DType.BFLOAT16, payload_bytes)
    assert library.supports(asked).supported is supported


def test_a_small_case_goes_from_its_known_ways_to_its_shortlist() -> None:
    rows, took = cluster.searched(replace(example("ring_kv", "small", ranks=4), uniform=True))
    assert [row.direction for row in rows] == ["forward", "backward"] and set(took) == set(cluster.STAGES)
    assert all(row.proven and row.listed and row.found_us and row.known_us for row in rows)


def test_a_models_cases_are_searched_each_once() -> None:
    asked = cluster.options().parse_args(["--model", "olmoe-10b", "--problems", "uniform_a2a", "dist_ce"])
    cases = cluster.asked_cases(asked, 224)
    assert all(case.uniform for _, case in cases) and [name for name, _ in cases] == [
        "dist_ce/n224-r32-t256-v32256-f32",
        "uniform_a2a/n224-r32-8.8MiB-bf16",
    ]
