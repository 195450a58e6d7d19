"""Training: does a step with these Programs train as the developer's does? Evidence in, verdicts out.

This gate does not rely on the proof. A dropped microbatch, scaled sums or a layer without its backward give wrong
gradients and other losses, whatever a proof said.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from overlayccl_core.gates.verdict import EvidenceValue, Reason, Verdict
from overlayccl_core.measuring.measurements import mostly
from overlayccl_core.measuring.outcomes import Gate, Outcome
from overlayccl_core.measuring.purposes import EARLY_STEPS
from overlayccl_core.measuring.statistics import Ratio, ratio_over_launches
from overlayccl_core.program.numerics import LOSSY_TOLERANCE, REORDERED_TOLERANCE, NumericsClass

EARLY_STEP = EARLY_STEPS - 1
EARLY_BOUND = 1e-4  # relative difference of losses by then
BAND_QUARTILES = (25, 75)
NOT_FAILED = frozenset({Outcome.PASS, Outcome.NOT_APPLICABLE})

Losses = tuple[tuple[float, ...], ...]  # [step][rank]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmEvidence:
    """Measurements of one arm in one model.

    Attributes:
        steps_us: launch -> step times, paired by index with those of the other arms.
        gradient_rel_error: Error of the worst parameter against the unsharded model; None: not compared.
        disturbed_launches: Launches of steps_us in which others took too much of the CPU.
    """

    arm: str
    steps_us: Mapping[int, tuple[float, ...]]
    losses: Mapping[int, Losses]  # seed -> losses of long runs; empty if not compared
    timed_losses: Mapping[int, Losses]  # launch -> losses of the timed steps
    gradient_rel_error: float | None
    matmuls: frozenset[tuple[int, str]]  # (number, digest of shapes) of every inspected step
    peak_memory_bytes: int | None = None  # None: not measured
    disturbed_launches: frozenset[int] = frozenset()

    @property
    def mostly_disturbed(self) -> bool:
        """Whether most launches were disturbed: such steps show no win."""
        return mostly(self.disturbed_launches, self.steps_us)

    def speedup_over(self, other: "ArmEvidence") -> Ratio | None:
        """Return the other's step over this one's, paired: median over launches; None without a common launch."""
        return ratio_over_launches(other.steps_us, self.steps_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmOnTrial:
    """An arm on trial, and the developer's arm.

    Attributes:
        explained: Why the library may round differently than in the developer's step despite an exact class.
    """

    arm: ArmEvidence
    developer: ArmEvidence
    numerics: NumericsClass  # worst class of the arm's Programs
    explained: str = ""


def judge(trained: ArmOnTrial) -> tuple[Verdict, ...]:
    """Return the Verdicts on matrix products, gradients and losses.

    The arm passes if none of them fails or is unproven (`passes`).
    """
    return *judge_step(trained), judge_losses(trained)


def judge_step(trained: ArmOnTrial) -> tuple[Verdict, Verdict]:
    """Return the Verdicts on matrix products and gradients: of the one step that is inspected."""
    return _matmuls(trained), _gradients(trained)


def passes(verdicts: Sequence[Verdict]) -> bool:
    """Return whether an arm may be deployed."""
    return all(verdict.outcome in NOT_FAILED for verdict in verdicts)


def band(developer: Mapping[int, Losses]) -> float | None:
    """Return the interquartile range of the developer's final loss over seeds (seed -> losses); None below 2."""
    final = [np.mean(losses[-1]) for losses in developer.values() if losses]
    if len(final) < 2:
        return None
    low, high = np.percentile(final, BAND_QUARTILES)
    return float(high - low)


def _matmuls(trained: ArmOnTrial) -> Verdict:
    mine, theirs = trained.arm.matmuls, trained.developer.matmuls
    if not mine or not theirs:
        return _unproven("nobody counted its matrix products: train it again")
    if mine != theirs:
        return _fails(
            Reason.OTHER_MATMULS,
            f"its step multiplies other matrices ({_counts(mine)}) than the developer's ({_counts(theirs)})",
        )
    return _passes("the same matrix products as the developer's step", matmuls=max(n for n, _ in mine))


def _gradients(trained: ArmOnTrial) -> Verdict:
    error = trained.arm.gradient_rel_error
    if error is None:
        return _unproven("its gradients were not compared with the unsharded model's: train it again")
    figures = {"gradient_rel_error": error, "bound": gradient_bound(trained.numerics)}
    if wrong := wrong_gradients(error, trained.numerics):
        return _fails(Reason.WRONG_GRADIENT, wrong, **figures)
    return _passes(f"all gradients within {error:.1e} of the unsharded model's", **figures)


