"""step_fidelity: trained arms against the prices of their steps."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from overlayccl_core.evidence.step_prices import ModelStep
from overlayccl_core.stages import step_fidelity
from overlayccl_core.tables.step_prices import ARM_PRICES, STEP_FIDELITY
from overlayccl_core.tables.table import frame_of
from tests.stages.flow import quiet
from tests.stages.training import SPEEDS, exchanging, train_tables


@pytest.mark.parametrize("power", [1, -1])
def test_the_order_of_steps_is_that_of_measured_arms_with_a_price(
    tp_flow: SimpleNamespace, tmp_path: Path, power: int
) -> None:
    steps, stamps = train_tables(tp_flow.ready, tmp_path)
    sites = dict.fromkeys(exchanging(stamps).select("site", "case", "direction").iter_rows())
    model = ModelStep(model="tiny", microbatches=2, sites=tuple(sites))
    ran = {
        frozenset(stamps.filter(arm=arm)["program"]): us
        for arm, us in SPEEDS.items()
        if arm in set(stamps["arm"])
    }

    def us(_step: ModelStep, programs: Any) -> float | None:
        of_arm = ran[frozenset(program.digest for program in programs.values())]
        return None if of_arm == SPEEDS["single_graph"] else of_arm**power

    tables = step_fidelity.run(SimpleNamespace(us=us), [model], steps, stamps, tp_flow.ready, progress=quiet)
    arms = frame_of(tables["arm_prices"], ARM_PRICES.schema, "arms")
    assert set(arms["arm"]) == set(stamps["arm"])
    assert arms.filter(arm="single_graph")["step_us"].to_list() == [None]
    [figures] = frame_of(tables["step_fidelity"], STEP_FIDELITY.schema, "fidelity").iter_rows(named=True)
    assert figures["n"] == len(arms) - 1
    assert figures["order_apart"] * power > 0.75  # two arms of the fixture are one Program at two speeds
