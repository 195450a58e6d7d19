"""Figures of several Cases: errors together, orders apart."""

import pytest

from overlayccl_core.costmodel.fidelity import Scored, fidelity
from overlayccl_core.evidence.accuracy import PlaceAccuracy, over_places


def place(*times: tuple[float, float], regret: float | None = None) -> PlaceAccuracy:
    """(predicted, measured) of each Program; regret: of the model's first choice there."""
    scored = tuple(Scored(predicted_us=p, samples_us=[m] * 4) for p, m in times)
    first = None if regret is None else ([10 * (1 + regret)] * 4, [10.0] * 4)
    return PlaceAccuracy(scored=scored, figures=fidelity(scored, first=first))


def test_pairs_of_unlike_cases_are_no_order() -> None:
    """Each place is in the right order; across places the dearer is priced lower."""
    whole = over_places([place((50, 10), (60, 12)), place((20, 40), (30, 60), (40, 80))])
    assert (whole.n, whole.pairs, whole.pair_accuracy, whole.repeat_pair_accuracy) == (5, 4, 1, 1)
    assert whole.spearman is whole.kendall is whole.repeat_spearman is None


def test_a_place_with_more_pairs_counts_more_and_one_without_pairs_not_at_all() -> None:
    swapped, right = place((20, 10), (10, 20)), place((1, 1), (2, 2), (3, 3))
    assert over_places([swapped, right, place((1, 1))]).pair_accuracy == pytest.approx(3 / 4)
    assert over_places([place((1, 1))]).pair_accuracy is None


def test_the_error_is_of_all_programs_and_the_regret_of_the_place_in_the_middle() -> None:
    many = place(*[(1.1, 1.0)] * 5, regret=0.3)
    few = [place((2.0, 1.0), regret=regret) for regret in (0.0, 0.02)]
    whole = over_places([many, *few, place((2.0, 1.0))])
    assert whole.median_rel_error == pytest.approx(0.1)
    assert whole.top1_regret == pytest.approx(0.02) and whole.top1_within_noise is None
