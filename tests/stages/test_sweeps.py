"""Both sweeps on real ranks: fresh launches with all ways, and with all arms at every M."""

from pathlib import Path

import polars as pl
import pytest

from overlayccl_core.configuration import models
from overlayccl_core.configuration.cases import cases_of_model
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.sections import SweepMSection, SweepPayloadSection
from overlayccl_core.evidence.swept import swept_rows
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.stages import time_payloads, train_splits
from overlayccl_core.tables.sweep_m import SWEPT_SPLITS, SWEPT_STAMPS, SWEPT_STEPS
from overlayccl_core.tables.sweep_payload import PAYLOAD_TIMES, TIMED_PAYLOADS
from overlayccl_core.tables.table import write
from overlayccl_core.tuning.payloads import payload_rows
from tests.stages.choices import decided
from tests.timing.batches import deployment, silent

pytestmark = pytest.mark.ranks
DEPLOYMENT = load("config/deployments/local-2.yaml")
MS = (1, 2)
ARMS = {"developer": "developer", "hand_bundled": "bf16_on_the_wire", "finalist_1": "all_to_all_sum"}


def test_all_ways_are_in_every_launch_and_a_run_that_was_cut_off_goes_on(tmp_path: Path) -> None:
    little = {"seconds": 5.0, "minimum_rounds": 2, "maximum_rounds": 2, "launches": 2}
    section = SweepPayloadSection(payloads=(1024,), **little)

    def cut_off(line: str) -> None:
        if line.startswith("2 of 2: "):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        time_payloads.run(deployment(2), section, None, tmp_path, progress=cut_off)
    said: list[str] = []
    rows = time_payloads.run(deployment(2), section, None, tmp_path, progress=said.append)
    assert sum("1 of 2" in line and "cut off" in line for line in said) == 1, said
    frame = write(TIMED_PAYLOADS, rows, tmp_path / "timed_payloads.parquet")
    ways = [set(here["candidate"]) for _, here in frame.group_by("launch")]
    assert len(ways) == 2 and ways[0] == ways[1] > {"native", "gather_slice"}
    found = write(PAYLOAD_TIMES, payload_rows(frame, "here"), tmp_path / "payload_times.parquet")
    assert found["launches"].to_list() == [2] * len(ways[0]) and found["fastest"].sum() == 1


def test_all_arms_are_trained_at_every_m_in_every_launch(tmp_path: Path) -> None:
    model = models.load("nano").changed(batch=2, layers=1, microbatches=MS, loss_microbatches=1)
    cases = {case for m in MS for case in cases_of_model(model, DEPLOYMENT, m).values()}
    of = decided(
        DEPLOYMENT, sorted(cases, key=lambda case: case.id), ARMS, "finalist_1", tmp_path, trained_in=""
    )
    section = SweepMSection(launches=2, seconds=1.0, minimum_steps=2, maximum_steps=2)
    made = train_splits.run(
        DEPLOYMENT, section, model, {"tp_mlp": of.finalists}, tmp_path / ".partial", progress=silent
    )
    steps, stamps = (
        write(t, made[t.name], tmp_path / f"{t.name}.parquet") for t in (SWEPT_STEPS, SWEPT_STAMPS)
    )
    assert set(steps["purpose"]) == {Purpose.TIMED}
    arms = {*ARMS, *model.framework_arms}
    at = {(m, arm, launch) for m in MS for arm in arms for launch in (0, 1)}
    assert {*steps.select("microbatches", "arm", "launch").iter_rows()} == at
    assert steps["gradient_rel_error"].max() < 1e-2  # type: ignore[operator]  # that of bfloat16
    frame = write(SWEPT_SPLITS, swept_rows("nano", steps, stamps, "here"), tmp_path / "swept_splits.parquet")
    assert frame.height == len(at) // 2 and frame["peak_memory_bytes"].null_count() == 0
    mine = frame.filter(pl.col("arm") == "developer").sort("microbatches")
    assert mine["peak_memory_bytes"][0] > mine["peak_memory_bytes"][1]
