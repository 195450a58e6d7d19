"""Cross-entropies that are right on friendly data, or on average, or nearly, must be rejected.

A row of CHEATS is functions of the files of FILES, read behind cross_entropy.py, and how they are stopped.
"""

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from overlayccl_core import catalog
from overlayccl_core.gates import legality
from overlayccl_core.gates.equivalence import prove
from overlayccl_core.gates.verdict import ALL_CHECKS, Checks, ProofCheck, Reason, Verdict
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.problems.trial_data import logits as trial_data
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.library import functions_of
from overlayccl_core.program.problem import Direction
from overlayccl_core.program.tracing import trace_source

FILES = ("entropies", "uneven_entropies", "hidden_entropies")
FRIENDLY = ALL_CHECKS - {ProofCheck.HOSTILE}
CONFIGURED = {"tokens": 256, "words": 1024}
RANGE = {"range": 40}
FEW = {"tokens": 16, "words": 48}


class Cheat(NamedTuple):
    """Functions that are stopped in one way."""

    functions: str
    stopped_as: str = "WRONG_VALUE|INACCURATE"  # reasons or outcomes, any of them
    said: str = ""  # in the message
    cases: tuple[dict[str, Any], ...] = ({},)
    back: bool = False  # it is a backward
    friendly: str = ""  # what friendly data alone makes of it: "pass", or "same"


