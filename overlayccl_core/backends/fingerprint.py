"""What a measurement depends on besides its code: one readable line, equal on equal machines."""

import hashlib
import os
import platform
from collections.abc import Mapping
from pathlib import Path


def host_parts() -> dict[str, str]:
    """Host, CPU model, cores that may be used, kernel."""
    return {
        "host": platform.node(),
        "cpu": cpu_model(),
        "cores": str(len(os.sched_getaffinity(0))),
        "kernel": platform.release(),
    }


def cpu_model() -> str:
    """The CPU's name as Linux gives it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


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
