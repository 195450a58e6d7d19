"""What a measurement depends on besides its code: one readable line, equal where measurements may be compared."""

import hashlib
import os
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path

SPEED = ("GLIBC_TUNABLES", "GOMP_", "KMP_", "LD_PRELOAD", "MALLOC_", "MKL_", "OMP_", "PYTHONMALLOC")
"""What the names of variables begin with that change how fast any Python process is: its allocator, its threads."""
MODULES = Path("/sys/module")
DRIVERS = ("efa", "neuron", "nvidia")  # of accelerators and of the networks between them


def host_parts() -> dict[str, str]:
    """Host, CPU model, cores that may be used, kernel."""
    return {
        "host": platform.node(),
        "cpu": cpu_model(),
        "cores": str(len(os.sched_getaffinity(0))),
        "kernel": platform.release(),
    }


def node_parts() -> dict[str, str]:
    """What nodes of one kind have alike: CPU model, cores that may be used, kernel, drivers."""
    parts = host_parts()
    del parts["host"]
    return parts | {f"{name}-driver": _driver(name) for name in DRIVERS if (MODULES / name).is_dir()}


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
    environment: Mapping[str, str], prefixes: Iterable[str], usual: Mapping[str, str]
) -> dict[str, str]:
    """The variables of the ranks that change how fast they are: `environment LD_PRELOAD=libjemalloc.so`.

    prefixes: of their names. usual: what ranks get where nobody sets anything. No part where nothing else is set.
    """
    told = {name: value for name, value in environment.items() if name.startswith(tuple(prefixes))}
    set_here = sorted(f"{name}={value}" for name, value in told.items() if usual.get(name) != value)
    return {"environment": " ".join(set_here)} if set_here else {}


def line(parts: Mapping[str, str]) -> str:
    """`host node7, cpu AMD EPYC, ... #1f2e3d4c`."""
    text = ", ".join(f"{name} {value}" for name, value in parts.items())
    return f"{text} #{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}"


def part(line: str, name: str) -> str | None:
    """One part of a line, None if it has none: part("host a, torch 2.9 #0", "torch") is "2.9"."""
    for text in line.rpartition(" #")[0].split(", "):
        key, _, value = text.partition(" ")
        if key == name:
            return value
    return None
