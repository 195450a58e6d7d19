"""What who asks for a launch makes of what agents say, and of those that say nothing any more."""

import socket
import time
from pathlib import Path

import pytest

from overlayccl_core.launching import agents, nodes, processes
from overlayccl_core.launching.failures import Failure, LaunchError
from overlayccl_core.launching.local_ranks import NODES_LOG
from overlayccl_core.launching.node_report import NodeReport
from overlayccl_core.tables.plain import plain
from overlayccl_core.timing.partial import Evidence, at_work
from tests.launching.agents_in_words import Agent, Script, asked, speaking
from tests.timing.batches import two_nodes

FASTER = 40  # than real ends
ELSEWHERE = "127.0.0.2"  # this host, too, at another address


well = Agent.launch  # from its beginning to its end


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that failed all have said so at once."""
    monkeypatch.setattr(nodes, "REPORT_PATIENCE_S", 0.5)


def gone(agent: Agent) -> None:
    """It hears of a launch, and is gone."""
    agent.is_asked()
    agent.lines.close()


def silent(agent: Agent) -> None:
    """It hears of a launch and says nothing."""
    agent.is_asked()


def gone_at_the_end(agent: Agent) -> None:
    """Its ranks are done, and it is gone when they are to go."""
    agent.begin()
    agent.finish()
    agent.hear()
    agent.lines.close()


def breaks_off(agent: Agent) -> None:
    """It ends its ranks when it is told to."""
    agent.begin()
    agent.until("break off")
    agent.say(ended=0.0)


def beats(agent: Agent) -> None:
    """It says that it is there, and ends its ranks when it is told to."""
    agent.begin()
    while "break off" not in (agent.lines.receive(0.2) or {}):
        agent.say(rows=[])
    agent.say(ended=0.0)


def test_a_launch_gives_the_share_of_the_node_where_it_was_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with speaking(monkeypatch, well, well):
        assert nodes.run(two_nodes(), asked(tmp_path)) == 0.125


@pytest.mark.parametrize(
    ("scripts", "node"), [((gone, breaks_off), 0), ((breaks_off, gone), 1), ((well, gone_at_the_end), 1)]
)
def test_an_agent_that_is_lost_before_its_ranks_begin_or_when_they_are_to_go_is_named(
    scripts: tuple[Script, Script], node: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = f"node n{node} was lost, with ranks {2 * node} to {2 * node + 1} of 4"
    with speaking(monkeypatch, *scripts), pytest.raises(LaunchError, match=said) as error:
        nodes.run(two_nodes(), asked(tmp_path))
    assert error.value.kind is Failure.LAUNCHER


@pytest.mark.parametrize(
    ("bound", "says"), [("ANSWER_S", silent), ("SILENT_S", Agent.begin)], ids=["begin", "later"]
)
def test_an_agent_that_says_nothing_is_lost(
    bound: str, says: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, bound, 0.3)
    monkeypatch.setattr(nodes, "END_S", 0.2)
    begun = time.monotonic()
    with speaking(monkeypatch, says, silent), pytest.raises(LaunchError, match="node n0 was lost"):  # type: ignore[arg-type]
        nodes.run(two_nodes(), asked(tmp_path))
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize("fails", [False, True])
def test_a_node_whose_ranks_end_slowly_is_not_lost(
    fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says nothing while it ends them: ranks give the memory of their accelerators back before they are gone."""
    slowly = processes.KILLED_S / FASTER

    def slow(agent: Agent) -> None:
        agent.begin()
        if not fails:
            agent.finish()
            agent.until("all done")
        time.sleep(slowly)
        failed = LaunchError("rank 2 of 4 died", kind=Failure.CRASHED, ranks=(2,), job="first")
        agent.say(**({"failed": plain(failed)} if fails else {"ended": 0.5}))

    for bound in ("SILENT_S", "END_S"):
        monkeypatch.setattr(nodes, bound, getattr(nodes, bound) / FASTER)
    with speaking(monkeypatch, beats if fails else well, slow):
        if not fails:
            assert nodes.run(two_nodes(), asked(tmp_path)) == 0.5
        else:
            with pytest.raises(LaunchError, match="n1: rank 2 of 4 died") as error:
                nodes.run(two_nodes(), asked(tmp_path))
            assert error.value.job == "first"


def test_the_end_of_a_launch_before_does_not_end_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first launch fails on the second node; the first tells in the next one how its own ended."""

    def fails(agent: Agent) -> None:
        agent.begin()
        failed = LaunchError("rank 3 of 4 died", kind=Failure.CRASHED, ranks=(3,))
        agent.say(failed=plain(failed))
        agent.launch()

    def late(agent: Agent) -> None:
        agent.begin()
        agent.until("break off")
        agent.say(failed=plain(LaunchError("ranks 0, 1 of 4 raised", kind=Failure.RAISED, ranks=(0,))))
        agent.begin()
        agent.say(number=1, ended=0.75)
        time.sleep(0.3)
        agent.finish()
        agent.until("all done")
        time.sleep(0.3)
        agent.say(ended=0.25)

    with speaking(monkeypatch, late, fails) as told:
        with pytest.raises(LaunchError, match="n1: rank 3 of 4 died"):
            nodes.run(two_nodes(), asked(tmp_path))
        assert nodes.run(two_nodes(), asked(tmp_path)) == 0.25
    assert len(told) == 1, "the agents of the launch before"


def test_strangers_are_sent_away_and_hold_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some say nothing, or not all of it; some no JSON, or no object; some have another token; one hangs up."""
    strangers: list[socket.socket] = []
    another = '{"token": "ü", "node": 0, "host": "x", "parts": {}}\n'.encode()

    def first(towards: tuple[str, int]) -> None:
        socket.create_connection(towards).close()
        for said in (b"", b"", b'{"token": ', b"GET / HTTP/1.1\n", b"[1]\n", b"[" * 10**5 + b"\n", another):
            strangers.append(socket.create_connection(towards))
            strangers[-1].sendall(said)

    begun = time.monotonic()
    with speaking(monkeypatch, well, well, first=first):
        nodes.run(two_nodes(), asked(tmp_path))
    assert time.monotonic() - begun < agents.INTRODUCTION_S
    for stranger in strangers:
        assert stranger.recv(1) == b"", "sent away"
        stranger.close()


