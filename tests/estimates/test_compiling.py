"""Seconds of compiling, by published figures, against counts by hand."""

from pathlib import Path

import pytest

from overlayccl_core import catalog
from overlayccl_core.estimates.compiling import (
    TENS_OF_SECONDS,
    Published,
    graphs_of,
    of_known,
    of_unknown,
    published,
)
from overlayccl_core.estimates.span import Span
from overlayccl_core.program.program import Program

KIB, MIB = 2**10, 2**20
FIGURES = Published.from_data({"compile_s": [["0.5MiB", 5], ["48MiB", 7]], "source": "a page"})


def developer(microbatches: int, width: int) -> Program:
    entry = {"microbatches": microbatches, "layers": 2, "shape": [1, 64, width]}
    case = catalog.case("tp_mlp", entry, ranks=4, ranks_per_node=4)
    return catalog.developer_program(catalog.build(case))


@pytest.mark.parametrize(
    ("payload", "seconds"), [(1, 5.0), (512 * KIB, 5.0), (512 * KIB + 1, 7.0), (48 * MIB, 7.0)]
)
def test_a_graph_takes_what_is_published_of_its_largest_payload(payload: int, seconds: float) -> None:
    assert FIGURES.seconds(payload) == Span(seconds, seconds)


def test_above_the_last_figure_it_is_a_span() -> None:
    assert FIGURES.seconds(48 * MIB + 1) == TENS_OF_SECONDS


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


def write(root: Path, text: str) -> Path:
    file = root / "config" / "topologies" / "box.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return file


def test_figures_are_read_from_the_topology_of_the_node_and_others_of_it_are_passed_over(
    tmp_path: Path,
) -> None:
    write(
        tmp_path, "devices: 2\ncalibration: {compile_s: [[48MiB, 7]], graph_load_us: 200, source: a page}\n"
    )
    found = published("box", tmp_path)
    assert found is not None and found.seconds(1).least == 7.0 and found.source == "a page"
    assert published("another box", tmp_path) is None
    assert published("", tmp_path) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "calibration: {source: a page}\n",
            "calibration must have compile_s and source: give pairs of a payload",
        ),
        ("devices: 2\n", "calibration must have compile_s and source"),
        (
            "calibration: {compile_s: [[1MiB, 0]], source: a page}\n",
            "compile_s.0.1: must be greater than 0 (got 0)",
        ),
        ("calibration: {compile_s: [[much, 1]], source: a page}\n", "must be a size such as 64KiB"),
    ],
)
def test_figures_that_are_wrong_name_their_file(text: str, message: str, tmp_path: Path) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ValueError) as error:
        published("box", tmp_path)
    assert str(error.value).startswith(f"{file}: calibration") and message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_span_has_its_ends_in_order() -> None:
    with pytest.raises(ValueError, match=r"least must not be above the most \(got 2 and 1\)"):
        Span(2, 1)
    assert (Span(1, 2) + Span(1, 1) + 3).text(lambda x: f"{x:.0f}") == "5..6"
    assert (Span(1, 1) * 2).text(lambda x: f"{x:.0f}") == "2"
