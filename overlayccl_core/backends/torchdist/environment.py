"""The environment of the ranks, and what of it a measurement depends on."""

from overlayccl_core.backends import fingerprint as fingerprints
from overlayccl_core.backends.interface import INTERFACE, interface_towards
from overlayccl_core.backends.torch_ranks.starting import ONE_THREAD, rank_environment
from overlayccl_core.configuration.deployment import Deployment

USUAL = {"TORCH_CPP_LOG_LEVEL": "ERROR"}  # unless the caller sets something else
HERE = {INTERFACE: "lo", **USUAL}
SPEED = (*fingerprints.SPEED, "ATEN_", "CUDA_", "DNNL_", "GLOO_", "NCCL_", "ONEDNN_", "PYTORCH_", "TORCH_")


def environment(deployment: Deployment, towards: str) -> dict[str, str]:
    """Of the ranks on this host. towards: the address of the first node; empty: there is one."""
    usual = {INTERFACE: interface_towards(towards), **USUAL} if towards else HERE
    return rank_environment(usual, deployment)


def environment_parts(deployment: Deployment) -> dict[str, str]:
    """The part of a fingerprint that tells what is set here and reaches the ranks."""
    usual = HERE if deployment.nodes == 1 else USUAL
    prefixes = (*SPEED, *deployment.environment)
    environment = rank_environment(usual, deployment)
    return fingerprints.environment_parts(environment, prefixes, {**usual, **ONE_THREAD})
