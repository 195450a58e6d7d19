"""The environment of the ranks, and its part in a measurement."""

from collections.abc import Mapping

from overlayccl_core.backends.torch_ranks.fork_client import ONE_THREAD, rank_environment
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.launching import fingerprint as fingerprints
from overlayccl_core.launching.interface import INTERFACE, interface_towards

USUAL = {"TORCH_CPP_LOG_LEVEL": "ERROR"}  # unless set by the caller
HERE = {INTERFACE: "lo", **USUAL}
SPEED: Mapping[str, Mapping[str, str]] = {
    "gloo": fingerprints.by_variable(
        {
            "on which interfaces and how ranks are connected": "GLOO_*",
            "when ranks are connected": "TORCH_GLOO_*",
        }
    ),
    "nccl": fingerprints.by_variable(
        {
            "which GPUs there are": "CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER",
            "what may run at once on a GPU": "CUDA_DEVICE_MAX_CONNECTIONS CUDA_LAUNCH_BLOCKING",
            "how far a CPU may be ahead of its GPU": "CUDA_SCALE_LAUNCH_QUEUES NCCL_WORK_FIFO_*",
            "when kernels are loaded": "CUDA_MODULE_LOADING",
            "with whom a GPU is shared": "CUDA_MPS_*",
            "clocks of a GPU": "CUDA_*BOOST",
            "workspaces and algorithms of matmuls": "CUBLAS*",
            "algorithms": "CUDNN_*",
            "in which precision matmuls compute": "NVIDIA_TF32_OVERRIDE TORCH_ALLOW_TF32_*",
            "which library computes matmuls": "TORCH_BLAS_*",
            "streams, events and watchdogs of collectives": "TORCH_NCCL_*",
            "the allocator of a GPU's memory": "PYTORCH_*ALLOC* PYTORCH_NO_CUDA_MEMORY_CACHING",
            "algorithm and protocol of a collective": "NCCL_ALGO NCCL_PROTO NCCL_TUNER_* NCCL_*THRESHOLD*",
            "any of these, in a file": "NCCL_CONF_FILE",
            "the pieces of a collective": "NCCL_*BUFFSIZE NCCL_*CHUNKSIZE",
            "what of a GPU a collective takes": "NCCL_*CHANNELS* NCCL_*CTAS NCCL_*NTHREADS NCCL_NRINGS "
            "NCCL_CGA_CLUSTER_SIZE",
            "how a collective is started": "NCCL_LAUNCH_*",
            "which way data take": "NCCL_CROSS_NIC NCCL_GRAPH_* NCCL_TOPO_*",
            "on which cores its threads run": "NCCL_IGNORE_CPU_AFFINITY",
            "on which interfaces and how ranks are connected": "NCCL_SOCKET_* NCCL_NSOCKS_*",
            "on which network": "NCCL_NET* NCCL_OOB_*",
            "how InfiniBand and RoCE are used": "NCCL_IB_*",
            "whether the network reads a GPU's memory": "NCCL_GDR* NCCL_DMABUF_ENABLE",
            "whether data pass through another GPU": "NCCL_PXN_*",
            "how GPUs of a node exchange data": "NCCL_P2P_* NCCL_SHM_* NCCL_CUMEM_* NCCL_MNNVL_* NCCL_NVB_*",
            "sums in switches": "NCCL_NVLS_* NCCL_COLLNET_* NCCL_SHARP_*",
            "what every call checks": "NCCL_CHECKS_DISABLE NCCL_CHECK_POINTERS",
            "which buffers are known to the network": "NCCL_*REGISTER*",
            "when ranks are connected": "NCCL_RUNTIME_CONNECT",
        }
    ),
    "neuron": fingerprints.by_variable({"compiler, runtime and collectives": "NEURON* TORCH_NEURONX_*"}),
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