CHEATS = (
    # log V, N times my own sum, one target of many, a wrong saved sum: every element is held to 1e-9
    Cheat(
        "is_nearly_the_logarithm_of_the_vocabulary sums_its_own_part_only drops_the_target_of_one_token"
        " looks_targets_up_in_the_part_of_rank_0 saves_another_sum",
        "WRONG_VALUE",
        friendly="same",
    ),
    Cheat("adds_in_an_order_of_its_own", "RANKS_DIFFER", friendly="same"),
    # no maximum, or not that of each token, is exact on logits of size 1: hostile data has others
    Cheat(
        "takes_one_maximum_for_all_tokens takes_the_maximum_of_rank_0 takes_the_maximum_without_the_last_word",
        "WRONG_VALUE",
        friendly="pass",
    ),
    Cheat(
        "takes_no_maximum spares_every_second_token_the_maximum",
        "WRONG_VALUE",
        "of a token with",
        friendly="pass",
    ),
    Cheat("masks_by_multiplication", "WRONG_VALUE", "logits of -inf", friendly="pass"),
    Cheat(
        "saves_the_shift_and_the_sum_in_one saves_a_far_shift",
        "WRONG_VALUE",
        "within 30 of it: save another",
        friendly="pass",
    ),
    Cheat("takes_no_maximum", "FAIL", cases=({"range": 200},)),  # a declared range that is too wide for it
    # off by one at the last word of a rank's part: targets and high logits stand there, too
    Cheat("forgets_the_last_word_of_each_part", "WRONG_VALUE", cases=({}, {"words": 2048})),
    Cheat("forgets_the_one_of_the_last_word", "WRONG_VALUE", cases=({}, {"words": 2048}), back=True),
    # gradients
    Cheat(
        "leaves_the_mean_out subtracts_one_everywhere_on_the_target_s_rank trusts_the_shift_to_be_the_maximum",
        "WRONG_VALUE",
        back=True,
    ),
    Cheat("joins_shift_and_sum_first", "INACCURATE", back=True),
    # the target at a middle word, or one token, is left out: all words are targets
    Cheat("forgets_the_one_of_a_middle_word", said="d_logits", cases=(CONFIGURED,), back=True),
    Cheat("joins_shift_and_sum_of_token_3", said="d_logits", back=True),
    # bounds that no cotangent of size 1 meets: cotangents are of all sizes up to 2^24
    Cheat(
        "cuts_cotangents_at_100 cuts_cotangents_at_10_on_both_sides adds_a_millionth_to_cotangents"
        " adds_the_gradient_of_token_7_minus_itself",
        "FAIL",
        back=True,
    ),
    # no maximum, or another one, of a single token: each token meets each kind of logits
    Cheat("spares_token_3_the_maximum", cases=({}, CONFIGURED)),
    Cheat(
        "spares_token_5_the_maximum_and_saves_it gives_token_2_the_maximum_of_rank_0"
        " gives_each_token_the_maximum_of_the_next"
    ),
    # 0 times another loss: some losses are infinite or NaN
    Cheat("adds_nothing_of_the_next_token adds_nothing_of_token_7_to_token_1", said="got nan in float64"),
    # a middle word has no part in the maximum or in the look-up: each word is highest, and a target, of some token
    Cheat("takes_the_maximum_without_a_middle_word", cases=({}, CONFIGURED)),
    Cheat("takes_the_maximum_without_30_middle_words takes_the_maximum_without_the_last_rank_for_odd_tokens"),
    Cheat("looks_no_target_up_at_a_middle_word swaps_two_middle_words", cases=(CONFIGURED,)),
    # bounds that no friendly logits meet: logits are of all sizes up to 10^6, and of -inf
    Cheat(
        "cuts_logits_at_1200 cuts_logits_at_100000 lifts_logits_to_minus_3000 cuts_losses_at_2000"
        " lifts_the_target_of_infinite_losses bends_losses_between_400_and_1600",
        cases=({"dtype": "float32"}, {"dtype": "bfloat16"}),
    ),
    # losses of a few units, right below and above: the losses that are drawn leave no gap there
    Cheat("drops_losses_below_1 bends_losses_between_3_and_5", cases=({}, CONFIGURED, FEW)),
    # the same for one token alone: such a token meets as many losses as all others
    Cheat("drops_losses_below_1_of_token_3", said="element 3, of a token with", cases=({}, FEW)),
    # a word is left out, and what is left is multiplied until 64 bits do not hold it: numbers are taken modulo a
    # drawn prime
    Cheat("scales_twice_by_2_to_32", "FAIL", cases=({}, CONFIGURED)),
    Cheat("doubles_64_times takes_the_larger_of_itself_64_times", "FAIL"),
    # x + y - y, where y is infinite or large: what is subtracted counts as another term
    Cheat(
        "scales_token_3_by_2_to_64 adds_token_7_minus_itself_to_token_1"
        " adds_token_7_to_token_1_and_takes_it_away breaks_where_token_3_is_sure_of_a_word"
        " breaks_where_a_token_is_sure_of_a_word",
        "FAIL",
    ),
    # right losses and a mean of others: tokens that make the mean in a way of their own are no equals, and data
    # with a finite mean is of most kinds
    Cheat(
        "bends_the_mean_of_token_3 takes_the_mean_without_words_of_token_3 takes_the_mean_without_a_maximum",
        "FAIL",
        "^mean",
    ),
    Cheat("bends_the_mean_of_token_3", "FAIL|UNPROVEN", cases=(CONFIGURED,)),  # not all can be tried
    # low logits of one token, padding of two ranks, equal words, small losses: a zero is a term of a maximum, and
    # each is a kind of data. With so many tokens computed alike there are few draws
    Cheat(
        "takes_0_for_the_maximum_of_token_3 takes_the_maximum_by_pairs_of_ranks cuts_sums_below_the_vocabulary"
        " bends_small_losses",
        "FAIL",
        "^losses",
        (CONFIGURED,),
    ),
    # wrong where all tokens together are so or so: without a draw that shows it, the Program tells what is joined
    Cheat(
        "lifts_the_mean_to_5 adds_to_the_mean_what_the_least_loss_is_above_1"
        " adds_what_the_highest_logit_is_below_minus_100",
        "FAIL|PARTS_JOINED",
        cases=({}, CONFIGURED, RANGE),
    ),
    Cheat(
        "leaves_the_mean_out_where_no_loss_has_a_cotangent",
        "FAIL|PARTS_JOINED",
        cases=({}, CONFIGURED, RANGE),
        back=True,
    ),
)
HONEST = (  # functions, at these cases, in a direction
    ("reference shares_the_tokens gathers_what_each_rank_has", ({"ranks": 2}, {}), False),
    ("takes_no_maximum", (RANGE,), False),
    (
        "shifts_by_one_more_than_the_maximum takes_the_maximum_of_both_halves treats_token_3_apart_and_alike"
        " sums_half_of_the_tokens_in_another_way subtracts_logarithms_for_half_of_the_tokens"
        " orders_the_words_anew swaps_its_sum_in_pairs takes_the_mean_of_both_terms_by_shares",
        ({}, {"tokens": 8, "words": 12, **RANGE}),
        False,
    ),
    ("reference", ({"tokens": 8, "words": 12, **RANGE},), False),
    ("gradient_reference", ({}, CONFIGURED), True),
)
APART = {  # each has a test of its own
    "rounds_ids_to_16_bits",
    "gives_token_4_the_maximum_without_a_middle_word",
}
SOURCES = {
    function: source
    for file in FILES
    for source in ["".join(Path(__file__).with_name(f"{f}.py").read_text() for f in ("cross_entropy", file))]
    for function in functions_of(source)
}


