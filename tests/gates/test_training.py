"""The training gate on evidence made by hand: what passes, what each check stops, and that it alone does."""

from dataclasses import replace

import pytest

from overlayccl_core.gates.training import ArmOnTrial, Losses, band, judge, passes
from overlayccl_core.gates.verdict import Reason, Verdict
from overlayccl_core.measuring.outcomes import Gate, Outcome
from overlayccl_core.program.numerics import NumericsClass
from tests.gates.training_evidence import MATMULS, SEEDS, arm, curve, steps, trial


def matmuls(trained: ArmOnTrial) -> Verdict:
    return judge(trained)[0]


def gradients(trained: ArmOnTrial) -> Verdict:
    return judge(trained)[1]


def losses(trained: ArmOnTrial) -> Verdict:
    return judge(trained)[2]


def losses_verdict(numerics: NumericsClass, explained: str = "", **changes: float) -> Verdict:
    mine = arm("finalist_1", 1000.0, **changes)
    trained = trial(numerics, losses=mine.losses, timed_losses=mine.timed_losses)
    return losses(replace(trained, explained=explained))


def ends(seed: int, away: float) -> Losses:
    """A run whose last losses are so far from what they should be."""
    *before, last = curve(seed)
    return (*before, tuple(loss + away for loss in last))


def test_the_developers_step_in_half_the_time_passes_every_check() -> None:
    verdicts = judge(trial())
    assert passes(verdicts)
    assert [(v.gate, v.outcome) for v in verdicts] == [(Gate.TRAINING, Outcome.PASS)] * 3
    assert all(v.message for v in verdicts)


# What a wrong strategy shows in real steps, with the proof switched off: figures of a small Llama-like model.
CHEATS = {
    "drops one microbatch of eight": {"gradient_rel_error": 0.31, "rate": 0.045},
    "scales its sums by 0.9": {"gradient_rel_error": 0.12, "rate": 0.048},
    "skips the backward of one layer": {"gradient_rel_error": 1.0, "rate": 0.04},
}


@pytest.mark.parametrize("name", CHEATS)
def test_a_wrong_strategy_is_rejected_by_gradients_and_by_losses_each_alone(name: str) -> None:
    error, rate = CHEATS[name]["gradient_rel_error"], CHEATS[name]["rate"]
    wrong = arm("finalist_1", 800.0, rate=rate)
    trained = trial(
        losses=wrong.losses,
        timed_losses=wrong.timed_losses,
        gradient_rel_error=error,
        steps_us=wrong.steps_us,
    )
    matmuls, *others = judge(trained)
    assert [v.reason for v in others] == [Reason.WRONG_GRADIENT, Reason.OTHER_LOSSES]
    assert passes([matmuls]) and not any(passes([matmuls, one]) for one in others)


def test_a_lossy_arm_that_scales_by_0_9_is_rejected_by_its_gradients() -> None:
    verdict = gradients(trial(NumericsClass.LOSSY, gradient_rel_error=0.1))
    assert verdict.reason is Reason.WRONG_GRADIENT
    assert gradients(trial(NumericsClass.LOSSY, gradient_rel_error=2e-3)).passed


@pytest.mark.parametrize("error", [1.1e-5, 0.5, float("nan"), float("inf")])
def test_a_gradient_outside_1e_5_is_wrong_in_float32(error: float) -> None:
    verdict = gradients(trial(gradient_rel_error=error))
    assert (verdict.outcome, verdict.reason) == (Outcome.FAIL, Reason.WRONG_GRADIENT)
    assert gradients(trial(gradient_rel_error=0.9e-5)).passed


def test_other_matrix_products_than_the_developers_are_no_comparison() -> None:
    for other in (frozenset({(95, "0123456789abcdef")}), frozenset({(96, "another")})):
        assert matmuls(trial(matmuls=other)).reason is Reason.OTHER_MATMULS
    assert matmuls(trial(matmuls=MATMULS)).passed


