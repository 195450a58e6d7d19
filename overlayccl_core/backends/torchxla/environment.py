"""The environment of the ranks, in one place, and its part in a measurement.

Neuron: AWS Neuron SDK, setup-trn1-multi-node-execution and the runtime's configuration (pages: docs/trn1.md).
"""

from collections.abc import Mapping

from overlayccl_core.backends.torch_ranks.fork_client import ONE_THREAD, rank_environment
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.launching import fingerprint as fingerprints
from overlayccl_core.launching.interface import INTERFACE, interface_towards

NEURON_INTERFACE = "CCOM_SOCKET_IFNAME"  # the interface for the start of Neuron's collectives
SPEED: Mapping[str, str] = {
    **fingerprints.SPEED,
    "GLOO_*": "on which interfaces and how ranks are connected",
    "FI_*": "how libfabric uses the network",
    "NEURON*": "compiler, runtime and collectives",
    "PJRT_*": "which devices there are",
    "TPU_*": "which devices there are",
    "LIBTPU_*": "compiler and runtime",
    "XLA_*": "compiler, and when a graph is cut",
}
OF_NO_EFFECT = (
    *("NEURON_COMPILE_CACHE_URL", "NEURON_RT_LOG", "NEURON_FRAMEWORK_DEBUG", "NEURON_RT_ROOT"),
    *("FI_LOG", "XLA_IR_DEBUG", "XLA_HLO_DEBUG", "TPU_LOG", "TPU_STDERR_LOG", "TPU_MIN_LOG"),
)
ALL = {
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",  # a plug-in would read its variables before the rank sets them
}
# torch_xla orders the collectives of a graph by a number, read off each result and added to the next input: a
# meaningless value (`PortSpec.valid`) that is NaN would spoil all later results. With this setting, all but
# all_reduce are free of it. A deployment can unset it in its `environment`.
NUMERIC_TOKEN = "DISABLE_NUMERIC_CC_TOKEN"
UNCHAINED = {NUMERIC_TOKEN: "1"}
STANDIN = "standin"  # the library in place of a missing torch_xla
OF_LIBRARY: Mapping[str, Mapping[str, str]] = {
    "neuron": {
        "PJRT_DEVICE": "NEURON",
        "FI_PROVIDER": "efa",
        "FI_EFA_USE_DEVICE_RDMA": "1",
        "MALLOC_ARENA_MAX": "64",
        "NEURON_RT_STOCHASTIC_ROUNDING_EN": "0",  # values are compared to the bit
        "NEURON_RT_EXEC_TIMEOUT": "600",
        # Graphs kept on a core, each takes memory: the value of an AWS example script.
        "NEURON_NUM_RECENT_MODELS_TO_KEEP": "4",
        "NEURON_CC_FLAGS": "--retry_failed_compilation",  # failures are kept in the cache, too
        **UNCHAINED,
    },
    "tpu": {"PJRT_DEVICE": "TPU", **UNCHAINED},
    STANDIN: UNCHAINED,
}
ZERO_OUTPUTS = "NEURON_EXTRACT_GRAPHS_ONLY"  # graphs are collected and never run: all outputs are zero


def environment(deployment: Deployment, towards: str) -> dict[str, str]:
    """Return the environment of the ranks on this host. towards: address of the first node; empty if alone."""
    meeting = {INTERFACE: interface_towards(towards) if towards else "lo"}
    if towards and deployment.library == "neuron":
        meeting |= {NEURON_INTERFACE: meeting[INTERFACE]}
    return rank_environment(meeting | _usual(deployment.library), deployment)


def environment_parts(deployment: Deployment) -> dict[str, str]:
    """Return a fingerprint's parts on the settings that reach the ranks.

    One part, compared by deployed modules, is whether collectives are free of one another.
    """
    usual, speed = _usual(deployment.library), (*SPEED, *deployment.environment)
    environment = rank_environment(usual, deployment)
    token = {NUMERIC_TOKEN: environment.pop(NUMERIC_TOKEN, "0")}
    environment = {name: x for name, x in environment.items() if not name.startswith(OF_NO_EFFECT)}
    return token | fingerprints.environment_parts(environment, speed, {**usual, **ONE_THREAD})


def _usual(library: str) -> dict[str, str]:
    return {**ALL, **OF_LIBRARY.get(library, {})}
