"""The arms of a training step by name: the ways to communicate that are compared, from the plainest on."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

Found = TypeVar("Found")


class ArmName(StrEnum):
    """All arms but the framework's own, whose names hold a size (`framework_arm`)."""

    DEVELOPER = "developer"
    SINGLE_GRAPH = "single_graph"
    HAND_BUNDLED = "hand_bundled"
    BEST_SEED = "best_seed"  # the strategy of the library that was fastest in the bench: people wrote it, too
    FINALIST_1 = "finalist_1"
    FINALIST_2 = "finalist_2"
    FINALIST_OVERLAP = "finalist_overlap"  # the fastest of those that a bench undervalues: it hides nothing
    DEPLOYED = "deployed"  # the file in deploy/ itself


# What people write without measuring, the plainest first.
BASELINES = (ArmName.DEVELOPER, ArmName.SINGLE_GRAPH, ArmName.HAND_BUNDLED)
NEEDS_NO_SEARCH = (*BASELINES, ArmName.BEST_SEED)
FINALISTS = (ArmName.FINALIST_1, ArmName.FINALIST_2, ArmName.FINALIST_OVERLAP)
OF_A_CASE = (*NEEDS_NO_SEARCH, *FINALISTS)  # those that have a Program of their own at a Case, plainest first
_FRAMEWORK = "ddp_"


def framework_arm(bucket_mib: float) -> str:
    """`ddp_25`: the framework's own data parallelism with a bucket size in MiB. It deploys no module."""
    return f"{_FRAMEWORK}{bucket_mib:g}"


def framework_bucket(arm: str) -> str | None:
    """`25` of `ddp_25`; None for an arm that is not the framework's own."""
    return arm.removeprefix(_FRAMEWORK) if arm.startswith(_FRAMEWORK) else None


def is_framework(arm: str) -> bool:
    """Whether an arm is the framework's own."""
    return framework_bucket(arm) is not None


def least_plain(arms: Iterable[str]) -> str:
    """As what a split counts whose Cases were chosen as several arms."""
    return max(arms, key=OF_A_CASE.index)


def at_case(arms: Mapping[str, Found], arm: str) -> Found | None:
    """What an arm has at a Case, of all that stand there: a finalist that a Case lacks is its first one."""
    return arms.get(arm, arms.get(ArmName.FINALIST_1)) if arm in FINALISTS else arms.get(arm)
