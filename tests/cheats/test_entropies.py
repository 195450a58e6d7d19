"""Cross-entropies that are right on friendly data, or on average, or nearly, must be rejected."""

from pathlib import Path
from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.gates import legality
from overlayccl_core.gates.equivalence import prove
from overlayccl_core.gates.verdict import ALL_CHECKS, Check, Outcome, Reason, Verdict
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.problem import Direction
from overlayccl_core.program.tracing import trace_source

HERE = Path(__file__).parent
FRIENDLY = ALL_CHECKS - {Check.HOSTILE}


def source_of(name: str) -> str:
    return "".join((HERE / f"{part}.py").read_text() for part in ("cross_entropy", name))


SOURCE = source_of("entropies")


def judged(
    function: str,
    checks: frozenset[Check] = ALL_CHECKS,
    *,
    source: str = SOURCE,
    direction: Direction = Direction.FORWARD,
    ranks: int = 4,
    tokens: int = 128,
    words: int = 96,
    dtype: str = "float32",
    **entry: Any,
) -> Verdict:
    """On ranks with so many words each."""
    fields = {"tokens": tokens, "vocabulary": words * ranks, **entry}
    case = catalog.case("dist_ce", fields, ranks=ranks, ranks_per_node=ranks, dtype=dtype)
    problem = catalog.in_direction(case, direction)
    program = trace_source(source, function, problem)
    assert legality.check(program).passed
    return prove(program, catalog.reference_program(problem), checks)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("is_nearly_the_logarithm_of_the_vocabulary", Reason.WRONG_VALUE),
        ("sums_its_own_part_only", Reason.WRONG_VALUE),
        ("drops_the_target_of_one_token", Reason.WRONG_VALUE),
        ("looks_targets_up_in_the_part_of_rank_0", Reason.WRONG_VALUE),
        ("saves_another_sum", Reason.WRONG_VALUE),
        ("adds_in_an_order_of_its_own", Reason.RANKS_DIFFER),
    ],
)
def test_what_is_nearly_right_is_rejected_on_friendly_data(function: str, reason: Reason) -> None:
    """Cheats: log V; N times my own sum; one target of 64; a wrong saved sum. Caught: every element, to 1e-9."""
    for checks in (FRIENDLY, ALL_CHECKS):
        assert judged(function, checks).reason is reason


@pytest.mark.parametrize(
    ("function", "reason", "token"),
    [
        ("takes_one_maximum_for_all_tokens", Reason.WRONG_VALUE, ""),
        ("takes_the_maximum_of_rank_0", Reason.WRONG_VALUE, ""),
        ("takes_no_maximum", Reason.WRONG_VALUE, "of a token with"),
        ("takes_the_maximum_without_the_last_word", Reason.WRONG_VALUE, ""),
        ("spares_every_second_token_the_maximum", Reason.WRONG_VALUE, "of a token with"),
        ("masks_by_multiplication", Reason.WRONG_VALUE, "logits of -inf"),
        ("saves_the_shift_and_the_sum_in_one", Reason.WRONG_VALUE, "within 30 of it: save another"),
        ("saves_a_far_shift", Reason.WRONG_VALUE, "within 30 of it: save another"),
    ],
)
def test_what_is_right_on_friendly_data_only_is_rejected_on_hostile_data(
    function: str, reason: Reason, token: str
) -> None:
    """Cheats: no maximum, or not that of each token. Exact on logits of size 1. Caught: hostile data."""
    assert judged(function, FRIENDLY).passed
    verdict = judged(function)
    assert verdict.reason is reason
    assert token in verdict.message


@pytest.mark.parametrize("words", [96, 2048])
def test_the_edges_of_every_part_are_met(words: int) -> None:
    """Cheat: off by one at the last word of a rank's part. Caught: targets and high logits stand there, too."""
    assert judged("forgets_the_last_word_of_each_part", words=words).reason is Reason.WRONG_VALUE
    back = judged("forgets_the_one_of_the_last_word", words=words, direction=Direction.BACKWARD)
    assert back.reason is Reason.WRONG_VALUE


def test_ids_are_not_cast() -> None:
    """Cheat: ids through 16 bits (257 becomes 256). Caught: integers are never cast."""
    with pytest.raises(Rejected, match="cast of ids: integers are looked up by"):
        judged("rounds_ids_to_16_bits")


def test_a_strategy_without_maximum_is_admitted_where_the_case_declares_the_range() -> None:
    assert judged("takes_no_maximum", range=40).passed
    wide = judged("takes_no_maximum", range=200)
    assert wide.outcome is Outcome.FAIL


@pytest.mark.parametrize("function", ["reference", "shares_the_tokens", "gathers_what_each_rank_has"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_honest_ways_are_accepted(function: str, ranks: int) -> None:
    verdict = judged(function, ranks=ranks)
    assert verdict.passed, verdict.message


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("leaves_the_mean_out", Reason.WRONG_VALUE),
        ("subtracts_one_everywhere_on_the_target_s_rank", Reason.WRONG_VALUE),
        ("joins_shift_and_sum_first", Reason.INACCURATE),
        ("trusts_the_shift_to_be_the_maximum", Reason.WRONG_VALUE),
    ],
)
def test_gradients_that_are_wrong_are_rejected(function: str, reason: Reason) -> None:
    assert judged(function, direction=Direction.BACKWARD).reason is reason
    assert judged("gradient_reference", direction=Direction.BACKWARD).passed