@pytest.mark.parametrize(
    ("number", "missing"),
    [
        (0, {"matmuls": frozenset()}),
        (1, {"gradient_rel_error": None}),
        (2, {"losses": {}, "timed_losses": {}}),
    ],
)
def test_what_was_not_looked_at_is_unproven_and_does_not_pass(
    number: int, missing: dict[str, object]
) -> None:
    verdicts = judge(trial(**missing))
    unproven = (Outcome.UNPROVEN, Reason.NOT_MEASURED)
    assert (verdicts[number].outcome, verdicts[number].reason) == unproven and not passes(verdicts)


class TestLosses:
    def test_exact_must_be_equal_unless_explained(self) -> None:
        assert losses_verdict(NumericsClass.EXACT).passed
        assert losses_verdict(NumericsClass.EXACT, change=1e-9).reason is Reason.OTHER_LOSSES
        explained = losses_verdict(NumericsClass.EXACT, "the library's order", change=1e-6)
        assert explained.passed and explained["explained"] == "the library's order"
        assert not losses_verdict(NumericsClass.EXACT, "the library's order", change=0.1).passed

    def test_reordered_may_differ_by_1e_4_at_step_5(self) -> None:
        assert losses_verdict(NumericsClass.REORDERED, change=0.9e-4 * 40 / 5).passed
        verdict = losses_verdict(NumericsClass.REORDERED, change=1.1e-4 * 40 / 5)
        assert verdict.reason is Reason.OTHER_LOSSES and "by step 5" in verdict.message

    def test_reordered_must_end_inside_half_the_band_and_lossy_inside_the_band(self) -> None:
        width = band(arm("developer", 1.0).losses)
        assert width == pytest.approx(0.03)  # seeds end 0.02 apart: quartiles of 0, 0.02, 0.04, 0.06
        final = {seed: ends(seed, 0.7 * width) for seed in SEEDS}
        assert losses(trial(NumericsClass.LOSSY, losses=final)).passed
        verdict = losses(trial(NumericsClass.REORDERED, losses=final))
        assert verdict.reason is Reason.OTHER_LOSSES and "final loss" in verdict.message
        final = {seed: ends(seed, 1.1 * width) for seed in SEEDS}
        assert not losses(trial(NumericsClass.LOSSY, losses=final)).passed

    def test_with_one_seed_the_band_is_not_applicable_and_that_is_said(self) -> None:
        trained = trial()
        one = replace(trained.developer, losses={0: curve(0)})
        verdict = losses(replace(trained, developer=one))
        assert verdict.passed and "with one seed" in verdict.message
        lossy = losses(replace(trained, developer=one, numerics=NumericsClass.LOSSY))
        assert lossy.outcome is Outcome.UNPROVEN

    def test_without_long_runs_the_timed_steps_are_compared(self) -> None:
        verdict = losses(trial(losses={}))
        assert verdict.passed and "long runs were not" in verdict.message
        wrong = arm("finalist_1", 1.0, rate=0.04).timed_losses
        assert not losses(trial(losses={}, timed_losses=wrong)).passed

    def test_a_loss_that_is_no_number_fails(self) -> None:
        for step in (3, 39):
            bad = {seed: curve(seed) for seed in SEEDS}
            bad[1] = (*bad[1][:step], (float("nan"),) * 2, *bad[1][step + 1 :])
            assert not losses(trial(losses=bad)).passed


def test_ratios_hold_within_a_launch_only() -> None:
    slow_first = {k: us for k, us in steps(1000.0).items() if k == 4}
    ratio = trial(steps_us=slow_first).arm.speedup_over(trial().developer)
    assert ratio is not None and ratio.value == pytest.approx(2, rel=0.02)
    assert trial(steps_us={9: (1.0, 1.0)}).arm.speedup_over(trial().developer) is None
    few = {k: us[:3] for k, us in steps(1000.0).items()}  # paired with the developer's first three
    ratio = trial(steps_us=few).arm.speedup_over(trial().developer)
    assert ratio is not None and ratio.value == pytest.approx(2, rel=0.02)


def test_losses_are_compared_rank_by_rank() -> None:
    """Ranks that drift apart may keep their mean."""
    apart = {seed: tuple((1.001 * a, 0.999 * b) for a, b in curve(seed)) for seed in SEEDS}
    assert losses(trial(losses=apart)).reason is Reason.OTHER_LOSSES
