"""Known ways by payload: odd rounds choose, even ones say how fast; Cases of payloads, or why there are none."""

from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from overlayccl_core import catalog
from overlayccl_core.configuration.cases import cases_of_payloads
from overlayccl_core.configuration.sections import SweepPayloadSection
from overlayccl_core.tables.sweep_payload import PAYLOAD_TIMES, TIMED_PAYLOADS
from overlayccl_core.tables.table import write
from overlayccl_core.tuning.payloads import payload_rows
from overlayccl_core.tuning.space import OpenWay, space_of
from tests.fake_timings import FINGERPRINT, timing_columns
from tests.rows import row
from tests.timing.batches import deployment

HERE = deployment(2)
SIZES = (1024, 4096)


@cache
def ways(size: int) -> tuple[OpenWay, ...]:
    [case] = cases_of_payloads(section(size), HERE)
    return tuple(space_of(catalog.build(case), None, None))


def section(*payloads: int, **more: Any) -> SweepPayloadSection:
    timing = {"seconds": 1.0, "minimum_rounds": 2, "maximum_rounds": 2, "launches": 3}
    return SweepPayloadSection(payloads=payloads or SIZES, **timing | more)


def timed(us: dict[tuple[int, str], Any], launches: int = 3, rounds: int = 12) -> pl.DataFrame:
    """All ways of both payloads take 1 ms, but for those that are named; a pair: in odd rounds, in even ones."""
    rows = []
    for launch in range(launches):
        for size in SIZES:
            for way in ways(size):
                case = way.program.problem.case
                took = us.get((size, way.name), 1000.0)
                odd, even = took if isinstance(took, tuple) else (took, took)
                columns = timing_columns(way.program, us=1.0, noise=0.02, rounds=rounds, launch=launch)
                samples = [x * (even, odd)[n % 2] for n, x in enumerate(columns["samples_us"])]
                of = {"problem": case.problem, "case": case.id, "direction": "forward", "candidate": way.name}
                about = {"family": way.family, "parts": way.parts, "numerics": way.numerics}
                rows.append(row(TIMED_PAYLOADS, **of, **about, **columns | {"samples_us": samples}))
    return pl.DataFrame(rows, schema=TIMED_PAYLOADS.schema)


def times(frame: pl.DataFrame, folder: Path) -> pl.DataFrame:
    return write(PAYLOAD_TIMES, payload_rows(frame, FINGERPRINT), folder / "payload_times.parquet")


def test_a_way_that_is_faster_at_one_payload_is_faster_there_alone(tmp_path: Path) -> None:
    found = times(timed({(1024, "gather_slice"): 500.0}), tmp_path)
    small, large = (found.filter(payload_bytes=size) for size in SIZES)
    [fastest] = small.filter("fastest").iter_rows(named=True)
    assert fastest["way"] == "gather_slice" and fastest["gain_low"] > 1.8 and fastest["gain_high"] < 2.2
    assert fastest["time_us"] == pytest.approx(500, rel=0.05)
    assert fastest["low_us"] < fastest["time_us"] < fastest["high_us"]
    assert large["gain"].drop_nulls().to_list() == pytest.approx([1.0] * (large.height - 1), rel=0.05)
    for here in (small, large):
        [own] = here.filter("developer").iter_rows(named=True)
        assert own["way"] == "native" and own["gain"] is None and own["launches"] == 3 and own["rounds"] == 18
        assert here.filter("best_of_family")["family"].is_unique().all() and here["fastest"].sum() == 1


def test_busbw_is_what_a_rank_sends_to_the_others(tmp_path: Path) -> None:
    row = times(timed({}), tmp_path).filter(payload_bytes=4096, developer=True).row(0, named=True)
    assert row["busbw_gbps"] == pytest.approx(4096 / 2 / row["time_us"] / 1e3)


def test_what_was_lucky_where_it_was_chosen_gains_nothing_where_it_is_judged(tmp_path: Path) -> None:
    found = times(timed({(1024, "gather_slice"): (500.0, 1000.0)}), tmp_path)
    [lucky] = found.filter(payload_bytes=1024, fastest=True).iter_rows(named=True)
    assert lucky["way"] == "gather_slice" and lucky["gain"] == pytest.approx(1.0, abs=0.05)


def test_a_launch_of_one_round_cannot_choose_and_judge() -> None:
    with pytest.raises(ValueError, match=r"native: a single round in launch 0.*sweep_payload\.seconds"):
        payload_rows(timed({}, rounds=1), FINGERPRINT)


def test_payloads_come_from_small_to_large() -> None:
    cases = cases_of_payloads(section(4096, 1024), HERE)
    assert [catalog.payload_bytes(case) for case in cases] == [1024, 4096]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"payloads": (1028,)}, r"sweep_payload\.payloads: 1028 bytes: uniform_a2a: payload must be"),
        ({"problem": "dist_ce"}, r"sweep_payload\.problem: dist_ce has no payload"),
    ],
)
def test_payloads_that_make_no_case_are_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        cases_of_payloads(section().changed(**more), deployment(3))
