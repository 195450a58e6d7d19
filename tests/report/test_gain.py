"""The waterfall: from developer's step to the chosen one, each change once, nothing lost on the way."""

import pytest

from overlayccl_core.report.arms import Arm, Run
from overlayccl_core.report.gain import changes

US = {"developer": 900.0, "single_graph": 600.0, "hand_bundled": 200.0, "finalist_1": 150.0}


def run_of(us: dict[str, float], chosen: str | None, programs: dict[str, str] | None = None) -> Run:
    arms = {
        name: Arm(
            name=name,
            timed={(0, 0): (t, t)},
            quiet={},
            collectives=None,
            peak_activation_bytes=None,
            programs={("exit", "forward"): programs[name]} if programs else {},
        )
        for name, t in us.items()
    }
    return Run(
        model="m", microbatches=2, arms=arms, deployed=(chosen,) if chosen else (), launches=1, disturbed=0
    )


def test_each_bar_starts_where_the_one_before_ended() -> None:
    first, *middle, last = changes(run_of(US, "finalist_1"))
    assert [step.label for step in middle] == [
        "schedule",
        "merging calls",
        "another primitive",
    ]
    at = first.to_us
    for step in middle:
        assert step.from_us == at
        at = step.to_us
    assert at == last.to_us == 150
    assert [step.ratio.value for step in middle if step.ratio] == pytest.approx([1.5, 3, 4 / 3])


def test_an_arm_that_was_not_trained_is_no_step() -> None:
    without = {name: us for name, us in US.items() if name != "single_graph"}
    labels = [step.label for step in changes(run_of(without, "finalist_1"))]
    assert labels == ["developer", "merging calls", "another primitive", "chosen"]


def test_a_chosen_baseline_ends_the_way_at_itself() -> None:
    labels = [step.label for step in changes(run_of(US, "hand_bundled"))]
    assert labels == ["developer", "schedule", "merging calls", "chosen"]
    assert [step.label for step in changes(run_of(US, "single_graph"))][1:-1] == ["schedule"]


def test_nothing_chosen_or_developer_chosen_has_no_changes() -> None:
    assert changes(run_of(US, None)) == []
    assert [step.label for step in changes(run_of(US, "developer"))] == ["developer", "chosen"]


def test_a_finalist_that_is_an_arm_of_people_ends_the_way_there() -> None:
    programs = {**{name: name for name in US}, "finalist_1": "hand_bundled"}
    first, *middle, last = changes(run_of(US, "finalist_1", programs))
    assert [step.label for step in middle] == ["schedule", "merging calls"]
    assert middle[-1].to_us == last.to_us == 150 and first.to_us == 900
    programs["finalist_1"] = "developer"
    assert len(changes(run_of(US, "finalist_1", programs))) == 2