def judged(
    function: str,
    checks: Checks = ALL_CHECKS,
    *,
    back: bool = False,
    ranks: int = 4,
    tokens: int = 64,
    words: int = 96,
    dtype: str = "float32",
    **entry: Any,
) -> Verdict:
    """On ranks with so many words each."""
    fields = {"tokens": tokens, "vocabulary": words * ranks, **entry}
    case = catalog.case("dist_ce", fields, ranks=ranks, ranks_per_node=ranks, dtype=dtype)
    problem = catalog.in_direction(case, Direction.BACKWARD if back else Direction.FORWARD)
    program = trace_source(SOURCES[function], function, problem)
    assert legality.check(program).passed
    return prove(program, catalog.reference_program(problem), checks)


def named(function: str, case: dict[str, Any]) -> str:
    return " ".join((function, *(f"{name}={value}" for name, value in case.items())))


@pytest.mark.parametrize(
    ("function", "cheat", "case"),
    [
        pytest.param(function, cheat, case, id=named(function, case))
        for cheat in CHEATS
        for function in cheat.functions.split()
        for case in cheat.cases
    ],
)
def test_a_cheat_is_stopped(function: str, cheat: Cheat, case: dict[str, Any]) -> None:
    def is_stopped(verdict: Verdict) -> bool:
        as_said = {verdict.outcome.name, verdict.reason.name} & {*cheat.stopped_as.split("|")}
        return bool(as_said) and re.search(cheat.said, verdict.message) is not None

    verdict = judged(function, back=cheat.back, **case)
    assert not verdict.passed and is_stopped(verdict), verdict
    if cheat.friendly:
        friendly = judged(function, FRIENDLY, back=cheat.back, **case)
        assert friendly.passed if cheat.friendly == "pass" else is_stopped(friendly), friendly


@pytest.mark.parametrize(
    ("function", "case", "back"),
    [
        pytest.param(function, case, back, id=named(function, case))
        for functions, cases, back in HONEST
        for function in functions.split()
        for case in cases
    ],
)
def test_an_honest_way_passes(function: str, case: dict[str, Any], back: bool) -> None:
    verdict = judged(function, back=back, **case)
    assert verdict.passed, verdict.message


def test_every_function_has_its_row() -> None:
    rows = {f for functions, *_ in (*CHEATS, *HONEST) for f in functions.split()}
    assert rows | APART == {*SOURCES}


def test_ids_are_not_cast() -> None:
    """Cheat: ids through 16 bits (257 becomes 256). Caught: integers are never cast."""
    with pytest.raises(Rejected, match="cast of ids: integers are looked up by"):
        judged("rounds_ids_to_16_bits")


def test_one_token_is_computed_in_a_way_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cheat: one word is left out of one token's maximum. Caught: such a token must meet a high logit at each word,
    and where it cannot the Program is unproven."""
    function = "gives_token_4_the_maximum_without_a_middle_word"
    verdict = judged(function, tokens=8, words=12)
    assert verdict.outcome is Outcome.FAIL
    assert "element 4, of a token with" in verdict.message
    assert "far above the others" in verdict.message
    monkeypatch.setattr(trial_data, "LOGITS_DRAWN", 2**18)
    verdict = judged(function)
    assert (verdict.outcome, verdict.reason) == (Outcome.UNPROVEN, Reason.TOO_LARGE)
    assert "token 4 is computed as 0 others" in verdict.message


@pytest.mark.parametrize(("tokens", "vocabulary", "gap"), [(256, 4096, 0.3), (64, 384, 1.2)])
def test_losses_of_a_training_run_are_drawn_without_a_gap(tokens: int, vocabulary: int, gap: float) -> None:
    """Between 0 and 16 no range of losses is left out, in which a Program might be wrong; small ones lie closer."""
    case = catalog.case("dist_ce", {"tokens": tokens, "vocabulary": vocabulary}, ranks=4, ranks_per_node=4)
    brought = catalog.build(case).nonlinear
    assert brought is not None
    draw = next(iter(brought.draws(np.random.default_rng(0), True, None)))
    logits = draw.inputs[trial_data.LOGITS].reshape(4, tokens, -1).swapaxes(0, 1).reshape(tokens, -1)
    target = np.take_along_axis(logits, draw.inputs[trial_data.TARGETS].T, 1)[:, 0]
    losses = np.log(np.exp(logits.astype(np.float64)).sum(1)) - target
    ordered = np.sort([0, *losses, trial_data.NEAR_LOSSES])
    assert np.diff(ordered).max() < gap
    assert np.diff(ordered[ordered < 0.5]).max() < gap / 4