def test_strangers_who_say_nothing_are_sent_away_while_others_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "INTRODUCTION_S", 0.2)

    def late(towards: tuple[str, int]) -> None:
        with socket.create_connection(towards) as stranger:
            stranger.settimeout(5.0)
            assert stranger.recv(1) == b""
        sent_away.append(True)

    sent_away: list[bool] = []
    with speaking(monkeypatch, well, well, second=late):
        nodes.run(two_nodes(), asked(tmp_path))
    assert sent_away


def test_only_the_address_that_nodes_need_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[str] = []

    def first(towards: tuple[str, int]) -> None:
        try:
            socket.create_connection((ELSEWHERE, towards[1])).close()
        except ConnectionRefusedError:
            refused.append("agents")

    def asks_the_time(agent: Agent) -> None:
        agent.begin()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.settimeout(1.0)
            try:
                asking.sendto(bytes(8), (ELSEWHERE, agent.asked["clock"]))
                asking.recvfrom(64)  # from whichever address
            except OSError:
                refused.append("clock")
        agent.finish()
        agent.until("all done")
        agent.say(ended=0.0)

    with speaking(monkeypatch, well, asks_the_time, first=first) as told:
        nodes.run(two_nodes(), asked(tmp_path))
    assert refused == ["agents", "clock"] and told[0][0] == "127.0.0.1"


def test_the_evidence_is_that_of_the_node_whose_rank_began_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(agent: Agent) -> None:
        agent.begin()
        (work / agent.asked["log"]).write_text("Killed")
        agent.say(failed=plain(LaunchError("rank 2 of 4 died", kind=Failure.CRASHED, ranks=(2,))))

    work, evidence = tmp_path / "launch-0", Evidence(logs=tmp_path / "logs", name="bench")
    with (
        speaking(monkeypatch, breaks_off, fails, printed=b"srun: error: n1: task 1: Killed\n"),
        pytest.raises(LaunchError, match="n1: rank 2 of 4 died") as error,
        at_work(work, evidence) as folder,
    ):
        (folder / "launch.log").write_text("of the first node")
        nodes.run(two_nodes(), asked(folder))
    assert error.value.evidence is not None and error.value.evidence.read_text() == "Killed"
    assert str(error.value.evidence) in str(error.value)
    assert (error.value.evidence.parent / NODES_LOG).read_text() == "srun: error: n1: task 1: Killed\n"


def test_nodes_that_do_not_all_come_leave_what_was_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "ANSWER_S", 0.5)
    said = r"1 of 2 nodes answered, .* silent for 0 s \(the last it printed: srun: error: n1\)"
    evidence = Evidence(logs=tmp_path / "logs", name="bench")
    with (
        speaking(monkeypatch, well, printed=b"srun: job 7\nsrun: error: n1\n"),
        pytest.raises(LaunchError, match=said) as error,
        at_work(tmp_path / "launch-0", evidence) as folder,
    ):
        nodes.run(two_nodes(), asked(folder))
    assert error.value.evidence is not None and error.value.evidence.name == NODES_LOG


def test_what_nodes_are_and_how_far_their_clocks_may_differ_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launch that is cut off has what was known until then, so the folder has it as the launch goes."""
    seen: list[NodeReport] = []

    def drifts(agent: Agent) -> None:
        agent.begin(off_by_ns=2_000)
        agent.say(off_by_ns=3_000)
        agent.finish()
        agent.until("all done")
        seen.append(NodeReport.read(tmp_path))
        agent.say(ended=0.0, off_by_ns=5_000)

    with speaking(
        monkeypatch,
        lambda agent: agent.launch(off_by_ns=1_000),
        drifts,
        second_node={"cpu": "another", "cores": "1"},
    ):
        nodes.run(two_nodes(), asked(tmp_path))
    assert [seen[0].clock_off_by_ns, NodeReport.read(tmp_path).clock_off_by_ns] == [4_000, 6_000]
    assert (
        seen[0].nodes.startswith("n0: cpu alike, cores 8 #")
        and "; n1: cpu another, cores 1 #" in seen[0].nodes
    )
    assert seen[0].cores == 1


def test_each_rail_of_a_node_has_an_agent_and_the_report_has_a_line_for_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts: list[tuple[int, int]] = []

    def of_a_rail(agent: Agent) -> None:
        agent.launch()
        parts.append((agent.asked["part"]["first"], agent.asked["part"]["count"]))

    with speaking(monkeypatch, *[of_a_rail] * 4, rails=2):
        nodes.run(two_nodes(), asked(tmp_path))
    assert sorted(parts) == [(0, 1), (1, 1), (2, 1), (3, 1)]
    assert NodeReport.read(tmp_path).nodes.startswith("2 alike: ")


def test_rails_that_do_not_all_come_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "ANSWER_S", 0.5)
    with (
        speaking(monkeypatch, well, well, well, rails=2),
        pytest.raises(LaunchError, match="3 of 4 rails answered"),
    ):
        nodes.run(two_nodes(), asked(tmp_path))
