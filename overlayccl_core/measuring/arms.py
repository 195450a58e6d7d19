"""Arms of a training step by name: the compared ways to communicate, from the plainest on."""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

from overlayccl_core.measuring.frameworks import MEANING, framework_arm

Found = TypeVar("Found")


class ArmName(StrEnum):
    """All arms except those of one Problem alone (`only_arm`) and the framework's own (frameworks.py)."""

    DEVELOPER = "developer"
    SINGLE_GRAPH = "single_graph"
    HAND_BUNDLED = "hand_bundled"
    BEST_KNOWN_WAY = "best_known_way"  # the library's fastest strategy in the bench, also written by people
    FINALIST_1 = "finalist_1"
    FINALIST_2 = "finalist_2"
    FINALIST_OVERLAP = "finalist_overlap"  # of those with calls to hide, the cheapest in the step
    FINALIST_OVERLAP_2 = "finalist_overlap_2"  # the second, if its price is near
    DEPLOYED = "deployed"  # the chosen file itself


# Written by people without measuring, the plainest first.
BASELINES = (ArmName.DEVELOPER, ArmName.SINGLE_GRAPH, ArmName.HAND_BUNDLED)
NEEDS_NO_SEARCH = (  # by definition: a finalist may also be a known way's Program
    *BASELINES,
    ArmName.BEST_KNOWN_WAY,
)
FINALISTS = (
    *(ArmName.FINALIST_1, ArmName.FINALIST_2),
    *(ArmName.FINALIST_OVERLAP, ArmName.FINALIST_OVERLAP_2),
)
OF_A_CASE = (*NEEDS_NO_SEARCH, *FINALISTS)  # with a Program of their own at a Case, plainest first
_ONLY = "only_"
_MEANING: dict[str, str] = {
    ArmName.DEVELOPER: "what practitioners write: one library call per tensor, where it is needed",
    ArmName.SINGLE_GRAPH: "the same calls, not merged, issued so that independent ones are under way together",
    ArmName.HAND_BUNDLED: "by hand: independent calls of one kind joined into one",
    ArmName.BEST_KNOWN_WAY: "of all strategies that people wrote, the fastest in the bench",
    ArmName.FINALIST_1: "the fastest in the bench of all proven candidates",
    ArmName.FINALIST_2: "the second fastest in the bench",
    ArmName.FINALIST_OVERLAP: "of those with calls to hide behind computation, the lowest price of the step",
    ArmName.FINALIST_OVERLAP_2: "the second of those with calls to hide, its price near the lowest",
    ArmName.DEPLOYED: "the file that was chosen itself, at this count of microbatches",
}


def only_arm(problem: str) -> str:
    """Return `only_grad_ar`: the first finalist at the sites of one Problem, the developer's calls elsewhere."""
    return _ONLY + problem


def only_problem(arm: str) -> str | None:
    """Return `grad_ar` for `only_grad_ar`; None for an arm of all sites."""
    return arm.removeprefix(_ONLY) if arm.startswith(_ONLY) else None


def arms_of(problems: Collection[str]) -> tuple[str, ...]:
    """Return the arms of a step with sites of these Problems, plainest first; several also change alone."""
    alone = map(only_arm, sorted(problems)) if len(problems) > 1 else ()
    return (*NEEDS_NO_SEARCH, *alone, *FINALISTS)


def is_framework(arm: str) -> bool:
    return framework_arm(arm) is not None


def arm_label(arm: str) -> str:
    if (way := framework_arm(arm)) is not None:
        return way.words
    if arm == ArmName.DEPLOYED:
        return "the chosen file"
    if (problem := only_problem(arm)) is not None:
        return f"only {problem}"
    return arm.replace("_", " ")


def use_text(arm: str) -> str:
    """Return `keep torch DDP (25 MiB)`, `use hand bundled`: the advice for an arm in place of the chosen one."""
    name, _, setting = arm_label(arm).partition(", ")
    return f"{'keep' if is_framework(arm) else 'use'} {name}{f' ({setting})' if setting else ''}"


def arm_meaning(arm: str) -> str:
    if (way := framework_arm(arm)) is not None:
        return MEANING[way.framework]
    if (problem := only_problem(arm)) is not None:
        return f"finalist 1 where {problem} occurs, developer's calls elsewhere"
    return _MEANING.get(arm, "")


def least_plain(arms: Iterable[str]) -> str:
    """Return the arm a split counts as, if its Cases were chosen as several arms."""
    return max(arms, key=plainness)


def plainness(arm: str) -> float:
    """Return the place of an arm among all, from the plainest on."""
    return len(NEEDS_NO_SEARCH) - 0.5 if only_problem(arm) else OF_A_CASE.index(arm)


def stands_as(arm: str, problem: str) -> str:
    """Return the arm at a Case for an arm of a step: the developer's, if that one changes another Problem alone."""
    if (alone := only_problem(arm)) is None:
        return arm
    return ArmName.FINALIST_1 if problem == alone else ArmName.DEVELOPER


def at_case(arms: Mapping[str, Found], arm: str, problem: str) -> Found | None:
    """Return an arm's entry at a Case of a Problem, out of all entries there.

    A finalist missing at a Case is the first one. None if the arm has nothing there.
    """
    arm = stands_as(arm, problem)
    return arms.get(arm, arms.get(ArmName.FINALIST_1)) if arm in FINALISTS else arms.get(arm)
