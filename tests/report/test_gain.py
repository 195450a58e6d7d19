"""The waterfall: from developer's step to that of what is deployed, each change once, nothing lost on the way."""

import pytest

from overlayccl_core.report.gain import Change, changes
from tests.report.test_worth import beside, deployed, worth
from tests.rows import Row

HAND = {"developer": 9.0, "single_graph": 6.0, "hand_bundled": 2.0, "best_known_way": 1.5}


def by_hand(microbatches: int = 2, **without: float) -> list[Row]:
    return [
        beside(microbatches, arm, ratio, ratio - 0.1, ratio + 0.1) for arm, ratio in (HAND | without).items()
    ]


def labels(steps: list[Change]) -> list[str]:
    return [step.label for step in steps]


def test_each_bar_starts_where_the_one_before_ended() -> None:
    first, *middle, last = changes(worth(deployed(), *by_hand()))
    assert labels(middle) == ["schedule", "merging calls", "another strategy", "search"]
    at = first.to_us
    for step in middle:
        assert step.from_us == at
        at = step.to_us
    assert at == last.to_us == 1e5
    assert first.speedup is not None and first.speedup.value == pytest.approx(9)


def test_it_begins_where_developer_alone_is_fastest_and_another_split_is_a_step() -> None:
    first, second, *_ = changes(worth(deployed(), *by_hand(), beside(1, "developer", 3.0, 2.9, 3.1)))
    assert first.to_us == 3e5 and (second.label, second.to_us) == ("M = 2", 9e5)


def test_an_arm_that_was_not_timed_or_runs_a_plainer_ones_programs_is_no_step() -> None:
    rows = [one | ({"ran_as": "single_graph"} if one["arm"] == "hand_bundled" else {}) for one in by_hand()]
    del rows[-1]
    assert labels(changes(worth(deployed(), *rows))) == ["developer", "schedule", "search", "deployed"]


def test_what_people_write_ends_the_way_at_itself() -> None:
    mine = deployed(ran_as="hand_bundled", needs_search=False)
    first, *middle, last = changes(worth(mine, *by_hand(), chosen="hand_bundled"))
    assert labels(middle) == ["schedule", "merging calls"]
    assert middle[-1].to_us == last.to_us == 1e5 and first.to_us == 9e5


def test_developers_own_calls_have_no_gain_but_another_split_may() -> None:
    mine = deployed(ran_as="developer", needs_search=False)
    own = beside(2, "developer", 1.0, 0.99, 1.01)
    assert labels(changes(worth(mine, own, chosen="developer"))) == ["developer", "deployed"]
    whole = worth(mine, own, beside(1, "developer", 0.9, 0.8, 1.2), chosen="developer")
    assert labels(changes(whole)) == ["developer", "M = 2", "deployed"]


def test_without_developer_or_what_is_deployed_there_are_no_changes() -> None:
    assert changes(worth(deployed())) == changes(worth(*by_hand())) == []
