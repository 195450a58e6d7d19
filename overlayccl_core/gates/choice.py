"""Choice: the first contender that passed its gates is deployed; if none did, the developer's own way is.

Nothing is substituted silently: every contender gets a Verdict that says why it was chosen or not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from overlayccl_core.gates.training import passes
from overlayccl_core.gates.verdict import Gate, Outcome, Reason, Verdict, evidence
from overlayccl_core.measuring.arms import FINALISTS, ArmName
from overlayccl_core.measuring.statistics import Ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A candidate as an arm. training: (model, verdicts) of every model that has the Case; empty: there is none.

    speedup: over the developer in the bench, which decides where no model has the Case.
    """

    arm: str
    candidate: str
    bench: Verdict
    training: tuple[tuple[str, tuple[Verdict, ...]], ...]
    speedup: Ratio | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The contender that is deployed, why, and a Verdict for each contender in their order."""

    chosen: Contender
    reason: str
    verdicts: tuple[Verdict, ...]


def choose(contenders: Sequence[Contender]) -> Choice:
    """contenders: finalists first, then baselines; the developer last. ValueError if it is not."""
    if not contenders or contenders[-1].arm != ArmName.DEVELOPER:
        raise ValueError(
            f"the last contender must be {ArmName.DEVELOPER} (got {[c.arm for c in contenders]})"
        )
    chosen: Contender | None = None
    verdicts, stopped = [], list[str]()
    for one in contenders:
        against = "" if one.arm == ArmName.DEVELOPER else against_it(one)
        if chosen is not None:
            verdicts.append(
                _verdict(Outcome.NOT_APPLICABLE, Reason.NOT_NEEDED, f"{chosen.arm} is chosen", one)
            )
        elif against:
            verdicts.append(_verdict(Outcome.FAIL, Reason.NOT_PASSED, against, one))
            stopped.append(f"; {one.arm} ({one.candidate}) is passed over: {against}")
        else:
            chosen = one
            verdicts.append(_verdict(Outcome.PASS, Reason.OK, _why(one, stopped), one))
    assert chosen is not None  # the developer's arm cannot be stopped
    return Choice(chosen=chosen, reason=_why(chosen, stopped), verdicts=tuple(verdicts))


def against_it(one: Contender) -> str:
    """Why a contender is not deployed, in a clause; empty: nothing stands against it."""
    if not one.bench.passed:
        return f"bench: {one.bench.message}"
    for model, verdicts in one.training:
        if not passes(verdicts):
            failed = next(v for v in verdicts if not passes([v]))
            return f"training {model}: {failed.message}"
    if not one.training and not (one.speedup and one.speedup.beyond_noise):
        return "bench: not faster than the developer's beyond noise"
    return ""


def _why(one: Contender, stopped: Sequence[str]) -> str:
    others = "".join(stopped)
    if one.arm == ArmName.DEVELOPER:
        return f"nothing beats the baseline, so the developer's own way is deployed{others}"
    if one.training:
        models = ", ".join(model for model, _ in one.training)
        passed = f"passes the training gate in {models}"
    else:
        place = "the fastest" if one.arm == ArmName.FINALIST_1 else "faster than the developer"
        passed = f"{place} in the bench; training: not applicable, no model has this Case"
    if one.arm not in FINALISTS:
        return f"{one.arm}, a baseline, is deployed: {passed}{others}"
    return f"{passed}{others}"


def _verdict(outcome: Outcome, reason: Reason, message: str, one: Contender) -> Verdict:
    return Verdict(
        gate=Gate.CHOICE, outcome=outcome, reason=reason, message=message, evidence=evidence(arm=one.arm)
    )
