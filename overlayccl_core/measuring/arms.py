"""The arms of a training step by name: the ways to communicate that are compared, and the order of choice."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

Found = TypeVar("Found")


class ArmName(StrEnum):
    """All arms but the framework's own, whose names hold a size (`framework_arm`)."""

    DEVELOPER = "developer"
    SINGLE_GRAPH = "single_graph"
    HAND_BUNDLED = "hand_bundled"
    FINALIST_1 = "finalist_1"
    FINALIST_2 = "finalist_2"
    BIG_BATCH = "big_batch"  # other matmuls: shown beside the arms, not compared


# What people write, the plainest first.
BASELINES = (ArmName.DEVELOPER, ArmName.SINGLE_GRAPH, ArmName.HAND_BUNDLED)
FINALISTS = (ArmName.FINALIST_1, ArmName.FINALIST_2)
OF_A_CASE = (*BASELINES, *FINALISTS)  # those that have a Program of their own at a Case
ORDER_OF_CHOICE = (*FINALISTS, *reversed(BASELINES))
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


def at_case(arms: Mapping[str, Found], arm: str) -> Found | None:
    """What an arm has at a Case, of all that stand there; a Case with one finalist has it in both of theirs."""
    if arm == ArmName.FINALIST_2 and arm not in arms:
        return arms.get(ArmName.FINALIST_1)
    return arms.get(arm)
