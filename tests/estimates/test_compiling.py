"""Seconds of compiling, by published figures, against counts by hand."""

from pathlib import Path

import pytest

from overlayccl_core import catalog
from overlayccl_core.configuration import topology
from overlayccl_core.estimates.compiling import TENS_OF_SECONDS, graphs_of, of_known, of_unknown, seconds
from overlayccl_core.estimates.span import Span
from overlayccl_core.program.program import Program

ROOT = Path(__file__).parents[2]
KIB, MIB = 2**10, 2**20
FIGURES = topology.load("trn1.32xlarge", ROOT / topology.FOLDER).calibration.changed(
    compile_s=((MIB // 2, 5.0), (48 * MIB, 7.0))
)


def developer(microbatches: int, width: int) -> Program:
    entry = {"microbatches": microbatches, "layers": 2, "shape": [1, 64, width]}
    case = catalog.case("tp_mlp", entry, ranks=4, ranks_per_node=4)
    return catalog.developer_program(catalog.build(case))


@pytest.mark.parametrize(
    ("payload", "took"),
    [
        *((1, Span(5.0, 5.0)), (512 * KIB, Span(5.0, 5.0)), (512 * KIB + 1, Span(7.0, 7.0))),
        *((48 * MIB, Span(7.0, 7.0)), (48 * MIB + 1, TENS_OF_SECONDS)),
    ],
)
def test_a_graph_takes_what_is_published_of_its_largest_payload(payload: int, took: Span) -> None:
    assert seconds(FIGURES, payload) == took


def test_the_developers_program_has_a_graph_for_each_microbatch() -> None:
    program = developer(microbatches=3, width=128)
    assert graphs_of(program) == [32 * KIB] * 3  # two sums each, in one graph
    assert of_known([program, program], FIGURES) == Span(30.0, 30.0)


def test_what_nobody_has_found_yet_is_between_one_small_graph_and_the_developers_graphs() -> None:
    small, large = developer(microbatches=3, width=128), developer(microbatches=1, width=2**18)
    assert of_unknown(Span(1, 4), small, FIGURES) == Span(5.0, 4 * 15.0)
    assert of_unknown(Span(1, 4), large, FIGURES) == Span(TENS_OF_SECONDS.least, 4 * TENS_OF_SECONDS.most)


def test_one_that_bundles_all_microbatches_counts_with_all_of_their_bytes() -> None:
    program = developer(microbatches=2, width=2**16)  # 16 MiB a sum, 64 MiB together
    assert of_unknown(Span(1, 1), program, FIGURES) == Span(7.0, TENS_OF_SECONDS.most)


def test_a_span_has_its_ends_in_order() -> None:
    with pytest.raises(ValueError, match=r"least must not be above the most \(got 2 and 1\)"):
        Span(2, 1)
    assert (Span(1, 2) + Span(1, 1) + 3).text(lambda x: f"{x:.0f}") == "5..6"
    assert (Span(1, 1) * 2).text(lambda x: f"{x:.0f}") == "2"
