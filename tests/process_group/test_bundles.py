"""Calls that are sent together: all ranks make the same collectives in one order, whenever each of them waits."""

import atexit
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from hypothesis import given
from hypothesis import strategies as st
from torch.distributed import distributed_c10d as c10d
from torch.nn.parallel import DistributedDataParallel

from overlayccl_core.process_group import seam
from overlayccl_core.process_group.bundles import Bundles, ProvenCall, Walk, is_eager
from overlayccl_core.process_group.group import Group, plain
from overlayccl_core.process_group.parts import Key
from overlayccl_core.process_group.queue import NESTED
from overlayccl_core.process_group.tuned import Tuned
from tests.process_group.proven_ways import write_ways

A, B, C = (Key("all_reduce", "sum", "float32", elements, 2) for elements in (1, 2, 3))
BUNDLES = {(A, B), (A, B, C, A), (A, A)}
OTHER = None  # a call without a proven way


@dataclass
class Step:
    """What a rank does around a call that all ranks make."""

    sends_first: bool
    may_wait: bool
    waits: bool


@dataclass
class Rank:
    """A rank's collectives. `at_hand`: what each vote ends with; itself alone if it is empty."""

    at_hand: list[int] = field(default_factory=list)
    votes: list[int] = field(default_factory=list)
    made: list[Any] = field(default_factory=list)
    later: list[Callable[[], None]] = field(default_factory=list)

    def run(self, calls: Callable[[], None], *, is_awaited: bool) -> None:
        """A queue's."""
        self.later.append(calls)

    def fewest(self, group: Group | None, mine: int) -> int:
        self.votes.append(mine)
        self.made.append("vote")
        return self.at_hand[len(self.votes) - 1] if self.at_hand else mine

    def course(self, keys: list[Key | None], steps: list[Step]) -> "Rank":
        """Make all calls of a script."""
        bundles = Bundles(
            BUNDLES, self.fewest, lambda _, calls: self.made.append(tuple(c.key for c in calls))
        )
        walk, x = Walk(lambda: None, self), torch.zeros(1)  # type: ignore[arg-type]
        for key, step in zip(keys, steps, strict=True):
            if step.sends_first:
                bundles.send_all()  # a send, a call of another group
            if key is OTHER:
                bundles.end(walk)
                self.later.append(lambda: self.made.append(OTHER))
                continue
            call = ProvenCall(key, x, x, lambda call: self.made.append((call.key,)))
            if not bundles.takes(walk, call, may_wait=step.may_wait):
                self.run(call.settle, is_awaited=False)
            if step.waits:
                bundles.send_all()
        bundles.send_all()
        for made in self.later:
            made()
        return self


@given(st.data(), st.lists(st.sampled_from([A, B, C, OTHER]), max_size=12))
def test_ranks_that_wait_at_different_calls_make_the_same_collectives(
    data: st.DataObject, keys: list[Key | None]
) -> None:
    step = st.builds(Step, sends_first=st.booleans(), may_wait=st.booleans(), waits=st.booleans())
    steps = [data.draw(st.lists(step, min_size=len(keys), max_size=len(keys))) for _ in range(3)]
    votes = [Rank().course(keys, mine).votes for mine in steps]
    assert len({len(one) for one in votes}) == 1
    at_hand = [min(of_all) for of_all in zip(*votes, strict=True)]
    made = [Rank(at_hand).course(keys, mine).made for mine in steps]
    assert made[0] == made[1] == made[2]
    in_order = [key for one in made[0] if one != "vote" for key in (one or [OTHER])]
    assert in_order == keys


def test_the_longest_bundle_that_all_ranks_have_goes_out_together() -> None:
    nobody_waits = [Step(False, True, False)] * 5
    assert Rank().course([A, B, C, A, B], nobody_waits).made == ["vote", (A, B, C, A), (B,)]
    assert Rank([3]).course([A, B, C, A, B], nobody_waits).made == ["vote", (A, B), (C,), (A,), (B,)]


def test_calls_from_functions_of_torch_are_told_from_those_of_cpp(monkeypatch: pytest.MonkeyPatch) -> None:
    """DDP takes the future of a call and waits in C++: what its call waits for must be nothing of the script's."""
    monkeypatch.setattr(c10d, "_new_process_group_helper", c10d._new_process_group_helper)
    eager: list[tuple[str, bool]] = []

    def seen(group: Group, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        eager.append((method, is_eager()))
        return plain(group, method, args, kwargs)

    seam.install(lambda: seen, every=True)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        dist.all_reduce(torch.ones(2), async_op=True).wait()
        dist.all_to_all_single(torch.ones(2), torch.ones(2))
        functional.all_reduce(torch.ones(2), "sum", dist.group.WORLD) + 0
        model = DistributedDataParallel(torch.nn.Linear(2, 2), init_sync=False)
        model(torch.ones(1, 2)).sum().backward()
    finally:
        dist.destroy_process_group()
    assert eager[:3] == [("allreduce", True), ("all_to_all_single", True), ("allreduce", False)]
    assert eager[-1] == ("allreduce", False)


def test_no_call_of_ours_is_a_part_of_what_the_script_coalesces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(c10d._world, "_pg_coalesce_state", {})
    monkeypatch.setattr(atexit, "register", lambda _: None)
    Tuned(write_ways(tmp_path / "ways", [("all_reduce_sum", 8)]))
    state = c10d._world.pg_coalesce_state
    state["group"] = []  # type: ignore[index]
    try:
        assert "group" in state
        with NESTED.here():
            assert "group" not in state
    finally:
        state.clear()
