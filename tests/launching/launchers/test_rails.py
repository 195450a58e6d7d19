"""Hosts with two links each: a rank sends and receives by its own, and what stays in a host passes none of them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.backends.measured import Job
from overlayccl_core.backends.torchdist import backend
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.launching.fingerprint import part
from overlayccl_core.launching.launchers import namespaces
from overlayccl_core.measuring.statistics import estimate
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.timing.batch import time_programs
from overlayccl_core.timing.selftest import Selftest
from tests.hosts import hosts_or_skip
from tests.launching import rail_worker
from tests.launching.rail_worker import PAYLOAD, RANKS
from tests.timing.batches import batch, settings, silent

TWO_RAILS = load(Path(__file__).parents[3] / "config/deployments/two-rails.yaml")
HOST = 2  # ranks, each with a rail
LITTLE = PAYLOAD // 20  # of barriers


@pytest.fixture(scope="module")
def rails() -> Deployment:
    """The deployment of two hosts of two ranks, each on its own rail; skipped where nobody may make namespaces."""
    return hosts_or_skip(TWO_RAILS)


@pytest.fixture(scope="module")
def seen(rails: Deployment, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each rank saw."""
    folder = tmp_path_factory.mktemp("rails")
    worker = [sys.executable, rail_worker.__file__, str(folder)]
    command = namespaces.on_hosts(RANKS // HOST, str(rails.launcher_options["rate"]), worker, HOST)
    meeting = {"MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29599", "GLOO_SOCKET_IFNAME": "eth0"}
    environment = {**os.environ, **meeting, "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    subprocess.run(command, check=True, env=environment, timeout=120)
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(RANKS)]


@pytest.mark.ranks
def test_a_message_across_leaves_by_the_senders_rail_and_arrives_by_the_receivers(
    seen: list[dict[str, Any]],
) -> None:
    for source in range(RANKS):
        for to in {*range(RANKS)} - {source}:
            across = source // HOST != to // HOST
            for rank, of_rank in enumerate(seen):
                arrived, left = of_rank["passed"][f"{source}-{to}"]["eth0"]
                assert (left > PAYLOAD) is (across and rank == source), (source, to, rank)
                assert (arrived > PAYLOAD) is (across and rank == to), (source, to, rank)
                assert across or max(arrived, left) < LITTLE


@pytest.mark.ranks
def test_a_message_within_a_host_passes_no_shaped_link(seen: list[dict[str, Any]]) -> None:
    for source, to in ((0, 1), (1, 0), (2, 3), (3, 2)):
        assert seen[source]["passed"][f"{source}-{to}"]["inside"][1] > PAYLOAD
        assert seen[to]["passed"][f"{source}-{to}"]["inside"][0] > PAYLOAD


@pytest.mark.ranks
def test_two_rails_carry_two_messages_in_the_time_of_one(seen: list[dict[str, Any]]) -> None:
    """From one rank, or to one rank, they take turns."""
    one, *two = seen[0]["seconds"]
    own_rails, to_one, from_one = (seconds / one for seconds in two)
    assert own_rails < 1.4 and to_one > 1.6 and from_one > 1.6


@pytest.mark.ranks
def test_tiers_and_links_are_as_declared(rails: Deployment, tmp_path: Path) -> None:
    checks = Selftest(deployment=rails, backend=backend, folder=tmp_path, progress=silent)  # type: ignore[arg-type]
    assert checks._tiers()["outcome"] == "pass"
    row = checks._link()
    assert row["outcome"] == "pass" and "of 200 Mbit/s in all_gather" in row["detail"]


@pytest.mark.ranks
def test_a_buffer_to_the_next_rank_is_faster_if_both_rails_carry_what_leaves_the_host(
    rails: Deployment, tmp_path: Path
) -> None:
    """The bound is 2: one of two rails carries all of it, or each a half."""
    case = catalog.case("all_to_next", {"payload": "1MiB"}, ranks=4, ranks_per_node=2)
    programs = {name: replay(Recipe(base=name), catalog.build(case)) for name in ("direct", "scattered")}
    of = [Job(key=name, program=one, source=backend.emit(one)) for name, one in programs.items()]
    told = settings(minimum_rounds=6, maximum_rounds=6)
    timed = time_programs(batch(tmp_path, of, deployment=rails, settings=told), silent)
    us = {one.key: estimate(one.samples_us).value for one in timed}
    assert 1.3 < us["direct"] / us["scattered"] < 2.1
    assert {one.nodes.split()[0] for one in timed} == {"2"}


@pytest.mark.parametrize("rails", [0, 3, -1, "two", ""])
def test_rails_that_ranks_cannot_share_are_refused_with_the_mend(rails: Any) -> None:
    wrong = TWO_RAILS.changed(launcher_options={"rate": "1gbit", "rails": rails})
    assert f"rails: {rails!r} does not divide the 2 ranks of a node: write 2, or 1" in namespaces.refuses(
        wrong
    )


def test_rails_stand_in_the_fingerprint_and_where_there_is_one_nothing_changes() -> None:
    told = backend.fingerprint(TWO_RAILS)
    assert part(told, "links") == "2 a node of 100 Mbit/s emulated"
    assert "launcher options rails=2 rate=100mbit," in told
    one = backend.fingerprint(TWO_RAILS.changed(launcher_options={"rate": "100mbit"}))
    assert part(one, "links") == "100 Mbit/s emulated"
