"""A measurement's conditions besides its code, in one readable line; measurements of equal lines are comparable."""

import hashlib
import os
import platform
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path


def by_variable(told: Mapping[str, str]) -> dict[str, str]:
    """Return variable -> its effect, from effect -> variables with spaces between them."""
    return {name: effect for effect, names in told.items() for name in names.split()}


SPEED = by_variable(
    {
        "another allocator, or a library in place of another": "LD_PRELOAD",
        "libc's allocator and its string functions": "GLIBC_TUNABLES",
        "libc's allocator: arenas, when memory goes back": "MALLOC_*",
        "Python's allocator": "PYTHONMALLOC",
        "on which cores a thread may run": "OMP_*PROC_BIND OMP_PLACES GOMP_CPU_AFFINITY KMP_AFFINITY KMP_HW_SUBSET",
        "whether threads that wait take a core": "OMP_WAIT_POLICY GOMP_SPINCOUNT KMP_BLOCKTIME KMP_LIBRARY",
        "how many threads there are": "OMP_DYNAMIC MKL_DYNAMIC",
        "which instructions matmuls use": "MKL_CBWR MKL_ENABLE_INSTRUCTIONS DNNL_*ISA* ONEDNN_*ISA*",
        "which threads there are": "MKL_THREADING_LAYER",
        "which instructions torch's operations use": "ATEN_CPU_CAPABILITY",
        "in which precision matmuls compute": "DNNL_DEFAULT_FPMATH_MODE ONEDNN_DEFAULT_FPMATH_MODE",
        "what every call says": "TORCH_CPP_LOG_LEVEL",
        "whether every collective is checked first": "TORCH_DISTRIBUTED_DEBUG",
    }
)
"""Variables with an effect on the speed of any torch process (`*`: any text), and the effect. A rank has one
thread, even if they say otherwise. Backends add those of their libraries; all others change no measurement.
"""
MODULES = Path("/sys/module")
DRIVERS = ("efa", "neuron", "nvidia")  # of accelerators and of the networks between them
GPUS = Path("/proc/driver/nvidia/gpus")


def host_parts() -> dict[str, str]:
    """Return CPU model, usable cores and kernel; no host name, as a container's changes each time."""
    return {"cpu": cpu_model(), "cores": str(len(os.sched_getaffinity(0))), "kernel": platform.release()}


def node_parts() -> dict[str, str]:
    """Return the common parts of nodes of one kind: `host_parts`, drivers and GPUs."""
    drivers = {}
    for folder in (MODULES / name for name in DRIVERS if (MODULES / name).is_dir()):
        version = folder / "version"  # a driver of the kernel has none of its own
        drivers[f"{folder.name}-driver"] = (
            version.read_text().strip() if version.exists() else "of the kernel"
        )
    return host_parts() | drivers | _gpus()


def _gpus() -> dict[str, str]:
    """Return `gpus 8 NVIDIA H100 80GB HBM3`, by NVIDIA's driver; nothing without GPUs."""
    told = [file.read_text() for file in sorted(GPUS.glob("*/information"))]
    models = Counter(
        model.strip() for text in told for model in re.findall(r"^Model:(.*)", text, re.MULTILINE)
    )
    return (
        {"gpus": " and ".join(f"{count} {model}" for model, count in sorted(models.items()))}
        if models
        else {}
    )


def cpu_model() -> str:
    """Return the CPU's name as Linux gives it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def environment_parts(
    environment: Mapping[str, str], speed: Iterable[str], usual: Mapping[str, str]
) -> dict[str, str]:
    """Return the ranks' variables with an effect on speed: `environment LD_PRELOAD=libjemalloc.so`.

    Args:
        speed: Their names, as in SPEED.
        usual: Default variables of ranks; equal ones are left out.
    """
    names = [name for name in environment if any(fnmatchcase(name, one) for one in speed)]
    set_here = sorted(f"{name}={environment[name]}" for name in names if usual.get(name) != environment[name])
    return {"environment": " ".join(set_here)} if set_here else {}


def line(parts: Mapping[str, str]) -> str:
    """Return `host node7, cpu AMD EPYC, ... #1f2e3d4c`."""
    text = ", ".join(f"{name} {value}" for name, value in parts.items())
    return f"{text} #{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}"


def one_machine(line: str, other: str) -> bool:
    """Return whether two lines are of one machine; a host's name at the start (release 0.2) does not count."""
    return _HOST.sub("", line).rpartition(" #")[0] == _HOST.sub("", other).rpartition(" #")[0]


_HOST = re.compile(r"^host [^ ,]*, ")


def part(line: str, name: str) -> str | None:
    """Return one part of a line, None if it has none: part("host a, torch 2.9 #0", "torch") is "2.9"."""
    for text in line.rpartition(" #")[0].split(", "):
        key, _, value = text.partition(" ")
        if key == name:
            return value
    return None
