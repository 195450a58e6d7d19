"""Ways that are open: what ranks find while they train, and that all of them make each call in the same way."""

import json
import re
import subprocess
import sys
import threading
from datetime import timedelta
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist

from overlayccl_core import catalog
from overlayccl_core.configuration.deployment import load
from overlayccl_core.process_group.descent import FEWEST, TunedArm
from overlayccl_core.process_group.online import (
    ABSENT,
    COLD,
    LONGEST,
    SETTLED,
    CallPlan,
    Findings,
    Tuner,
    told,
)
from overlayccl_core.process_group.parts import Key
from overlayccl_core.process_group.ways import ProvenWays
from overlayccl_core.tuning.open_ways import module_of, rows_of
from overlayccl_core.tuning.space import space_of
from tests.process_group.online_rank import CALLS, ELEMENTS, FAST

SCRIPT = Path(__file__).with_name("online_rank.py")
KEY = Key("all_reduce", "sum", "float32", 8, 2)
OTHER = KEY._replace(hosts=2)
ARMS = [TunedArm("plain", "as_written", 1), TunedArm("ring", "ring", 1), TunedArm("ring_in_2", "ring", 2)]


def tuners(
    digest: str = "ways", store: dist.Store | None = None, name: str = "a call", **leader: Any
) -> tuple[Tuner, Tuner]:
    """A leader, and a rank that follows, with a store between them."""
    store = store or dist.HashStore()
    two = (
        Tuner(KEY, name, ARMS, store, "ways", leads=True, **leader),
        Tuner(KEY, name, ARMS, store, digest, leads=False),
    )
    for tuner in two:
        tuner.end_step()
    return two


CLOCK = SimpleNamespace(now=0.0)


def calls(
    count: int, leader: Tuner, other: Tuner, *, step_s: dict[str, float] | None = None, **seconds: float
) -> list[str]:
    """Make calls on both, the leader first. Returns the ways, which must be the same.

    Args:
        seconds: Of a call in each way; else 1.
        step_s: The script goes on beside the call, and so long passes until the next.
    """
    ways = []
    for _ in range(count):
        way = leader.way(CLOCK.now, is_awaited=step_s is None)
        assert other.way(7.0) == way
        leader.took(seconds.get(way, 1.0))
        other.took(9.0)  # only the leader's times count
        CLOCK.now += 1.0 if step_s is None else step_s.get(way, 1.0)
        ways.append(way)
    return ways


def test_all_ranks_make_each_call_in_the_way_that_the_leader_says() -> None:
    leader, other = tuners()
    ways = calls(COLD + 32, leader, other, ring=0.5, ring_in_2=0.4)
    assert set(ways[:COLD]) == {"plain"}
    turns = [ways[n : n + 2] for n in range(COLD, COLD + 2 * FEWEST, 2)]
    assert all(set(two) == {"plain", "ring"} for two in turns)
    assert ways[-1] == "ring_in_2" and leader.found == ARMS[2]
    assert "ring_in_2 (2 of 2 ways tried in" in told(leader)


def test_a_rank_that_follows_never_reads_ahead_of_the_leader() -> None:
    leader, other = tuners()
    for _ in range(COLD):
        for one in (leader, other):
            one.way(0.0)
            one.took(1.0)
    other._store.set_timeout(timedelta(milliseconds=50))
    with pytest.raises(dist.DistStoreError):
        other.way(0.0)  # the plan is not there before the leader's own call
    leader.way(0.0)
    assert other.way(0.0) in ("plain", "ring")


def test_plans_of_a_group_that_was_destroyed_are_not_those_of_its_successor() -> None:
    leader, other = tuners()
    calls(COLD + 64, leader, other, ring=0.5)
    again, follows = tuners(store=leader._store, name="a call of its successor")
    calls(COLD, again, follows)
    follows._store.set_timeout(timedelta(milliseconds=50))
    with pytest.raises(dist.DistStoreError):
        follows.way(0.0)


def test_a_plan_of_other_ways_or_with_a_flipped_bit_is_refused() -> None:
    leader, other = tuners(digest="others")
    calls(COLD, leader, other)
    leader.way(0.0)
    with pytest.raises(RuntimeError, match=r"plan of the leader for call 8 .* is not of these ways"):
        other.way(0.0)
    leader, other = tuners()
    calls(COLD, leader, other)
    leader.way(0.0)
    name = f"overlayccl: plan of a call, {COLD}"
    leader._store.set(name, leader._store.get(name).decode().replace("ring", "rinG"))
    with pytest.raises(RuntimeError, match="is not of these ways"):
        other.way(0.0)


def test_where_times_change_all_ways_are_tried_again() -> None:
    leader, other = tuners()
    calls(COLD + 64, leader, other, ring=0.5, ring_in_2=0.4)
    assert leader.found == ARMS[2]
    calls(64 * SETTLED, leader, other, ring_in_2=0.4)
    assert not leader.reopened
    calls(48 * SETTLED, leader, other, ring_in_2=1.5)
    assert len(leader.reopened) == 1 and leader.found == ARMS[1]


