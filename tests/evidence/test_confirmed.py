"""The headline of a model: what is deployed, at the count of microbatches that training chose, and its rival."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from overlayccl_core.evidence.confirmed import split_rows
from overlayccl_core.tables.deployed import SPLITS
from overlayccl_core.tables.table import write
from tests.stages.training import train_tables

CASES = {1: "tp_mlp/whole", 8: "tp_mlp/split"}
PROGRAMS = {"developer": "dev", "hand_bundled": "merged", "best_seed": "copies", "finalist_1": "ring"}
TRAINED = {1: "finalist_1", 8: "finalist_1"}
Speeds = Mapping[int, Mapping[str, float]]
MIB = 2**20
QUICK: Speeds = {
    1: {
        "developer": 1680.0,
        "hand_bundled": 1700.0,
        "best_seed": 1320.0,
        "finalist_1": 1210.0,
        "deployed": 1215.0,
    },
    8: {
        "developer": 9000.0,
        "hand_bundled": 2500.0,
        "best_seed": 2200.0,
        "finalist_1": 2000.0,
        "deployed": 2010.0,
    },
}
HELD = {1: 12 * MIB, 8: 13 * MIB}


def tables(
    folder: Path,
    speeds: Speeds,
    *,
    held: Mapping[int, int] = HELD,
    deployed: str = "ring",
    more: Mapping[tuple[int, str], Mapping[str, Any]] | None = None,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(steps, stamps) of a model at 1 and at 8 microbatches. more: columns of an arm's rows that differ."""
    frames = []
    for microbatches, us in speeds.items():
        programs = {**PROGRAMS, "deployed": deployed}
        finalists = pl.DataFrame(
            [
                {
                    "arm": arm,
                    "case": CASES[microbatches],
                    "direction": "forward",
                    "candidate": arm,
                    "program": of,
                }
                for arm, of in programs.items()
                if arm in us
            ]
        )
        wrong = {
            arm: {"peak_activation_bytes": held[microbatches], **(more or {}).get((microbatches, arm), {})}
            for arm in us
        }
        frames.append(
            train_tables(finalists, folder, model="nano", microbatches=microbatches, speeds=us, wrong=wrong)
        )
    steps, stamps = (pl.concat(pair) for pair in zip(*frames, strict=True))
    return steps, stamps


def headline(
    folder: Path, trained: Speeds = QUICK, after: Speeds | None = None, **changes: Any
) -> tuple[dict[str, Any], dict[str, Any] | None, pl.DataFrame]:
    """(the row of what is deployed, that of its rival, all rows)."""
    steps, stamps = tables(folder, trained, **changes)
    confirmed = tables(folder, after or trained, **changes)
    rows = split_rows("nano", TRAINED, steps, stamps, *confirmed)
    frame = write(SPLITS, rows, folder / "splits.parquet")
    [deployed] = frame.filter(part="deployed").iter_rows(named=True)
    rival = next(frame.filter(part="rival").iter_rows(named=True), None)
    return deployed, rival, frame


def test_what_needs_no_search_is_the_rival_at_whatever_split(tmp_path: Path) -> None:
    deployed, rival, frame = headline(tmp_path)
    assert (deployed["arm"], deployed["microbatches"], deployed["needs_search"]) == ("deployed", 1, True)
    assert rival is not None and (rival["arm"], rival["microbatches"]) == ("best_seed", 1)
    assert rival["slower"] == pytest.approx(1320 / 1215, rel=0.02)
    assert rival["slower_low"] < rival["slower"] < rival["slower_high"]
    split = frame.filter(arm="developer", microbatches=8).row(0, named=True)
    assert split["slower"] == pytest.approx(9000 / 1215, rel=0.02) and split["part"] == "beside"


def test_within_noise_the_batch_is_split_into_fewer(tmp_path: Path) -> None:
    """3% faster in three launches that differ by more than that."""
    nearly = {**QUICK[8], "finalist_1": 1180.0, "deployed": 1180.0}
    deployed, _, _ = headline(tmp_path, {1: QUICK[1], 8: nearly})
    assert deployed["microbatches"] == 1


def test_not_splitting_by_the_developers_calls_is_a_rival_of_a_split_that_is_deployed(tmp_path: Path) -> None:
    """The split arms hold the activations of all microbatches: not to split takes no more memory."""
    whole = {**QUICK[1], "finalist_1": 2500.0, "deployed": 2500.0, "best_seed": 2400.0}
    deployed, rival, _ = headline(tmp_path, {1: whole, 8: QUICK[8]})
    assert deployed["microbatches"] == 8
    assert rival is not None and (rival["arm"], rival["microbatches"]) == ("developer", 1)
    assert rival["slower"] == pytest.approx(1680 / 2010, rel=0.02)  # what is deployed loses


def test_what_holds_more_memory_is_no_rival(tmp_path: Path) -> None:
    whole = {**QUICK[1], "finalist_1": 2500.0, "deployed": 2500.0}
    deployed, rival, _ = headline(tmp_path, {1: whole, 8: QUICK[8]}, held={1: 20 * MIB, 8: 13 * MIB})
    assert deployed["microbatches"] == 8
    assert rival is not None and (rival["arm"], rival["microbatches"]) == ("best_seed", 8)


def test_what_holds_nobody_knows_how_much_is_no_rival(tmp_path: Path) -> None:
    unknown = {(1, "best_seed"): {"peak_activation_bytes": None}}
    _, rival, _ = headline(tmp_path, more=unknown)
    assert rival is not None and (rival["arm"], rival["microbatches"]) == ("developer", 1)


def test_the_split_is_chosen_by_training_and_reported_by_the_launches_after_it(tmp_path: Path) -> None:
    """Where the launches after it are kinder to another split, that changes nothing: they choose nothing."""
    slower = {1: {**QUICK[1], "finalist_1": 2600.0, "deployed": 2600.0}, 8: QUICK[8]}
    deployed, rival, _ = headline(tmp_path, QUICK, slower)
    assert deployed["microbatches"] == 1 and deployed["step_us"] == pytest.approx(2600 * 1.2, rel=0.02)
    assert rival is not None and rival["slower"] < 1


def test_a_strategy_that_people_wrote_is_no_find_and_its_twin_no_rival(tmp_path: Path) -> None:
    deployed, rival, frame = headline(tmp_path, deployed="copies")
    assert (deployed["ran_as"], deployed["needs_search"]) == ("best_seed", False)
    assert rival is not None and (rival["arm"], rival["microbatches"]) != ("best_seed", 1)
    finds = frame.filter("needs_search")
    assert set(finds["arm"]) == {"finalist_1"}


def test_the_frameworks_own_arm_is_a_rival(tmp_path: Path) -> None:
    fast = {1: {**QUICK[1], "ddp_25": 1000.0}, 8: QUICK[8]}
    _, rival, _ = headline(tmp_path, fast)
    assert rival is not None and rival["arm"] == "ddp_25" and not rival["needs_search"]


def test_mostly_disturbed_launches_are_said(tmp_path: Path) -> None:
    disturbed = {(1, arm): {"disturbed": True} for arm in QUICK[1]} | {
        (8, arm): {"disturbed": True} for arm in QUICK[8]
    }
    assert headline(tmp_path)[0]["disturbed"] is False
    assert headline(tmp_path, more=disturbed)[0]["disturbed"] is True
