"""Which Program the model would deploy."""

from overlayccl_core import catalog
from overlayccl_core.evidence.predictions import Prediction, first_choice
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source

ENTRY = {"microbatches": 2, "layers": 2, "shape": [1, 4, 8]}


def program(strategy: str) -> Program:
    problem = catalog.build(catalog.case("tp_mlp", ENTRY, ranks=4, ranks_per_node=4))
    return trace_source(catalog.library_source("tp_mlp"), strategy, problem)


def price(us: float, spread: float) -> Prediction:
    return Prediction(us=us, low_us=us / spread, high_us=us * spread)


def test_prices_that_the_model_cannot_tell_apart_are_ordered_by_calls() -> None:
    many, few = program("reduce_scatter_all_gather"), program("merged_over_microbatches")
    assert len(many.collectives) == 2 * len(few.collectives)
    assert first_choice([(price(100, 1.2), many), (price(105, 1.2), few)]) == 1
    assert first_choice([(price(100, 1.2), many), (price(147, 1.2), few)]) == 1  # 1.2 ** 2.16 = 1.48
    assert first_choice([(price(100, 1.2), many), (price(150, 1.2), few)]) == 0
    assert first_choice([(price(100, 1.01), many), (price(105, 1.01), few)]) == 0


def test_fewer_calls_that_send_more_are_not_plainer() -> None:
    scattered, copies = program("reduce_scatter_all_gather"), program("all_to_all_of_copies")
    assert first_choice([(price(100, 1.2), scattered), (price(105, 1.2), copies)]) == 0
    assert first_choice([(price(105, 1.2), scattered), (price(100, 1.2), copies)]) == 1


def test_of_equally_plain_programs_the_cheaper_one_is_first() -> None:
    one = program("merged_over_microbatches")
    assert first_choice([(price(101, 1.2), one), (price(100, 1.2), one)]) == 1
