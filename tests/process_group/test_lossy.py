"""Sums in fewer bytes: on real ranks, all alike; which calls they are; what is kept for which call."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from overlayccl_core.process_group import lossy
from overlayccl_core.process_group.parts import LossySetting
from tests.process_group.lossy_ranks import ELEMENTS, HOW, STEPS, numbers

SCRIPT = Path(__file__).with_name("lossy_ranks.py")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Course -> what each rank wrote; and what the ranks said at their ends."""
    folder = tmp_path_factory.mktemp("lossy")
    command = [sys.executable, str(SCRIPT), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert not done.returncode, done.stderr[-2000:]
    ranks = {
        course: [json.loads((folder / f"{course}-{rank}.json").read_text()) for rank in range(len(of))]
        for course, of in HOW.items()
    }
    return {**ranks, "said": [{"text": done.stderr}]}


@pytest.mark.ranks
def test_sums_of_many_steps_are_those_of_the_library_in_each_place(found: dict[str, Any]) -> None:
    ranks = found["sums"]
    exact = [STEPS * sum(numbers(rank, place).double() for rank in range(3)) for place in (0, 5)]
    exact.append(STEPS * sum(numbers(rank, 9, 5 * ELEMENTS).double() for rank in range(3))[:ELEMENTS] / 3)
    for place, right in enumerate(exact):
        for rank in ranks:
            apart = (torch.tensor(rank["totals"][place]) - right).abs().max()
            assert 0 < apart < 2 * max(ranks[0]["once"]), "what each step loses adds up"
            assert place == 2 or rank["totals"][place] == ranks[0]["totals"][place]  # to the bit


@pytest.mark.ranks
def test_only_large_sums_of_float32_are_made_so(found: dict[str, Any]) -> None:
    for rank in found["sums"]:
        assert rank["stay"] == [True] * 3
        assert rank["made"] == {"int8 all_reduce": 2 * (STEPS + 1), "int8 reduce_scatter": STEPS + 1}


@pytest.mark.ranks
def test_the_groups_that_are_meant_are_those_of_the_setting(found: dict[str, Any]) -> None:
    assert [rank["after"] for rank in found["groups"]] == [[0, 0, 1]] * 4
    assert "no optimizer made a step, so no error was fed back" in found["said"][0]["text"]


@pytest.mark.ranks
def test_groups_that_are_not_meant_have_a_passage_of_their_own(found: dict[str, Any]) -> None:
    for rank in found["beside"]:
        assert rank["after"] == [0, 0, 1]
        seen = [what for what in rank["others"] if what != "waits"]
        assert seen == ["begins", "begins", "allreduce", "allreduce"]
        assert rank["others"][-1] == "waits"  # before a sum in fewer bytes, which ranks may wait for


@pytest.mark.ranks
def test_where_ranks_differ_all_calls_stay_and_one_rank_of_each_setting_warns(found: dict[str, Any]) -> None:
    assert all(rank["apart"] < 1e-6 and not rank["made"] for rank in found["differ"])
    for mine, other, rank in ((0, 1, found["differ"][0]), (1, 0, found["differ"][1])):
        [warned] = [one for one in rank["warned"] if "OVERLAYCCL_LOSSY" in one]
        assert f"ranks [{other}] of a group of 2 have other ways than rank {mine}" in warned
    assert "no sum was compressed: it takes an all_reduce" in found["said"][0]["text"]


def places(monkeypatch: pytest.MonkeyPatch, ranks: int = 2) -> lossy.Places:
    monkeypatch.setattr(lossy.dist, "get_process_group_ranks", lambda _: list(range(ranks)))
    return lossy.Places(SimpleNamespace(), LossySetting.of("int8"))  # type: ignore[arg-type]


def test_a_call_has_what_the_call_in_its_place_lost_a_step_before(monkeypatch: pytest.MonkeyPatch) -> None:
    of, key = places(monkeypatch), ("all_reduce", 5000)
    before = of.next(key, 0)
    first, second, other = of.next(key, 1), of.next(key, 1), of.next(("all_reduce", 6000), 1)
    assert len({id(one) for one in (before, first, second, other)}) == 4
    assert [of.next(key, 2), of.next(key, 2)] == [first, second]
    assert of.next(key, 1 + lossy.FORGOTTEN) is first  # used in step 2
    assert of.next(key, 2 + lossy.FORGOTTEN) is first and of.next(key, 2 + lossy.FORGOTTEN) is not second


def test_without_steps_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    of = places(monkeypatch)
    for _ in range(3):
        of.next(("all_reduce", 5000), 0)
    assert not of._feedback


def test_a_group_of_one_rank_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert places(monkeypatch).is_meant and not places(monkeypatch, ranks=1).is_meant


@pytest.mark.parametrize("said", ["", "int4", "int8:", "int8:4x", "int8:x4", "bf16:4,8", "int8 "])
def test_what_is_no_setting_says_what_is_one(said: str) -> None:
    with pytest.raises(ValueError, match=r"give bf16 or int8, then the groups .*int8:4 \(of 4 ranks\)"):
        LossySetting.of(said)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("int8", {(4, 1), (4, 8), (2, 0)}),
        ("int8:4", {(4, 1), (4, 8)}),
        ("int8:4x8", {(4, 8)}),
        ("bf16:3", set()),
    ],
)
def test_a_setting_means_groups_of_so_many_ranks_so_far_apart(said: str, meant: set[tuple[int, int]]) -> None:
    groups = {(4, 1), (4, 8), (2, 0), (1, 0)}
    assert {one for one in groups if LossySetting.of(said).is_for(*one)} == meant
