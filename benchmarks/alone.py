"""Run a function in a process of its own: no cache of another measurement, and a peak memory of its own."""

import multiprocessing
import os
import resource
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

_CONTEXT = multiprocessing.get_context("fork")
MIB = 2**20


def alone(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """(result, MiB that the process held at its peak). RuntimeError with the traceback if it failed."""
    receive, send = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_child, args=(send, function, arguments))
    process.start()
    send.close()
    try:
        result, failure, peak_mib = receive.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"{function.__name__}{arguments}: the process died ({process.exitcode})") from None
    process.join()
    if failure:
        raise RuntimeError(failure)
    return result, peak_mib


def _child(send: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    result, failure = None, ""
    try:
        result = function(*arguments)
    except BaseException:
        failure = traceback.format_exc()
    send.send((result, failure, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MIB))
    send.close()
    os._exit(0)
