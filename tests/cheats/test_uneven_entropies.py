"""Cross-entropies that are wrong of one token, of some words or of some sizes of logits must be rejected."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from overlayccl_core import catalog
from overlayccl_core.gates.verdict import Outcome, Reason
from overlayccl_core.problems import dist_ce
from overlayccl_core.program.problem import Direction
from tests.cheats import test_entropies as entropies

judged = partial(entropies.judged, source=entropies.source_of("uneven_entropies"), tokens=64)


def assert_wrong(function: str, said: str, **case: Any) -> None:
    verdict = judged(function, **case)
    assert verdict.reason in (Reason.WRONG_VALUE, Reason.INACCURATE), verdict.message
    assert said in verdict.message


CONFIGURED = {"tokens": 256, "words": 1024}


@pytest.mark.parametrize(
    ("function", "case"),
    [
        ("spares_token_3_the_maximum", {}),
        ("spares_token_3_the_maximum", CONFIGURED),
        ("spares_token_5_the_maximum_and_saves_it", {}),
        ("gives_token_2_the_maximum_of_rank_0", {}),
        ("gives_each_token_the_maximum_of_the_next", {}),
    ],
)
def test_one_token_is_computed_wrongly(function: str, case: dict[str, int]) -> None:
    """Cheat: no maximum, or another one, of a single token. Caught: each token meets each kind of logits."""
    assert_wrong(function, "", **case)


def test_one_token_is_computed_in_a_way_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cheat: one word is left out of one token's maximum. Caught: such a token must meet a high logit at each word,
    and where it cannot the Program is unproven."""
    function = "gives_token_4_the_maximum_without_a_middle_word"
    verdict = judged(function, tokens=8, words=12)
    assert verdict.outcome is Outcome.FAIL
    assert "element 4, of a token with" in verdict.message
    assert "far above the others" in verdict.message
    monkeypatch.setattr(dist_ce, "LOGITS_DRAWN", 2**18)
    verdict = judged(function)
    assert (verdict.outcome, verdict.reason) == (Outcome.UNPROVEN, Reason.TOO_LARGE)
    assert "token 4 is computed as 0 others" in verdict.message


@pytest.mark.parametrize("function", ["adds_nothing_of_the_next_token", "adds_nothing_of_token_7_to_token_1"])
def test_a_loss_of_one_token_reaches_another(function: str) -> None:
    """Cheat: adds 0 times another loss. Caught: some losses are infinite or NaN."""
    assert_wrong(function, "got nan in float64")


@pytest.mark.parametrize(
    ("function", "case"),
    [
        ("takes_the_maximum_without_a_middle_word", {}),
        ("takes_the_maximum_without_a_middle_word", CONFIGURED),
        ("takes_the_maximum_without_30_middle_words", {}),
        ("takes_the_maximum_without_the_last_rank_for_odd_tokens", {}),
        ("looks_no_target_up_at_a_middle_word", CONFIGURED),
        ("swaps_two_middle_words", CONFIGURED),
    ],
)
def test_some_words_are_left_out(function: str, case: dict[str, int]) -> None:
    """Cheat: a middle word has no part in the maximum or in the look-up. Caught: each word is the highest, and a
    target, of some token."""
    assert_wrong(function, "", **case)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "function",
    [
        "cuts_logits_at_1200",
        "cuts_logits_at_100000",
        "lifts_logits_to_minus_3000",
        "cuts_losses_at_2000",
        "lifts_the_target_of_infinite_losses",
        "bends_losses_between_400_and_1600",
    ],
)
def test_some_sizes_of_logits_are_computed_wrongly(function: str, dtype: str) -> None:
    """Cheat: bounds that no friendly logits meet. Caught: logits of all sizes up to 10^6, and of -inf."""
    assert_wrong(function, "", dtype=dtype)


@pytest.mark.parametrize("case", [{}, {"tokens": 8, "words": 12, "range": 40}])
@pytest.mark.parametrize(
    "function",
    [
        "reference",
        "shifts_by_one_more_than_the_maximum",
        "takes_the_maximum_of_both_halves",
        "treats_token_3_apart_and_alike",
        "sums_half_of_the_tokens_in_another_way",
        "subtracts_logarithms_for_half_of_the_tokens",
        "orders_the_words_anew",
        "swaps_its_sum_in_pairs",
        "takes_the_mean_of_both_terms_by_shares",
    ],
)
def test_odd_ways_that_are_right_are_accepted(function: str, case: dict[str, int]) -> None:
    verdict = judged(function, **case)
    assert verdict.passed, verdict.message


@pytest.mark.parametrize(
    ("function", "case"),
    [("forgets_the_one_of_a_middle_word", CONFIGURED), ("joins_shift_and_sum_of_token_3", {})],
)
def test_gradients_that_are_wrong_of_a_word_or_a_token(function: str, case: dict[str, int]) -> None:
    """Cheat: the target at a middle word, or one token, is left out. Caught: all words are targets."""
    assert_wrong(function, "d_logits", direction=Direction.BACKWARD, **case)
    assert judged("gradient_reference", direction=Direction.BACKWARD, **case).passed


@pytest.mark.parametrize("case", [{}, CONFIGURED, {"tokens": 16, "words": 48}])
@pytest.mark.parametrize("function", ["drops_losses_below_1", "bends_losses_between_3_and_5"])
def test_some_losses_of_a_training_run_are_wrong(function: str, case: dict[str, int]) -> None:
    """Cheat: losses of a few units, right below and above. Caught: the losses that are drawn leave no gap there."""
    assert_wrong(function, "", **case)


@pytest.mark.parametrize("case", [{}, {"tokens": 16, "words": 48}])
def test_some_losses_of_one_token_are_wrong(case: dict[str, int]) -> None:
    """Cheat: the same for one token alone. Caught: such a token meets as many losses as all others."""
    assert_wrong("drops_losses_below_1_of_token_3", "element 3, of a token with", **case)


@pytest.mark.parametrize(("tokens", "vocabulary", "gap"), [(256, 4096, 0.3), (64, 384, 1.2)])
def test_losses_of_a_training_run_are_drawn_without_a_gap(tokens: int, vocabulary: int, gap: float) -> None:
    """Between 0 and 16 no range of losses is left out, in which a Program might be wrong; small ones lie closer."""
    case = catalog.case("dist_ce", {"tokens": tokens, "vocabulary": vocabulary}, ranks=4, ranks_per_node=4)
    brought = catalog.build(case).nonlinear
    assert brought is not None
    draw = next(iter(brought.draws(np.random.default_rng(0), True, None)))
    logits = draw.inputs[dist_ce.LOGITS].reshape(4, tokens, -1).swapaxes(0, 1).reshape(tokens, -1)
    target = np.take_along_axis(logits, draw.inputs[dist_ce.TARGETS].T, 1)[:, 0]
    losses = np.log(np.exp(logits.astype(np.float64)).sum(1)) - target
    ordered = np.sort([0, *losses, dist_ce.NEAR_LOSSES])
    assert np.diff(ordered).max() < gap
    assert np.diff(ordered[ordered < 0.5]).max() < gap / 4
