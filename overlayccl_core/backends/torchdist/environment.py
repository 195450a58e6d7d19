"""The environment of the ranks, and its part in a measurement."""

from collections.abc import Mapping

from overlayccl_core.backends.torch_ranks.starting import ONE_THREAD, rank_environment
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.launching import fingerprint as fingerprints
from overlayccl_core.launching.interface import INTERFACE, interface_towards

USUAL = {"TORCH_CPP_LOG_LEVEL": "ERROR"}  # unless set by the caller
HERE = {INTERFACE: "lo", **USUAL}
SPEED: Mapping[str, Mapping[str, str]] = {
    "gloo": {
        "GLOO_*": "on which interfaces and how ranks are connected",
        "TORCH_GLOO_*": "when ranks are connected",
    },
    "nccl": {
        "CUDA_VISIBLE_DEVICES": "which GPUs there are",
        "CUDA_DEVICE_ORDER": "which GPUs there are",
        "CUDA_DEVICE_MAX_CONNECTIONS": "what may run at once on a GPU",
        "CUDA_LAUNCH_BLOCKING": "what may run at once on a GPU",
        "CUDA_SCALE_LAUNCH_QUEUES": "how far a CPU may be ahead of its GPU",
        "CUDA_MODULE_LOADING": "when kernels are loaded",
        "CUDA_MPS_*": "with whom a GPU is shared",
        "CUDA_*BOOST": "clocks of a GPU",
        "CUBLAS*": "workspaces and algorithms of matmuls",
        "CUDNN_*": "algorithms",
        "NVIDIA_TF32_OVERRIDE": "in which precision matmuls compute",
        "TORCH_ALLOW_TF32_*": "in which precision matmuls compute",
        "TORCH_BLAS_*": "which library computes matmuls",
        "TORCH_NCCL_*": "streams, events and watchdogs of collectives",
        "PYTORCH_*ALLOC*": "the allocator of a GPU's memory",
        "PYTORCH_NO_CUDA_MEMORY_CACHING": "the allocator of a GPU's memory",
        "NCCL_ALGO": "the algorithm of a collective",
        "NCCL_PROTO": "the protocol of a collective",
        "NCCL_TUNER_*": "algorithm and protocol of a collective",
        "NCCL_CONF_FILE": "all of these in a file",
        "NCCL_*THRESHOLD*": "up to which size a protocol is used",
        "NCCL_*BUFFSIZE": "the pieces of a collective",
        "NCCL_*CHUNKSIZE": "the pieces of a collective",
        "NCCL_*CHANNELS*": "what of a GPU a collective takes",
        "NCCL_*CTAS": "what of a GPU a collective takes",
        "NCCL_*NTHREADS": "what of a GPU a collective takes",
        "NCCL_CGA_CLUSTER_SIZE": "what of a GPU a collective takes",
        "NCCL_NRINGS": "what of a GPU a collective takes",
        "NCCL_LAUNCH_*": "how a collective is started",
        "NCCL_WORK_FIFO_*": "how far a CPU may be ahead of its GPU",
        "NCCL_CROSS_NIC": "which way data take between nodes",
        "NCCL_GRAPH_*": "which way data take",
        "NCCL_TOPO_*": "which way data take",
        "NCCL_IGNORE_CPU_AFFINITY": "on which cores its threads run",
        "NCCL_SOCKET_*": "on which interfaces and how ranks are connected",
        "NCCL_NSOCKS_*": "on which interfaces and how ranks are connected",
        "NCCL_NET*": "on which network",
        "NCCL_OOB_*": "on which network",
        "NCCL_IB_*": "how InfiniBand and RoCE are used",
        "NCCL_GDR*": "whether the network reads a GPU's memory",
        "NCCL_DMABUF_ENABLE": "whether the network reads a GPU's memory",
        "NCCL_PXN_*": "whether data pass through another GPU",
        "NCCL_P2P_*": "how GPUs of a node exchange data",
        "NCCL_SHM_*": "how GPUs of a node exchange data",
        "NCCL_CUMEM_*": "how GPUs of a node exchange data",
        "NCCL_MNNVL_*": "how GPUs of a node exchange data",
        "NCCL_NVB_*": "how GPUs of a node exchange data",
        "NCCL_NVLS_*": "sums in switches",
        "NCCL_COLLNET_*": "sums in switches",
        "NCCL_SHARP_*": "sums in switches",
        "NCCL_CHECKS_DISABLE": "what every call checks",
        "NCCL_CHECK_POINTERS": "what every call checks",
        "NCCL_*REGISTER*": "which buffers are known to the network",
        "NCCL_RUNTIME_CONNECT": "when ranks are connected",
    },
    "neuron": {"NEURON*": "compiler, runtime and collectives"},
}
"""For each library, beside `fingerprints.SPEED`: variables that change measurements, and their effect (NCCL and
CUDA: NVIDIA's pages *Environment Variables*)."""


def environment(deployment: Deployment, towards: str) -> dict[str, str]:
    """Return the environment of the ranks on this host. towards: address of the first node; empty if alone."""
    usual = {INTERFACE: interface_towards(towards), **USUAL} if towards else HERE
    return rank_environment(usual, deployment)


def environment_parts(deployment: Deployment) -> dict[str, str]:
    """Return a fingerprint's part on the settings that reach the ranks."""
    usual = HERE if deployment.nodes == 1 else USUAL
    speed = (*fingerprints.SPEED, *SPEED.get(deployment.library, ()), *deployment.environment)
    environment = rank_environment(usual, deployment)
    return fingerprints.environment_parts(environment, speed, {**usual, **ONE_THREAD})
