"""`python -m benchmarks tuned`: what it says of a tuner that errs, and that ours stands its trials."""

import os

import numpy as np
import pytest

from benchmarks.tuned import AFTER, REPLAYS, replay
from benchmarks.tuned_trials import EVENTS, trials
from overlayccl_core.process_group.descent import TunedArm
from overlayccl_core.process_group.online import CallPlan, Tuner

ARMS = [TunedArm("plain", "as_written", 1), TunedArm("ring", "ring", 1), TunedArm("leader", "leader", 1)]


@pytest.mark.ranks
def test_late_killed_and_made_again_ranks_neither_hang_nor_differ() -> None:
    lines = list(trials(2 * len(EVENTS), seed=1))
    assert [line.split()[-2:] for line in lines] == [["2", "well"]] * len(EVENTS)


@pytest.mark.ranks
def test_ranks_that_choose_for_themselves_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def own(plan: CallPlan, call: int, _name: str) -> str:
        return plan.on_trial if plan.on_trial and (call + int(os.environ["RANK"])) % 40 == 0 else plan.best

    monkeypatch.setattr(CallPlan, "way", own)
    [line, *_] = trials(1)
    assert "1 well" not in line


def test_a_tuner_that_keeps_what_is_slower_has_an_excess(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    seconds = {
        arm.way: mean * random.lognormal(0, 0.1, 100) for arm, mean in zip(ARMS, (1.0, 0.5, 2.0), strict=True)
    }
    found = [replay(ARMS, seconds, seed) for seed in range(5)]
    assert REPLAYS > 5 and AFTER == 500
    assert all(run.trials == 2 and abs(run.excess) < 0.01 and not run.reopened for run in found)
    monkeypatch.setattr(Tuner, "found", property(lambda tuner: ARMS[0] if tuner.calls > 50 else None))
    monkeypatch.setattr(CallPlan, "way", lambda *_: "plain")
    assert 0.9 < replay(ARMS, seconds, 0).excess < 1.1
