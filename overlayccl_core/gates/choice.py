"""Choice: a ladder of contenders, the plainest first. A less plain one has to be faster beyond noise.

The developer's own way stands on the first rung. A contender replaces the current choice if it passed its gates
and, in training, is faster beyond noise in at least one model with the Case and not slower (`Ratio.not_slower`) in
all of them. If no model has the Case, the bench decides. No replacement is silent: every contender gets a Verdict
with the reason.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from overlayccl_core.gates.training import passes
from overlayccl_core.gates.verdict import Reason, Verdict
from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.measuring.outcomes import Gate, Outcome
from overlayccl_core.measuring.statistics import Ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A candidate as an arm.

    Attributes:
        timed_as: Key of the timed arms; contenders with the same key are one. An arm is more than its candidate at
            one Case if models train it at all of their sites together.
        training: (model, verdicts) of every model with the Case; empty: there is none.
    """

    arm: str
    candidate: str
    timed_as: tuple[str, ...]
    bench: Verdict
    training: tuple[tuple[str, tuple[Verdict, ...]], ...]
    left_behind: bool = False  # by later launches of training

    def __str__(self) -> str:
        return self.arm if self.arm == self.candidate else f"{self.arm} ({self.candidate})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The contender to deploy, the reason, and a Verdict for each contender in their order."""

    chosen: Contender
    reason: str
    verdicts: tuple[Verdict, ...]


Speed = Callable[[Contender, Contender], Mapping[str, Ratio | None]]
"""(one, other) -> model, or bench -> how many times as fast the one is; None: not timed beside the other."""


def choose(contenders: Sequence[Contender], speed: Speed) -> Choice:
    """Choose the contender to deploy.

    Args:
        contenders: The plainest first.

    Raises:
        ValueError: The first contender is not the developer's own way.
    """
    if not contenders or contenders[0].arm != ArmName.DEVELOPER:
        raise ValueError(
            f"the first contender must be {ArmName.DEVELOPER} (got {[c.arm for c in contenders]})"
        )
    chosen, reason = contenders[0], "nothing is faster beyond noise, so the developer's own way is deployed"
    first_with: dict[tuple[str, ...], Contender] = {chosen.timed_as: chosen}
    verdicts: dict[str, Verdict] = {}
    stopped = list[str]()
    for one in contenders[1:]:
        if (same := first_with.setdefault(one.timed_as, one)) is not one:
            message = f"the same Program as {same.arm}"
            verdicts[one.arm] = _verdict(Outcome.NOT_APPLICABLE, Reason.SAME_PROGRAM, message, one)
        elif against := against_it(one):
            verdicts[one.arm] = _verdict(Outcome.FAIL, Reason.NOT_PASSED, against, one)
            stopped.append(f"{one}: {against}")
        elif one.left_behind:
            message = "too slow in the first launches of training to be in the later ones"
            verdicts[one.arm] = _verdict(Outcome.FAIL, Reason.NOT_FASTER, message, one)
        elif not _faster(ratios := speed(one, chosen)):
            said = f"{_said(ratios, chosen)}: {_word(ratios)}"
            verdicts[one.arm] = _verdict(Outcome.FAIL, Reason.NOT_FASTER, said, one)
            stopped.append(f"{one}: {said}")
        else:
            message = f"{one.arm} is faster beyond noise"
            verdicts[chosen.arm] = _verdict(Outcome.NOT_APPLICABLE, Reason.SURPASSED, message, chosen)
            chosen, reason, stopped = one, _said(ratios, chosen), []
    reason = "; ".join([reason, *stopped])
    verdicts[chosen.arm] = _verdict(Outcome.PASS, Reason.OK, reason, chosen)
    return Choice(chosen=chosen, reason=reason, verdicts=tuple(verdicts[one.arm] for one in contenders))


def against_it(one: Contender) -> str:
    """Return, in a clause, why a contender cannot be deployed at any speed; empty: it can."""
    if not one.bench.passed:
        return f"bench: {one.bench.message}"
    for model, verdicts in one.training:
        if not passes(verdicts):
            failed = next(v for v in verdicts if not passes([v]))
            return f"training {model}: {failed.message}"
    return ""


def _faster(ratios: Mapping[str, Ratio | None]) -> bool:
    """Tell whether it is faster beyond noise in some place, and possibly slower in none."""
    known = [ratio for ratio in ratios.values() if ratio is not None]
    return (
        len(known) == len(ratios) > 0
        and any(ratio.beyond_noise for ratio in known)
        and all(ratio.not_slower for ratio in known)
    )


def _word(ratios: Mapping[str, Ratio | None]) -> str:
    """Say whether rounds are too few, it is slower beyond noise, or not faster beyond noise."""
    if any(ratio is not None and ratio.low is None for ratio in ratios.values()):
        return "too few rounds to tell: give more seconds"
    if any(ratio is not None and ratio.slower for ratio in ratios.values()):
        return "slower beyond noise"
    return "not faster beyond noise"


def _said(ratios: Mapping[str, Ratio | None], other: Contender) -> str:
    told = [f"{_beside(ratio, other)} in {place}" for place, ratio in ratios.items()]
    return ", ".join(told) or _beside(None, other)


def _beside(ratio: Ratio | None, other: Contender) -> str:
    if ratio is None:
        return f"not timed beside {other}"
    if ratio.value == ratio.low == ratio.high == 1:  # never of two timings: they were trained as one
        return f"the same modules as {other}"
    return f"{ratio} times as fast as {other}"


def _verdict(outcome: Outcome, reason: Reason, message: str, one: Contender) -> Verdict:
    return Verdict.of(Gate.CHOICE, outcome, reason, message, arm=one.arm)
