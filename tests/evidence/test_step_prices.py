"""Prices of steps from their tables: which segments, which costs, and where there is no price."""

import json
from typing import Any

import polars as pl
import pytest

from overlayccl_core.costmodel.features import features
from overlayccl_core.costmodel.theta import Coefficient, FitStatus, Theta
from overlayccl_core.evidence.step_prices import CandidatePrices, ModelStep, StepPricer, steps_of
from overlayccl_core.program.json_form import dumps
from overlayccl_core.program.library import Role
from overlayccl_core.program.program import Program
from overlayccl_core.tables.beside import BESIDE
from overlayccl_core.tables.plain import plain
from overlayccl_core.tables.segments import SEGMENTS
from overlayccl_core.tables.table import frame_of
from overlayccl_core.tables.theta import THETA
from tests.rows import row
from tests.step.test_price import AHEAD, WAITED, of_halves, segments_of

CALL_US, MADE_US, CORES = 100.0, 40.0, 0.5
STEP = ModelStep(model="m", microbatches=2, sites=(("s", "case", "forward"),))
PLACE = ("case", "forward")


def theta(*programs: Program) -> pl.DataFrame:
    """A call costs CALL_US, all else nothing."""
    columns = {column for program in programs for column in features(program)}
    coefficients = tuple(
        Coefficient(
            column=column,
            value=CALL_US if column.name.endswith((".alone.count", ".together.count")) else 0.0,
            low=0.0,
            high=CALL_US,
            status=FitStatus.FITTED,
            programs=9,
        )
        for column in sorted(columns)
    )
    return frame_of(Theta(coefficients, 1.0, 1.0, "f").to_rows(), THETA.schema, "theta")


def segments(program: Program, *, early: bool, us: float = MADE_US) -> list[dict[str, Any]]:
    return [
        row(
            SEGMENTS,
            **{"model": "m", "microbatches": 2, "early": early, "leaves_work": False},
            outline_json=json.dumps(plain(one.outline)),
            duration_us=one.us,
            cores=CORES,
        )
        for one in segments_of(program, [us] * len(program.problem.inputs))
    ]


def pricer(program: Program, reach: str = "node4") -> StepPricer:
    """Prices of steps whose segments take less where no module starts early."""
    timed = [*segments(program, early=False, us=MADE_US / 4), *segments(program, early=True)]
    head = {"kind": "all_reduce", "reach": reach, "payload_bytes": 32}
    shares = [row(BESIDE, **head, call_us=CALL_US, cpu_share=0.0, slower=1.0)]
    return StepPricer(
        frame_of(timed, SEGMENTS.schema, "segments"),
        theta(of_halves(3, ahead=AHEAD), of_halves(3, ahead=WAITED)),
        frame_of(shares, BESIDE.schema, "beside"),
    )


def test_a_step_has_the_segments_of_its_kind_on_its_share_of_the_cores() -> None:
    waited, ahead = of_halves(3, ahead=WAITED), of_halves(3, ahead=AHEAD)
    prices = pricer(ahead)
    made = MADE_US / CORES
    assert prices.us(STEP, {PLACE: ahead}) == pytest.approx(made + 3 * CALL_US)
    early = waited.starts_early
    assert prices.us(STEP, {PLACE: waited}) == pytest.approx(3 * (made if early else made / 4) + 3 * CALL_US)


def test_without_times_of_its_segments_or_of_its_calls_a_step_has_no_price() -> None:
    program = of_halves(3, ahead=AHEAD)
    other = ModelStep(model="m", microbatches=4, sites=STEP.sites)
    assert pricer(program).us(other, {PLACE: program}) is None
    assert pricer(program, reach="network4").us(STEP, {PLACE: program}) is None


def test_a_candidate_is_priced_at_its_place_with_the_developers_programs_at_others() -> None:
    program, ahead = of_halves(3, ahead=WAITED), of_halves(3, ahead=AHEAD)
    ways = pl.DataFrame(
        [
            {"role": role, "case": "case", "direction": "forward", "program_json": dumps(program)}
            for role in (Role.DEVELOPER.value, Role.OTHER.value)
        ]
    )
    prices = CandidatePrices(pricer(ahead), [STEP], ways)
    [(at, us)] = prices.us(PLACE, ahead).items()
    assert at == ("m", 2) and us == pricer(ahead).us(STEP, {PLACE: ahead})
    assert prices.us(PLACE, program)["m", 2] != us
    assert prices.us(("case", "backward"), ahead) == {}


def test_steps_are_read_from_the_text_that_a_rule_tells() -> None:
    text = '[{"model": "m", "microbatches": 2, "sites": [["s", "case", "forward"]]}]'
    assert steps_of(text) == [STEP]
