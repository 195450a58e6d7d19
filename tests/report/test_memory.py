"""Step time against memory: what is drawn, where, and the line that needs no search."""

import pytest

from overlayccl_core.report.memory import MARK_PX, ROLES, figures, frontier, side_by_side
from tests.report.test_worth import FOUND, beside, deployed, rival, worth

MIB = 2**20


def test_the_frontier_is_what_needs_no_search_and_is_beaten_by_nothing_with_as_little_memory() -> None:
    told = worth(
        deployed(),
        beside(8, "developer", 8.0, peak_memory_bytes=2 * MIB),
        beside(8, "single_graph", 6.0, peak_memory_bytes=2 * MIB),
        beside(2, "single_graph", 7.0, peak_memory_bytes=5 * MIB),
        rival(1, "best_known_way", 1.3, peak_memory_bytes=11 * MIB),
        beside(1, "finalist_1", 1.1, needs_search=True, peak_memory_bytes=9 * MIB),
        beside(1, "deployed", 1.2, ran_as="hand_bundled", peak_memory_bytes=9 * MIB),
        beside(1, "ddp_4", 1.2, peak_memory_bytes=None),
    )
    assert [one.name for one in frontier(told.splits)] == ["single graph at M = 8", "best known way at M = 1"]


def test_every_way_has_a_mark_with_its_figures_in_the_shape_of_its_part() -> None:
    told = worth(
        deployed(),
        rival(1, "best_known_way", 1.3),
        beside(1, "hand_bundled", 1.3, ran_as="best_known_way"),
        beside(8, "developer", 8.0, peak_memory_bytes=2 * MIB),
        beside(2, "finalist_1", 0.99, needs_search=True),
        beside(2, "finalist_2", 1.1, needs_search=True),
    )
    (drawn,) = figures(told)
    for said in (
        "the chosen file at M = 2: 100 ms, 12 MiB",
        "best known way at M = 1: 130 ms, 12 MiB",
        "developer at M = 8: 800 ms, 2 MiB",
        "finalist 2 at M = 2: 110 ms, 12 MiB",
        *ROLES,
    ):
        assert said in drawn.wide and said in drawn.narrow
    assert "hand bundled" not in drawn.wide  # timed as best known way
    assert "finalist 1" not in drawn.wide  # it is what the deployed file was made of
    assert len({shape for _, shape in ROLES.values()}) == len(ROLES)


def test_without_any_memory_there_is_no_figure() -> None:
    assert figures(worth(deployed(**FOUND, peak_memory_bytes=None))) == []


def test_the_rival_and_the_deployed_have_marks_where_all_ways_are_alike() -> None:
    (drawn,) = figures(worth(deployed(), rival(2, "developer", 1.0, 0.99, 1.01)))
    assert "developer at M = 2" in drawn.wide


def test_marks_stand_side_by_side_and_the_last_keeps_its_place() -> None:
    assert side_by_side([(50, 10), (50, 12), (90, 10)], 2) == pytest.approx([50 - MARK_PX, 50, 90])
    crowd = side_by_side([(50, 10)] * 7, 2)
    assert sorted(crowd) == pytest.approx([50 + n * MARK_PX for n in (-2, -1, 0, 0, 0, 1, 2)])
