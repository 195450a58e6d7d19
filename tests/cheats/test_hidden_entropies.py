"""Cross-entropies that are wrong where a number for how they are made might not show it must be rejected."""

from functools import partial

import pytest

from overlayccl_core.gates.verdict import Outcome, Reason
from overlayccl_core.program.problem import Direction
from tests.cheats import test_entropies as entropies
from tests.cheats.test_uneven_entropies import CONFIGURED

judged = partial(entropies.judged, source=entropies.source_of("hidden_entropies"), tokens=64)


@pytest.mark.parametrize(
    ("function", "case"),
    [
        ("scales_twice_by_2_to_32", {}),
        ("scales_twice_by_2_to_32", CONFIGURED),
        ("doubles_64_times", {}),
        ("takes_the_larger_of_itself_64_times", {}),
    ],
)
def test_large_factors_hide_no_word(function: str, case: dict[str, int]) -> None:
    """Cheat: a word is left out, and what is left is multiplied until 64 bits do not hold it. Caught: numbers are
    taken modulo a drawn prime."""
    assert judged(function, **case).outcome is Outcome.FAIL


@pytest.mark.parametrize(
    "function",
    [
        "scales_token_3_by_2_to_64",
        "adds_token_7_minus_itself_to_token_1",
        "adds_token_7_to_token_1_and_takes_it_away",
        "breaks_where_token_3_is_sure_of_a_word",
        "breaks_where_a_token_is_sure_of_a_word",
    ],
)
def test_terms_that_cancel_hide_no_token(function: str) -> None:
    """Cheat: x + y - y, where y is infinite or large. Caught: what is subtracted counts as another term."""
    assert judged(function).outcome is Outcome.FAIL


@pytest.mark.parametrize(
    "function",
    [
        "bends_the_mean_of_token_3",
        "takes_the_mean_without_words_of_token_3",
        "takes_the_mean_without_a_maximum",
    ],
)
def test_a_mean_that_is_wrong_of_a_token(function: str) -> None:
    """Cheat: the losses are right, their mean is of others. Caught: tokens that make the mean in a way of their own
    are no equals, and data that gives a finite mean is of most kinds."""
    verdict = judged(function)
    assert verdict.outcome is Outcome.FAIL and verdict.message.startswith("mean"), verdict.message


@pytest.mark.parametrize(
    "function",
    [
        "takes_0_for_the_maximum_of_token_3",
        "takes_the_maximum_by_pairs_of_ranks",
        "cuts_sums_below_the_vocabulary",
        "bends_small_losses",
    ],
)
def test_what_few_draws_have(function: str) -> None:
    """Cheat: wrong of low logits of one token, of padding of two ranks, of equal words, of small losses. Caught:
    a zero is a term of a maximum, and each of these is a kind of data. With these many tokens that are computed
    alike there are few draws."""
    verdict = judged(function, **CONFIGURED)
    assert verdict.outcome is Outcome.FAIL and verdict.message.startswith("losses"), verdict.message


@pytest.mark.parametrize("case", [{}, CONFIGURED, {"range": 40}])
@pytest.mark.parametrize(
    ("function", "direction"),
    [
        ("lifts_the_mean_to_5", Direction.FORWARD),
        ("adds_to_the_mean_what_the_least_loss_is_above_1", Direction.FORWARD),
        ("adds_what_the_highest_logit_is_below_minus_100", Direction.FORWARD),
        ("leaves_the_mean_out_where_no_loss_has_a_cotangent", Direction.BACKWARD),
    ],
)
def test_what_no_draw_has(function: str, direction: Direction, case: dict[str, int]) -> None:
    """Cheat: wrong where all tokens together are so or so. Caught, where no draw shows it: the Program itself tells
    what is made of several tokens."""
    verdict = judged(function, direction=direction, **case)
    assert not verdict.passed
    assert verdict.outcome is Outcome.FAIL or verdict.reason is Reason.PARTS_JOINED, verdict.message


def test_where_not_all_can_be_tried_nothing_is_proven() -> None:
    assert not judged("bends_the_mean_of_token_3", **CONFIGURED).passed


@pytest.mark.parametrize(
    "function",
    [
        "cuts_cotangents_at_100",
        "cuts_cotangents_at_10_on_both_sides",
        "adds_a_millionth_to_cotangents",
        "adds_the_gradient_of_token_7_minus_itself",
    ],
)
def test_gradients_that_are_wrong_of_some_cotangents(function: str) -> None:
    """Cheat: bounds that no cotangent of size 1 meets. Caught: cotangents of all sizes up to 2^24."""
    verdict = judged(function, direction=Direction.BACKWARD)
    assert verdict.outcome is Outcome.FAIL, verdict.message
