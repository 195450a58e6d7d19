"""Whose clock the ranks of an agent follow."""

import socket

import pytest

from overlayccl_core.launching import clock, node_agent
from overlayccl_core.launching.lines import Lines


@pytest.mark.parametrize(("boot", "server"), [(clock.boot(), None), ("another", ("10.0.0.1", 7))])
def test_ranks_of_another_kernel_follow_the_first_nodes_clock(
    boot: str, server: tuple[str, int] | None
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        agent = node_agent._Agent(Lines(ours), "10.0.0.1")
        assert agent._clock_server({"boot": boot, "clock": 7}) == server
