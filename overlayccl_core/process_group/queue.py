"""Calls that are made of several: one behind the other in a group, in a thread if the script goes on meanwhile."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

Done = Future[Any]
"""Set when a call is over: to None, or to the library's Work if the call is under way there."""


class _Nested(threading.local):
    """Whether this thread is making one of our calls: what that calls passes on."""

    inside = False

    @contextmanager
    def here(self) -> Iterator[None]:
        outer, self.inside = self.inside, True
        try:
            yield
        finally:
            self.inside = outer


NESTED = _Nested()


class _Coalesced(dict[Any, Any]):
    """What a script coalesces, by group: no call of ours in another thread, which is none of the script's."""

    def __contains__(self, group: object) -> bool:
        return not NESTED.inside and super().__contains__(group)


def keep_out_of_coalescing() -> None:
    """Keep our calls out of what the script coalesces meanwhile (`_coalescing_manager`)."""
    c10d._world._pg_coalesce_state = _Coalesced(c10d._world._pg_coalesce_state)


class Queue:
    """The calls of one group, in the order of issue.

    A call that the script waits for at once is made by its own thread if nothing is under way, for a change of
    threads takes as long as a small collective.
    """

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._last: Future[None] | None = None

    def run(self, calls: Callable[[], None], *, is_awaited: bool) -> None:
        """Make calls; `calls` returns when their outputs are there.

        Args:
            is_awaited: The script waits before it does anything else.
        """
        if is_awaited and self.is_idle():
            _unseen(calls)
        else:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "overlayccl")
            self._last = self._thread.submit(_unseen, calls)

    def passed(self, call: Callable[[], Any], outputs: list[torch.Tensor]) -> Any:
        """Issue a call of the library behind those under way. Returns its own Work if there are none."""
        if self.is_idle():
            return call()
        done: Done = Future()
        self.run(lambda: settle(done, call), is_awaited=False)
        return QueuedWork(done, outputs)

    def drain(self) -> None:
        """Return when nothing is under way."""
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        """Drain, and end the thread."""
        self.drain()
        if self._thread is not None:
            self._thread.shutdown()

    def is_idle(self) -> bool:
        return self._last is None or self._last.done()


def settle(done: Done, call: Callable[[], Any]) -> None:
    """Make a call, and set `done`: an error of the call is raised by who waits for it, as the library's."""
    try:
        done.set_result(call())
    except Exception as error:
        done.set_exception(error)


def finished(work: Any) -> Done:
    """Return what is done: the library has the call, and its Work says the rest."""
    done: Done = Future()
    done.set_result(work)
    return done


def _unseen(calls: Callable[[], None]) -> None:
    with NESTED.here(), torch.no_grad():  # grad mode is on in a new thread
        calls()


class QueuedWork(dist.Work):
    """The Work of a call in a queue. An error of the call is raised by `wait`, and by whoever takes the future.

    Args:
        done: Of the call.
        outputs: Its outputs.
        send: Called before anybody looks whether it is done.
    """

    def __init__(
        self, done: Done, outputs: list[torch.Tensor], send: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__()
        self._done, self._outputs, self._send = done, outputs, send

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Return when the outputs are there."""
        self._send()
        try:
            work = self._done.result(timeout.total_seconds() or None)
        except TimeoutError:
            if self._done.done():  # an error of the call
                raise
            raise RuntimeError(f"Operation timed out after {timeout.total_seconds():g} s!") from None
        return bool(work.wait(timeout)) if work is not None else True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        self._send()
        if not self._done.done() or self._failed():
            return self._done.done()
        work = self._done.result()
        return work is None or bool(work.is_completed())

    def is_success(self) -> bool:
        return self.is_completed() and not self._failed()

    def exception(self) -> Any:
        return self._done.exception() if self.is_completed() else None

    def _source_rank(self) -> int:  # a receive of gloo cannot be awaited twice
        return int(self._done.result()._source_rank())

    def result(self) -> list[torch.Tensor]:
        return self._outputs

    def get_future(self) -> torch.futures.Future[Any]:
        """Return the future of the outputs. It is set, then raises: one set to an error ends DDP's process."""
        self._send()
        future: torch.futures.Future[Any] = torch.futures.Future()

        def over(_: Any) -> None:
            future.set_result(self._outputs)

        def issued(done: Done) -> None:
            work = None if self._failed() else done.result()
            over(None) if work is None else work.get_future().add_done_callback(over)

        def checked(of: torch.futures.Future[Any]) -> Any:
            work = self._done.result()
            if work is not None:
                work.get_future().value()
            return of.value()

        self._done.add_done_callback(issued)
        return future.then(checked)

    def _failed(self) -> bool:
        return self._done.exception() is not None
