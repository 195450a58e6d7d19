"""What a measurement depends on besides its code: one readable line, equal where measurements may be compared."""

import hashlib
import os
import platform
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

SPEED: Mapping[str, str] = {
    "LD_PRELOAD": "another allocator, or a library in place of another",
    "GLIBC_TUNABLES": "libc's allocator and its string functions",
    "MALLOC_*": "libc's allocator: arenas, when memory goes back",
    "PYTHONMALLOC": "Python's allocator",
    "OMP_*PROC_BIND": "on which cores a thread may run",
    "OMP_PLACES": "on which cores a thread may run",
    "OMP_WAIT_POLICY": "whether threads that wait take a core",
    "OMP_DYNAMIC": "how many threads there are",
    "GOMP_CPU_AFFINITY": "on which cores a thread may run",
    "GOMP_SPINCOUNT": "whether threads that wait take a core",
    "KMP_AFFINITY": "on which cores a thread may run",
    "KMP_HW_SUBSET": "on which cores a thread may run",
    "KMP_BLOCKTIME": "whether threads that wait take a core",
    "KMP_LIBRARY": "whether threads that wait take a core",
    "MKL_CBWR": "which instructions matmuls use",
    "MKL_ENABLE_INSTRUCTIONS": "which instructions matmuls use",
    "MKL_DYNAMIC": "how many threads there are",
    "MKL_THREADING_LAYER": "which threads there are",
    "ATEN_CPU_CAPABILITY": "which instructions torch's operations use",
    "DNNL_*ISA*": "which instructions matmuls use",
    "ONEDNN_*ISA*": "which instructions matmuls use",
    "DNNL_DEFAULT_FPMATH_MODE": "in which precision matmuls compute",
    "ONEDNN_DEFAULT_FPMATH_MODE": "in which precision matmuls compute",
    "TORCH_CPP_LOG_LEVEL": "what every call says",
    "TORCH_DISTRIBUTED_DEBUG": "whether every collective is checked first",
}
"""Variables that change how fast any process of torch is (`*`: whatever stands there), and by what. A rank has one
thread, whatever is set. Backends add those of their libraries; all others change no measurement."""
MODULES = Path("/sys/module")
DRIVERS = ("efa", "neuron", "nvidia")  # of accelerators and of the networks between them
GPUS = Path("/proc/driver/nvidia/gpus")


def host_parts() -> dict[str, str]:
    """CPU model, cores that may be used, kernel. No name: of a container it is another one each time."""
    return {
        "cpu": cpu_model(),
        "cores": str(len(os.sched_getaffinity(0))),
        "kernel": platform.release(),
    }


def node_parts() -> dict[str, str]:
    """What nodes of one kind have alike: `host_parts`, drivers and GPUs."""
    drivers = {f"{name}-driver": _driver(name) for name in DRIVERS if (MODULES / name).is_dir()}
    return host_parts() | drivers | _gpus()


def _gpus() -> dict[str, str]:
    """`gpus 8 NVIDIA H100 80GB HBM3`, as NVIDIA's driver tells; nothing where it tells of none."""
    told = [file.read_text() for file in sorted(GPUS.glob("*/information"))]
    models = Counter(
        model.strip() for text in told for model in re.findall(r"^Model:(.*)", text, re.MULTILINE)
    )
    return (
        {"gpus": " and ".join(f"{count} {model}" for model, count in sorted(models.items()))}
        if models
        else {}
    )


def _driver(name: str) -> str:
    """Its version; one that comes with the kernel has none of its own."""
    version = MODULES / name / "version"
    return version.read_text().strip() if version.exists() else "of the kernel"


def cpu_model() -> str:
    """The CPU's name as Linux gives it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def environment_parts(
    environment: Mapping[str, str], speed: Iterable[str], usual: Mapping[str, str]
) -> dict[str, str]:
    """The variables of the ranks that change how fast they are: `environment LD_PRELOAD=libjemalloc.so`.

    speed: their names, as in SPEED. usual: what ranks get where nobody sets anything. No part where nothing
    else is set.
    """
    names = [name for name in environment if any(fnmatchcase(name, one) for one in speed)]
    set_here = sorted(f"{name}={environment[name]}" for name in names if usual.get(name) != environment[name])
    return {"environment": " ".join(set_here)} if set_here else {}


def line(parts: Mapping[str, str]) -> str:
    """`host node7, cpu AMD EPYC, ... #1f2e3d4c`."""
    text = ", ".join(f"{name} {value}" for name, value in parts.items())
    return f"{text} #{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}"


def one_machine(line: str, other: str) -> bool:
    """Whether two lines are of one machine. Release 0.2 told its host first, too."""
    return _HOST.sub("", line).rpartition(" #")[0] == _HOST.sub("", other).rpartition(" #")[0]


_HOST = re.compile(r"^host [^ ,]*, ")


def part(line: str, name: str) -> str | None:
    """One part of a line, None if it has none: part("host a, torch 2.9 #0", "torch") is "2.9"."""
    for text in line.rpartition(" #")[0].split(", "):
        key, _, value = text.partition(" ")
        if key == name:
            return value
    return None
