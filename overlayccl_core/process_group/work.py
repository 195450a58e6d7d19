"""The Work that a recorded call returns: the library's own, and it notes how long the script waits for it."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

Waits = list[tuple[int, int]]
"""(begin, end) of each wait for a call, in nanoseconds of `time.perf_counter_ns`."""


class WatchedWork(dist.Work):
    """A library's Work. `wait` notes begin and end of each wait in `waits`; all else is the library's.

    DDP never calls `wait`: it takes the future, and waits in C++ at the end of the backward pass. So a future that
    is taken tells when it was set, and `futures` hears of it.

    Args:
        work: The library's Work.
        waits: Grows by the waits.
        done: Gets the time at which a future that somebody took was set.
        futures: Called when somebody takes the future.
        unseen: In what the library's `wait` runs.
    """

    def __init__(
        self,
        work: dist.Work,
        waits: Waits,
        done: list[int],
        futures: Callable[[], None],
        unseen: Callable[[], AbstractContextManager[None]],
    ) -> None:
        super().__init__()
        self._work, self._waits, self._done, self._futures = work, waits, done, futures
        self._unseen = unseen

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        begin = time.perf_counter_ns()
        try:
            with self._unseen():
                return bool(self._work.wait(timeout))
        finally:
            self._waits.append((begin, time.perf_counter_ns()))

    def get_future(self) -> torch.futures.Future[Any]:
        future = self._work.get_future()
        future.add_done_callback(lambda _: self._done.append(time.perf_counter_ns()))
        self._futures()
        return future


def _of_the_library(name: str) -> Callable[..., Any]:
    def method(self: WatchedWork, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._work, name)(*args, **kwargs)

    method.__name__ = name
    return method


for _name in (
    *("is_completed", "is_success", "exception", "result", "synchronize", "source_rank", "_source_rank"),
    *("get_future_result", "block_current_stream", "_get_duration", "_get_op_type"),
):
    if hasattr(dist.Work, _name):
        setattr(WatchedWork, _name, _of_the_library(_name))


class EndOfBackward:
    """What DDP waits at the end of a backward pass, where it copies no gradient before all buckets are summed.

    Its wait is a callback of the engine. The callback of ours that is there first notes its begin, and puts another
    behind it for its end.
    """

    def __init__(self) -> None:
        self._calls: list[tuple[Waits, list[int]]] = []

    def add(self, waits: Waits, done: list[int]) -> None:
        """A future was taken in a backward pass: note the part of the wait at its end that is for this call."""
        self._calls.append((waits, done))
        if len(self._calls) == 1:
            self._engine().queue_callback(self._begins)

    def _begins(self) -> None:
        begin, calls = time.perf_counter_ns(), self._calls
        self._calls = []

        def ends() -> None:
            waited, end = begin, time.perf_counter_ns()
            for waits, done in calls:  # DDP awaits its buckets in this order
                until = max(waited, min(done[0] if done else end, end))
                waits.append((waited, until))
                waited = until

        self._engine().queue_callback(ends)

    @staticmethod
    def _engine() -> Any:
        return torch.autograd.Variable._execution_engine