def test_a_way_on_trial_is_the_first_of_a_pair_as_often_as_the_second_whatever_the_other_pairs() -> None:
    plans = [CallPlan(n, n + 12, "best", "trial", 3) for n in range(0, 12_000, 12)]
    for plan in plans[:50]:
        halves = [[plan.way(plan.first + 3 * half + at, "a") for at in range(3)] for half in range(4)]
        assert (
            all(len(set(half)) == 1 for half in halves) and halves[0] != halves[1] and halves[2] != halves[3]
        )
    first = {
        name: [plan.way(plan.first + 6 * pair, name) == "trial" for plan in plans for pair in range(2)]
        for name in ("a", "b")
    }
    alike = [one == other for one, other in zip(first["a"], first["b"], strict=True)]
    in_a_plan = [one == other for one, other in zip(first["a"][::2], first["a"][1::2], strict=True)]
    for share in (first["a"], alike, in_a_plan):
        assert 0.45 < sum(share) / len(share) < 0.55


def test_a_call_that_fails_on_a_rank_counts_there_and_its_pair_does_not() -> None:
    leader, other = tuners()
    calls(COLD, leader, other)
    for call in range(4):
        assert leader.way(0.0) == other.way(0.0)
        if call != 1:
            leader.took(0.5)
    assert leader.way(0.0) == other.way(0.0) and leader.descent._pairs == [0.0]


def test_what_was_found_is_where_the_next_run_begins(tmp_path: Path) -> None:
    leader, other = tuners()
    kept = Findings(tmp_path / "found", 0, {"ways": "a"})
    calls(COLD + 1, leader, other)
    kept.add("key", "", leader)
    assert Findings(tmp_path / "found", 0, {"ways": "a"}).begin("key", KEY, "", ARMS) == (None, [])
    [row] = json.loads((tmp_path / "found/tuned-0.json").read_text())["calls"].values()
    assert row["us"] is None and not row["done"]
    calls(64, leader, other, ring=0.5, ring_in_2=0.4)
    kept.add("key", "", leader)
    calls(4 * SETTLED, leader, other, ring_in_2=0.4)
    kept.add("key", "", leader)
    [row] = json.loads((tmp_path / "found/tuned-0.json").read_text())["calls"].values()
    assert row["us"] == pytest.approx(0.4e6)
    again = Findings(tmp_path / "found", 0, {"ways": "a"})
    assert (
        again.begin("key", KEY, "", ARMS)[0] == ARMS[2] and again.begin("other", OTHER, "", ARMS)[0] is None
    )
    assert again.begin("key", KEY, "", ARMS[:2])[0] is None
    assert again.begin("of other ranks", KEY, "", ARMS)[0] == ARMS[2]  # the same state
    assert again.begin("of other ranks", KEY, "tp", ARMS)[0] is None
    for other_place in (
        Findings(tmp_path / "found", 0, {"ways": "b"}),
        Findings(tmp_path / "found", 1, {"ways": "a"}),
    ):
        assert other_place.begin("key", KEY, "", ARMS) == (None, [])
    leader, other = tuners(found=ARMS[2])
    assert set(calls(SETTLED, leader, other)[COLD:]) == {"ring_in_2"}
    (tmp_path / "found" / "tuned-0.json").write_text("{")
    with pytest.raises(ValueError, match=r"tuned-0.json is no file of findings .* remove it"):
        Findings(tmp_path / "found", 0, {"ways": "a"})


def test_a_run_that_ends_early_goes_on_in_the_next(tmp_path: Path) -> None:
    first, follows = tuners(keep=lambda: kept.add("key", "", first))
    kept = Findings(tmp_path, 0, {})
    while not first.descent.trials:
        calls(2, first, follows, ring=0.5, ring_in_2=0.4)
    assert first.found is None
    found, known = Findings(tmp_path, 0, {}).begin("key", KEY, "", ARMS)
    assert found is None and known == first.descent.trials
    again, follows = tuners(known=known)
    assert set(calls(COLD + 40, again, follows, ring=0.5, ring_in_2=0.4)[COLD:]) == {"ring", "ring_in_2"}
    assert again.found == ARMS[2]


def test_a_call_that_comes_no_more_gives_its_turn_to_others() -> None:
    turn = threading.Lock()
    leader, other = tuners(turn=turn)
    calls(COLD + 2, leader, other, step_s={})
    for _ in range(ABSENT):
        assert turn.locked()
        leader.end_step()
    leader.end_step()
    assert not turn.locked()


def test_the_calls_of_a_training_step_are_one_half_of_a_pair() -> None:
    leader, other = tuners()
    ways = []
    for _ in range(20):
        ways.append(calls(4, leader, other))
        leader.end_step()
    assert [len(set(step)) for step in ways] == [1] * 20
    assert {*map(tuple, ways[4:6])} == {("plain",) * 4, ("ring",) * 4}


