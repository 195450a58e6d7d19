"""Run a function in a process of its own: no cache of another measurement, and a peak memory of its own."""

import multiprocessing
import resource
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

MIB = 2**20


def alone(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """Return (result, MiB that the process held at its peak). What it raises comes through."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        return pool.submit(_measured, function, arguments).result()


def _measured(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, float]:
    result = function(*arguments)
    return result, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MIB
