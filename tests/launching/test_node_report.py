"""What is said of launches whose nodes are not alike, or whose clocks do not agree."""

from pathlib import Path

import pytest

from overlayccl_core.launching import fingerprint
from overlayccl_core.launching.node_report import LaunchClock, NodeReport, doubts, nodes_text

A, B = {"cpu": "A", "kernel": "6.1"}, {"cpu": "A", "kernel": "6.2"}
ALIKE = nodes_text([("n0", A), ("n1", A)])


def timed(nodes: str = ALIKE, off_by_us: float = 10.0, shortest_us: float = 1e4) -> LaunchClock:
    return LaunchClock(nodes, off_by_us, shortest_us)


def test_nothing_is_said_of_like_nodes_whose_clocks_agree_nor_of_one_host() -> None:
    assert doubts([timed(), timed()]) == doubts([]) == doubts([timed(nodes="", off_by_us=0.0)] * 2) == []


def test_what_is_kept_is_read(tmp_path: Path) -> None:
    assert NodeReport.read(tmp_path) == NodeReport()
    told = NodeReport(nodes=ALIKE, clock_off_by_ns=1_500, fewest_cores=4)
    told.write(tmp_path)
    assert NodeReport.read(tmp_path) == told and told.columns == {"nodes": ALIKE, "clock_off_by_us": 1.5}


def test_nodes_and_launches_that_are_not_alike_are_each_told() -> None:
    [said] = doubts([timed(nodes_text([("n0", A), ("n1", B)]))])
    assert "n0: cpu A, kernel 6.1 #" in said and "n1: cpu A, kernel 6.2 #" in said
    [said] = doubts([timed(), timed(nodes_text([("n0", B), ("n1", B)]))])
    assert said.count("2 alike: ") == 2 and "kernel 6.1 #" in said and "kernel 6.2 #" in said


def test_clocks_that_may_differ_by_a_notable_share_of_what_was_timed_say_so() -> None:
    assert doubts([timed(off_by_us=100.0)]) == []
    [said] = doubts([timed(), timed(off_by_us=300.0), timed(off_by_us=400.0, shortest_us=1e5)])
    assert all(part in said for part in ("clocks", "300 us", "3.0%", "(10.0 ms)"))


def test_drivers_are_part_of_what_a_node_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "neuron").mkdir()
    (tmp_path / "neuron" / "version").write_text("2.24.7.0\n")
    (tmp_path / "efa").mkdir()
    monkeypatch.setattr(fingerprint, "MODULES", tmp_path)
    parts = fingerprint.node_parts()
    assert parts["neuron-driver"] == "2.24.7.0" and parts["efa-driver"] == "of the kernel"
    assert "nvidia-driver" not in parts and "host" not in parts and parts["cpu"]