def test_a_call_beside_others_is_judged_by_the_time_of_the_step() -> None:
    leader, other = tuners()
    calls(COLD + 64, leader, other, step_s={"ring_in_2": 0.5}, ring=0.1, plain=0.2)
    assert leader.found == ARMS[2]  # by its own time `ring` would be


def test_of_calls_beside_others_one_is_on_trial_at_a_time_until_all_have_settled() -> None:
    turn = threading.Lock()
    leaders = [
        Tuner(KEY, f"call {n}", ARMS, dist.HashStore(), "ways", leads=True, turn=turn) for n in range(2)
    ]
    were_on_trial = [0, 0]
    while None in [leader.found for leader in leaders]:
        ways = [leader.way(CLOCK.now, is_awaited=False) for leader in leaders]
        CLOCK.now += 0.5 ** ways.count("ring")
        on_trial = [bool(leader._plan.on_trial) for leader in leaders]
        assert on_trial.count(True) <= 1
        were_on_trial = [count + one for count, one in zip(were_on_trial, on_trial, strict=True)]
        for leader in leaders:
            leader.end_step()
    assert [leader.found for leader in leaders] == [ARMS[1]] * 2 and min(were_on_trial) > 0
    assert not turn.locked()


def test_a_group_that_is_destroyed_gives_its_turn_to_others() -> None:
    turn = threading.Lock()
    leader, other = tuners(turn=turn)
    calls(COLD + 2, leader, other, step_s={})
    assert turn.locked()
    leader.close()
    assert not turn.locked()


def test_nothing_is_tried_in_the_first_training_step() -> None:
    store = dist.HashStore()
    leader = Tuner(KEY, "a call", ARMS, store, "ways", leads=True)
    ways = [leader.way(float(now)) for now in range(3 * LONGEST)]
    assert set(ways[:LONGEST]) == {"plain"} and "ring" in ways[LONGEST:]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the open ways of one all_reduce."""
    folder = tmp_path_factory.mktemp("online")
    (folder / "ways").mkdir()
    entry = {"calls": [{"kind": "all_reduce_sum", "elements": ELEMENTS}]}
    case = catalog.case("captured", entry, ranks=2, ranks_per_node=2)
    space = {case: space_of(catalog.build(case), None, None)}
    (folder / "ways/captured.py").write_text(module_of(space, load("config/deployments/local-2.yaml")))
    (folder / "ways/ways.json").write_text(rows_of(space))
    return folder


def ran(folder: Path, course: str) -> tuple[list[str], str]:
    """Two ranks: the ways of their calls, which must be the same (and the results right), and what was said."""
    for store in folder.glob("store-*"):
        store.unlink()
    ranks = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(folder), str(rank), course], stderr=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    try:
        errors = [rank.communicate(timeout=60)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], errors
    mine, theirs = (json.loads((folder / f"{course}-{rank}.json").read_text()) for rank in range(2))
    assert mine["wrong"] == theirs["wrong"] == 0 and mine["made"] == theirs["made"]
    return mine["made"], errors[0]


@pytest.mark.ranks
def test_ranks_find_the_fastest_way_while_they_go_on(folder: Path) -> None:
    made, said = ran(folder, "finds")
    families = {arm.family for arms in ProvenWays(folder / "ways").arms.values() for arm in arms}
    assert len(made) == CALLS and set(made[-50:]) == {FAST}
    assert {re.sub(r"_in_\d$", "", way).replace("plain", "as_written") for way in made} == families
    assert f"all_reduce of {ELEMENTS} float32 on 2 ranks: {FAST} (" in said
    where = json.loads((folder / "found-finds/tuned-0.json").read_text())["where"]
    assert where["torch"] == metadata.version("torch")
    again, said = ran(folder, "finds")  # it begins with what was found
    assert set(again[COLD:]) == {FAST} and "0 of" in said


@pytest.mark.ranks
def test_what_a_way_costs_the_rest_of_a_step_counts_where_calls_go_on_beside_it(folder: Path) -> None:
    made, _ = ran(folder, "steps")
    steps = [made[n : n + 2] for n in range(COLD, len(made) - 1, 2)]
    assert all(len(set(step)) == 1 for step in steps)  # the calls of a step are made alike
    assert FAST in made and set(made[-20:]) == {"plain"}


@pytest.mark.ranks
def test_ranks_see_that_another_way_is_the_fastest_now(folder: Path) -> None:
    made, said = ran(folder, "changes")
    assert set(made[CALLS // 2 - 10 : CALLS // 2]) == {FAST} and "begun again at call" in said


@pytest.mark.ranks
def test_a_new_group_of_the_same_ranks_begins_with_what_was_found(folder: Path) -> None:
    made, _ = ran(folder, "again")
    mine, theirs = (json.loads((folder / f"again-{rank}.json").read_text())["plans"] for rank in range(2))
    assert mine == theirs and len(set(mine)) == 2  # else one could read plans of a group that is gone
    second = made[made.index("a new group") + 1 :]
    assert set(second[COLD:]) == {FAST}