def gradient_bound(numerics: NumericsClass) -> float:
    """Return the allowed relative error of gradients through Programs of a class."""
    return LOSSY_TOLERANCE if numerics is NumericsClass.LOSSY else REORDERED_TOLERANCE


def wrong_gradients(error: float, numerics: NumericsClass) -> str:
    """Describe gradients out of bounds; empty: they are within.

    Args:
        error: Worst relative error against the unsharded model.
        numerics: Worst class of the Programs behind the gradients.
    """
    bound = gradient_bound(numerics)
    if error <= bound:  # false for NaN
        return ""
    return f"a gradient is {error:.2g} (relative) away from the unsharded model's, {bound:.0e} is allowed"


def judge_losses(trained: ArmOnTrial) -> Verdict:
    """Compare losses with the developer's, rank by rank: early ones relative, final ones inside the band."""
    long = _paired(trained.arm.losses, trained.developer.losses)
    pairs = long or _paired(trained.arm.timed_losses, trained.developer.timed_losses)
    if not pairs:
        return _unproven("there are no losses of it beside the developer's: train it again")
    early = float(np.max([_early(mine, theirs) for mine, theirs in pairs]))
    figures: dict[str, EvidenceValue] = {"early_rel_difference": early, "runs": len(pairs)}
    if trained.explained:
        figures["explained"] = trained.explained
    exact = trained.numerics is NumericsClass.EXACT
    if exact and not trained.explained:
        last = float(np.max([np.abs(np.subtract(mine, theirs)).max() for mine, theirs in pairs]))
        return _within(
            last, 0.0, "its losses differ by {0:.2g} from the developer's, and nothing explains it", figures
        )
    if trained.numerics is not NumericsClass.LOSSY and not early <= EARLY_BOUND:
        message = f"by step {EARLY_STEP} its loss is {early:.2g} (relative) away from the developer's"
        return _fails(Reason.OTHER_LOSSES, f"{message}, {EARLY_BOUND:.0e} is allowed", **figures)
    width = band(trained.developer.losses) if long else None
    if width is None:
        return _without_band(trained, figures, long=bool(long))
    final = float(np.max([np.abs(np.subtract(mine[-1], theirs[-1])).max() for mine, theirs in pairs]))
    allowed = width if trained.numerics is NumericsClass.LOSSY else width / 2
    message = (
        f"its final loss is {{0:.2g}} away from the developer's, the spread over seeds allows {allowed:.2g}"
    )
    return _within(final, allowed, message, {**figures, "band": width, "final_difference": final})


def _without_band(trained: ArmOnTrial, figures: dict[str, EvidenceValue], *, long: bool) -> Verdict:
    """Judge the early part alone; a lossy arm stays unproven."""
    why = "with one seed there is no band" if long else "long runs were not compared here"
    if trained.numerics is NumericsClass.LOSSY:
        message = f"only the spread of losses over seeds could decide about a lossy arm, and {why}"
        return _unproven(message, **figures)
    return _passes(
        f"losses as the developer's by step {EARLY_STEP}; the final loss: not applicable, {why}", **figures
    )


def _paired(mine: Mapping[int, Losses], theirs: Mapping[int, Losses]) -> list[tuple[Losses, Losses]]:
    """Return (mine, theirs) of every common run, cut to the common steps."""
    cut = ((mine[k], theirs[k], min(len(mine[k]), len(theirs[k]))) for k in sorted(mine) if k in theirs)
    return [(a[:n], b[:n]) for a, b, n in cut if n]


def _early(mine: Losses, theirs: Losses) -> float:
    """Return the largest relative difference up to step 5; NaN if a loss is NaN."""
    a, b = np.array(mine[: EARLY_STEP + 1]), np.array(theirs[: EARLY_STEP + 1])
    return float(np.max(np.abs(a - b) / np.abs(b)))


def _within(value: float, allowed: float, message: str, figures: dict[str, EvidenceValue]) -> Verdict:
    if not value <= allowed:
        return _fails(Reason.OTHER_LOSSES, message.format(value), **figures)
    return _passes("trains as the developer's arm does", **figures)


_passes = partial(Verdict.of, Gate.TRAINING, Outcome.PASS, Reason.OK)
_fails = partial(Verdict.of, Gate.TRAINING, Outcome.FAIL)
_unproven = partial(Verdict.of, Gate.TRAINING, Outcome.UNPROVEN, Reason.NOT_MEASURED)


def _counts(matmuls: frozenset[tuple[int, str]]) -> str:
    return ", ".join(f"{count} of digest {digest[:8]}" for count, digest in sorted(matmuls))
