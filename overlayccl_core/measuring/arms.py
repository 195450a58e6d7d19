"""The arms of a training step by name: the ways to communicate that are compared, from the plainest on."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

Found = TypeVar("Found")


class ArmName(StrEnum):
    """All arms but the framework's own (`ddp_arm`, FSDP), which deploy no module."""

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
_DDP = "ddp_"
FSDP = "fsdp"  # the framework's own data parallelism with parameters in shards


def ddp_arm(bucket_mib: float) -> str:
    """`ddp_25`: the framework's own data parallelism with a bucket size in MiB."""
    return f"{_DDP}{bucket_mib:g}"


def ddp_bucket(arm: str) -> str | None:
    """`25` of `ddp_25`; None for any other arm."""
    return arm.removeprefix(_DDP) if arm.startswith(_DDP) else None


def is_framework(arm: str) -> bool:
    """Whether an arm is the framework's own."""
    return arm == FSDP or ddp_bucket(arm) is not None


def least_plain(arms: Iterable[str]) -> str:
    """As what a split counts whose Cases were chosen as several arms."""
    return max(arms, key=OF_A_CASE.index)


def at_case(arms: Mapping[str, Found], arm: str) -> Found | None:
    """What an arm has at a Case, of all that stand there: a finalist that a Case lacks is its first one."""
    return arms.get(arm, arms.get(ArmName.FINALIST_1)) if arm in FINALISTS else arms.get(arm)
