"""What a selftest keeps of an interrupted run, and what it tries last, alone, or not at all."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from overlayccl_core.backends.torchdist import backend
from overlayccl_core.backends.trials import Observed, Trial
from overlayccl_core.configuration.deployment import Tier
from overlayccl_core.configuration.topology import Limit
from overlayccl_core.launching.failures import Failure, LaunchError
from overlayccl_core.program.kinds import FLOATS, Kind
from overlayccl_core.timing.primitives import Primitive
from overlayccl_core.timing.selftest import Selftest, tried_first
from tests.timing.batches import deployment, silent
from tests.timing.libraries import died, right, right_but

NONE_AT_ALL = Limit(operation=Kind.ALL_TO_ALL, most_ranks=1, source="a page")
RunWith = Callable[..., Any]


def test_a_selftest_goes_on_behind_what_was_tried_before(run_with: RunWith) -> None:
    launches: list[list[str]] = []

    def fragile(_: Path, trials: Sequence[Trial]) -> list[Observed]:
        launches.append([trial.job.key for trial in trials])
        for trial in trials:
            if trial.job.key == "all_to_all over 2 of 2 ranks, float16, 32KiB":
                raise died("SIGSEGV", trial)
            if trial.input_tiles and ends:
                raise LaunchError("ranks 0, 1 of 2 did not join", kind=Failure.NOT_JOINED, ranks=(0, 1))
        return right(trials)

    ends = True
    with pytest.raises(LaunchError):
        run_with(fragile)
    ones, small, _alone, _again, large = launches
    launches.clear()
    ends = False
    rows = run_with(fragile)
    assert launches[:2] == [ones, large]
    assert [row["operation"] for row in rows if not row["supported"]] == ["all_to_all"]
    assert len(rows) == len(small)  # what works with a large payload, too, says no more of the library
    with pytest.raises(ValueError, match="computes wrong values"):  # then nothing of before is believed
        run_with(lambda _, trials: [Observed(outputs={}, overwritten="x was") for _ in trials])
    launches.clear()
    run_with(fragile)
    assert small in launches


def test_what_is_over_a_published_limit_comes_last_and_alone_and_is_tried_with_no_larger_payload(
    run_with: RunWith,
) -> None:
    launches: list[list[str]] = []

    def as_published(_: Path, trials: Sequence[Trial]) -> list[Observed]:
        launches.append([trial.job.key for trial in trials])
        for trial in trials:
            if trial.job.key.startswith("all_to_all") and "bfloat16" not in trial.job.key:
                raise died("SIGSEGV", trial)
        return right(trials)

    rows = run_with(as_published, limits=[NONE_AT_ALL])
    moves = [row for row in rows if row["operation"] == "all_to_all"]
    assert len(moves) == len(FLOATS)
    assert [row["dtype"] for row in moves if row["supported"]] == ["bfloat16"]
    named = [names for names in launches if any(one.startswith("all_to_all") for one in names)]
    assert all(len(names) == 1 for names in named) and len({names[0] for names in named}) == len(named)
    assert launches.index(named[0]) > 1
    planned, starts = tried_first(deployment(2), [NONE_AT_ALL])
    assert len([one for one in planned if not one.like]) == len(rows) and starts == len(launches)


def test_tiers_are_not_compared_by_what_the_library_refuses(
    run_with: RunWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    def narrow(trial: Trial) -> Observed | None:
        apart = trial.job.key.startswith("all_gather over 2, 2 ranks apart of 4 ranks, float32")
        return Observed(outputs={}, error="rank 0: RuntimeError: no") if apart else None

    def never(*_: Any) -> Any:
        raise LaunchError("the ranks hang", kind=Failure.HUNG, ranks=(0,))

    monkeypatch.setattr(Selftest, "_time", never)
    row, link = run_with(right_but(narrow), ranks=4, table="selftest")[-2:]
    assert row["outcome"] == link["outcome"] == "not_applicable"
    assert all(part in row["detail"] for part in ("all_gather over 2", "4 ranks", "float32", "64KiB"))


def test_tiers_are_compared_by_groups_of_about_one_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gather over 32 near ranks may well be slower than one over 7 far ones."""
    sizes: dict[str, int] = {}

    def timed(_: Selftest, gathers: Mapping[str, Primitive]) -> dict[str, float]:
        sizes.update({name: gather.call.shape[0] for name, gather in gathers.items()})
        return dict.fromkeys(gathers, 1.0)

    monkeypatch.setattr(Selftest, "_time", timed)
    tiers = (Tier(name="node", ranks=32), Tier(name="network", ranks=224))
    seven = deployment(2).changed(ranks=224, ranks_per_node=32, tiers=tiers, uniform=True)
    Selftest(deployment=seven, backend=backend, folder=tmp_path, progress=silent)._tiers()  # type: ignore[arg-type]
    assert sizes == {"node": 4, "network": 7}
