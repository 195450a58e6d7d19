"""Drift: probes that are timed again, with planted times; what is said, and which choices change."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from overlayccl_core.costmodel.features import Features, features
from overlayccl_core.evidence.drift import Stored, holds, kinds_drifted, probes_to_time
from overlayccl_core.probes.probe import Probe
from overlayccl_core.stages import reprobe
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.drift import DRIFT, DRIFTED_CHOICES, REPROBES
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.table import write
from overlayccl_core.tables.theta import THETA
from tests.fake_timings import timing_columns, true_us
from tests.rows import row
from tests.stages.flow import quiet

SAME: Callable[[Features], float] = true_us


def dearer(kind: str, factor: float) -> Callable[[Features], float]:
    """Times where one kind of collective takes so many times as long."""

    def us(found: Features) -> float:
        mine = {c: n for c, n in found.items() if c.name.startswith(kind) and c.name.count(".") == 3}
        return true_us(found) + (factor - 1) * true_us(mine)

    return us


@pytest.fixture(scope="module")
def tree(tp_flow: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's folder, without what the sidecars tell."""
    folder = tmp_path_factory.mktemp("results") / "local"
    mine = folder / "problems/tp_mlp"
    mine.mkdir(parents=True)
    write(PROBES, tp_flow.probes, folder / "probes.parquet")
    write(THETA, tp_flow.theta, folder / "theta.parquet")
    write(FIDELITY, tp_flow.judged, folder / "fidelity.parquet")
    write(FINALISTS, tp_flow.ready, mine / "finalists.parquet")
    write(BENCH, tp_flow.bench, mine / "bench.parquet")
    return folder


@pytest.fixture
def asked(
    tree: Path, tp_flow: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., SimpleNamespace]:
    def ask(now: Callable[[Features], float], **more: Any) -> SimpleNamespace:
        def timed(probes: list[Probe], *_: Any, **__: Any) -> list[dict[str, Any]]:
            told = ((p, timing_columns(p.program, us=now(features(p.program)), launch=1)) for p in probes)
            return [row(REPROBES, probe=p.name, role=p.role.value, **of | more) for p, of in told]

        monkeypatch.setattr(reprobe, "time_probes", timed)
        said: list[str] = []
        found = reprobe.run(tp_flow.deployment, tp_flow.configured, tree, tmp_path, progress=said.append)
        frames = {t.name: write(t, found[t.name], tmp_path / "t") for t in (REPROBES, DRIFT, DRIFTED_CHOICES)}
        return SimpleNamespace(**frames, said=said)

    return ask


def test_some_probes_of_each_kind_of_call_of_the_finalists_are_timed_again(tree: Path) -> None:
    found = probes_to_time(Stored.read(tree), of_a_kind=3, mixed=5)
    names = [one["probe"] for one in found]
    assert len(set(names)) == len(names)
    assert [sum(name.startswith(of) for name in names) for of in ("all_reduce", "mixed")] == [3, 5]
    assert {one["role"] for one in found} == {"structured", "heldout"}
    kinds = {name.partition("-")[0] for name in names}
    assert {"all_to_all", "collective_permute"} <= kinds and "reduce_scatter" not in kinds


def test_where_nothing_changed_theta_holds_and_no_choice_changes(
    asked: Callable[..., SimpleNamespace],
) -> None:
    found = asked(SAME)
    assert found.said[0].startswith("theta still holds: ") and holds(kinds_drifted(found.drift))
    assert found.drift["within"].sum() >= 0.7 * found.drift.height
    assert not found.drifted_choices["changes"].any() and found.said[-1] == "no of 2 choices would change"


def test_what_became_slower_is_named_and_the_choices_that_it_changes(
    asked: Callable[..., SimpleNamespace],
) -> None:
    found = asked(dearer("all_to_all", 10.0))
    moved = {one.kind: one.factor for one in kinds_drifted(found.drift) if one.beyond}
    assert moved["all_to_all.node4"] == pytest.approx(10, rel=0.15)
    assert not {"all_reduce.node4", "collective_permute.node", "local"} & moved.keys()
    assert found.said[0].startswith("theta no longer holds: ")
    assert "all_to_all within a node, groups of 4: 9." in found.said[1]
    assert any("--force" in line for line in found.said)
    changed = found.drifted_choices.filter("changes")
    assert set(changed["cheapest"]) == {"all_to_all_of_copies"} and changed.height == 2
    assert set(changed["now_cheapest"]) != {"all_to_all_of_copies"} and changed["gain_low"].min() > 1.02
    assert changed["now_us"].to_list() < changed["new_us"].to_list()


def test_a_change_that_the_choices_do_not_use_changes_none(asked: Callable[..., SimpleNamespace]) -> None:
    found = asked(dearer("all_reduce", 4.0))
    assert found.said[0].startswith("theta no longer holds: ")
    assert not found.drifted_choices["changes"].any()


def test_probes_of_another_machine_are_refused(asked: Callable[..., SimpleNamespace]) -> None:
    with pytest.raises(ValueError, match="different machines"):
        asked(SAME, fingerprint="another")


def test_before_a_fit_the_command_is_said(tmp_path: Path, tp_flow: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match=r"nothing was fitted yet.*snakemake"):
        reprobe.run(tp_flow.deployment, tp_flow.configured, tmp_path, tmp_path, progress=quiet)


def test_launches_of_an_interrupted_job_are_of_another_time(
    asked: Callable[..., SimpleNamespace], tmp_path: Path
) -> None:
    left = tmp_path / f"reprobe-{'0f' * 8}"
    left.mkdir()
    asked(SAME)
    assert not left.exists()


def test_a_kind_moved_if_it_is_beyond_the_interval() -> None:
    of = {"low_us": 0.8, "high_us": 1.2, "old_us": 1.0}
    rows = [{"kind": kind, "new_us": us, **of} for kind, us in (("a", 1.4), ("b", 1.8), ("c", 0.5))]
    assert [one.beyond for one in kinds_drifted(pl.DataFrame(rows))] == [False, True, True]
