"""A call is a part of the Problem that its maker, its kind and its dependencies say."""

import polars as pl
import pytest

from overlayccl_core.observing.fits import fits
from tests.observing.captured_rows import call, step, summed


def found(calls: list[dict], ranks: int = 4) -> list[str | None]:
    return fits(step(calls, ranks)).filter(pl.col("rank") == 0)["problem"].to_list()


def test_a_chain_of_sums_is_of_tensor_parallelism_and_sums_that_nobody_reads_are_of_gradients() -> None:
    chain = [summed(8), summed(8, 0), summed(8, 0, 1)]
    assert found(chain) == ["layer_block_ar"] * 3
    assert found([*chain, summed(100, 2), summed(7, 2)]) == ["layer_block_ar"] * 3 + ["grad_ar"] * 2
    assert found([summed(8, part="backward"), summed(8, part="DTensor"), summed(1)]) == [
        *("grad_ar", "captured", "captured")
    ]
    gradients = [summed(100), summed(50), summed(1, 0, 1), summed(9, 0, groups=((0, 1), (2, 3)), group="1")]
    assert (
        found(gradients)[:2] == ["grad_ar"] * 2
    )  # what reads them is their norm, and a sum over other ranks


@pytest.mark.parametrize(
    ("one", "problem"),
    [
        (call("all_gather", part="FSDP layers.0"), "fsdp_prefetch"),
        (call("reduce_scatter", part="FSDP", reduction="avg"), "fsdp_prefetch"),
        (call("all_gather", part="DTensor"), "captured"),
        (call("all_to_all"), "uniform_a2a"),
        (call("all_to_all", input_splits=[2, 2, 2, 2]), "uniform_a2a"),
        (call("all_to_all", output_splits=[1, 3, 2, 2]), "alltoallv"),
        (call("all_to_all", dtype="int64"), None),
        (call("broadcast", root=0), None),
    ],
)
def test_a_kind_and_its_maker_say_the_problem(one: dict, problem: str | None) -> None:
    assert found([one]) == [problem]


def test_ranks_that_all_pass_on_are_a_ring_and_others_a_pipeline() -> None:
    ring = {r: [call("send", peer=(r + 1) % 4), call("recv", peer=(r - 1) % 4)] for r in range(4)}
    assert set(fits(step(ring))["problem"]) == {"ring_kv"}
    stages = {0: [call("send", peer=1)], 1: [call("recv", peer=0)]}
    assert set(fits(step(stages, 2))["problem"]) == {"pp_send_recv"}
