"""Deployed modules with calls of torch.distributed."""

from collections.abc import Sequence

from overlayccl_core.backends.torchdist.backend import CALLS, VERSIONS
from overlayccl_core.emit.deployed import deployed_module
from overlayccl_core.emit.deployed_case import DeployedCase, Stamp

__all__ = ["VERSIONS", "deployed"]


def deployed(problem: str, cases: Sequence[DeployedCase], stamp: Stamp) -> str:
    return deployed_module(problem, cases, stamp, calls=CALLS)
