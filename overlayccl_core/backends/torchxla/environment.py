"""The environment of the ranks, in one place, and what of it a measurement depends on.

Neuron: AWS Neuron SDK, setup-trn1-multi-node-execution and the runtime's configuration (docs/trn1.md names the
pages)."""

from collections.abc import Mapping

from overlayccl_core.backends.torch_ranks.starting import ONE_THREAD, rank_environment
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.launching import fingerprint as fingerprints
from overlayccl_core.launching.interface import INTERFACE, interface_towards

NEURON_INTERFACE = "CCOM_SOCKET_IFNAME"  # and on which Neuron's collectives begin
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
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",  # a plug-in would read its variables before a rank has its own
}
# torch_xla orders the collectives of a graph by a number that it reads off each result and adds to what the next
# is given: what means nothing (`PortSpec.valid`) and is no number would spoil all that come behind it. With this,
# all but all_reduce are free of it. A deployment that measures the other way says so in its `environment`.
NUMERIC_TOKEN = "DISABLE_NUMERIC_CC_TOKEN"
UNCHAINED = {NUMERIC_TOKEN: "1"}
STANDIN = "standin"  # the library in place of torch_xla, where that is not installed
OF_LIBRARY: Mapping[str, Mapping[str, str]] = {
    "neuron": {
        "PJRT_DEVICE": "NEURON",
        "FI_PROVIDER": "efa",
        "FI_EFA_USE_DEVICE_RDMA": "1",
        "MALLOC_ARENA_MAX": "64",
        "NEURON_RT_STOCHASTIC_ROUNDING_EN": "0",  # values are compared to the bit
        "NEURON_RT_EXEC_TIMEOUT": "600",
        # Graphs on a core, each of which takes memory: as the script of an example of AWS has it.
        "NEURON_NUM_RECENT_MODELS_TO_KEEP": "4",
        "NEURON_CC_FLAGS": "--retry_failed_compilation",  # failures are kept in the cache, too
        **UNCHAINED,
    },
    "tpu": {"PJRT_DEVICE": "TPU", **UNCHAINED},
    STANDIN: UNCHAINED,
}
ZERO_OUTPUTS = "NEURON_EXTRACT_GRAPHS_ONLY"  # graphs are collected and never run: all that comes out is zero


def environment(deployment: Deployment, towards: str) -> dict[str, str]:
    """Of the ranks on this host. towards: the address of the first node; empty: there is one."""
    meeting = {INTERFACE: interface_towards(towards) if towards else "lo"}
    if towards and deployment.library == "neuron":
        meeting |= {NEURON_INTERFACE: meeting[INTERFACE]}
    return rank_environment(meeting | _usual(deployment.library), deployment)


def environment_parts(deployment: Deployment) -> dict[str, str]:
    """The parts of a fingerprint that tell what reaches the ranks: whether collectives are free of one another,
    which deployed modules compare, and what else is set here."""
    usual, speed = _usual(deployment.library), (*SPEED, *deployment.environment)
    environment = rank_environment(usual, deployment)
    token = {NUMERIC_TOKEN: environment.pop(NUMERIC_TOKEN, "0")}
    environment = {name: x for name, x in environment.items() if not name.startswith(OF_NO_EFFECT)}
    return token | fingerprints.environment_parts(environment, speed, {**usual, **ONE_THREAD})


def _usual(library: str) -> dict[str, str]:
    return {**ALL, **OF_LIBRARY.get(library, {})}
