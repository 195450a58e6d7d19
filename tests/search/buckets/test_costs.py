"""Costs of buckets are prices of real Programs."""

from dataclasses import replace

import pytest

from overlayccl_core.configuration.sizes import MIB
from overlayccl_core.costmodel.beside import Beside
from overlayccl_core.costmodel.features import Feature, Term, features
from overlayccl_core.costmodel.price import price
from overlayccl_core.costmodel.theta import Coefficient, FitStatus, Theta
from overlayccl_core.program.kinds import DType
from overlayccl_core.search.buckets import costs as bucket_costs
from overlayccl_core.search.buckets import plans as buckets
from overlayccl_core.search.buckets.gradients import Gradient
from tests.fake_timings import true_us

SHARES = {"kind": "all_reduce", "reach": "network4", "payload_bytes": 4096, "cpu_share": 0.4, "slower": 1.5}
BESIDE = Beside([SHARES])
PLACE = {"ranks": 4, "ranks_per_node": 2, "dtype": DType.FLOAT32}


def theta_of(without: str = "") -> Theta:
    """Costs like those of CPU ranks for every column of packed and single buckets."""
    columns: set[Feature] = set()
    for sizes in ([1000], [500, 500], [2**22]):
        for dtype in (DType.FLOAT32, DType.BFLOAT16):
            columns |= set(features(bucket_costs._program(sizes, 4, 2, dtype)))
    return Theta(
        tuple(
            Coefficient(
                column=c, value=true_us({c: 1.0}), low=0, high=9e9, status=FitStatus.FITTED, programs=3
            )
            for c in sorted(columns)
            if c.name != without
        ),
        residual_low=0.8,
        residual_high=1.3,
    )


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16])
def test_the_cost_of_any_bucket_is_the_price_of_its_program(dtype: DType) -> None:
    theta, place = theta_of(), {**PLACE, "dtype": dtype}
    costs = bucket_costs.bucket_costs(theta, BESIDE, **place)
    groups = [[4], [4096 * 4], [2**22], [2**26], [2**23, 2**23], [4, 8], [2**20, 12, 400], [64] * 30]
    bucket_costs.check(costs, groups, theta, **place)
    assert (costs.low, costs.high) == (0.8, 1.3)


def test_a_cost_that_is_not_the_price_is_found() -> None:
    theta = theta_of()
    costs = bucket_costs.bucket_costs(theta, BESIDE, **PLACE)
    call = costs.packed.call
    wrong = replace(call, us_at=(*call.us_at[:-1], 1.02 * call.us_at[-1]))
    other = replace(costs, packed=replace(costs.packed, call=wrong))
    with pytest.raises(ValueError, match="bends elsewhere"):
        bucket_costs.check(other, [[2**23, 2**23]], theta, **PLACE)


def test_one_buffer_without_ready_times_is_predicted_as_the_price_of_the_one_buffer_program() -> None:
    theta = theta_of()
    costs = bucket_costs.bucket_costs(theta, BESIDE, **PLACE)
    gradients = [Gradient(name=f"t{n}", bytes=4 * n, ready_us=0.0) for n in (7, 2000, 65536)]
    plan = buckets.planned("", gradients, (3,), costs)
    program = bucket_costs._program([7, 2000, 65536], 4, 2, DType.FLOAT32)
    assert plan.end_us == pytest.approx(price(program, theta).us)
    assert plan.high_us == pytest.approx(price(program, theta).high_us)


def test_packing_costs_and_launching_is_paid_once() -> None:
    costs = bucket_costs.bucket_costs(theta_of(), BESIDE, **PLACE)
    assert costs.packed.before.us(MIB) > costs.alone.before.us(MIB)
    assert costs.launch_us == pytest.approx(sum(true_us({c: 1.0}) for c in _launch_columns()))


def _launch_columns() -> list[Feature]:
    return [c for c in features(bucket_costs._program([4], 4, 2, DType.FLOAT32)) if c.term is Term.LAUNCH]


def test_without_a_probe_beside_computing_the_message_says_so() -> None:
    with pytest.raises(ValueError, match="beside computing"):
        bucket_costs.bucket_costs(theta_of(), Beside([]), **PLACE)


def test_without_a_coefficient_there_is_no_cost_and_the_message_names_it() -> None:
    name = next(
        c.name for c in features(bucket_costs._program([4, 4], 4, 2, DType.FLOAT32)) if "copy" in c.name
    )
    with pytest.raises(ValueError, match=name):
        bucket_costs.bucket_costs(theta_of(without=name), BESIDE, **PLACE)
