"""Calls that a script does not wait for, one after another, sent together.

A call of a bundle gets its Work at once, and waits here for the rest of the bundle. What waits goes out when no
longer bundle is possible, before any other call of any group, when somebody asks one of the Works, and when the
group is destroyed or the process ends. So a script must leave the tensors of such a call alone until it has waited
for it, as torch demands of every asynchronous call.

**Ranks may differ in when they wait**, and so in how many calls they have when theirs go out. So they agree first:
one all_reduce (minimum) of that number. The longest bundle that all have goes out together, the other calls one by
one. When this all_reduce comes follows from the group's sequence of calls alone, which is the same on all ranks:
it is once between the first call of a bundle and what follows it. It costs one small collective a bundle, and as
much for a call that begins a bundle and is not followed by it.

DDP's calls and those of functional collectives never wait: they come from C++, which may wait where we do not see
it. Something else that a rank waits for by itself (a file, a key in a store) can need what waits here on another
rank: then the other's next call, wait or end sends it.
"""

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from .group import Group
from .parts import Key
from .queue import NESTED, Done, Queue, settle
from .ways import Bundle

MADE = Group.allreduce.__code__
"""What runs while a method of a group is called: the same code for each."""


class ProvenCall:
    """A call that has a key.

    Args:
        key: Its key.
        given: What it reads.
        taken: What it writes.
        alone: Makes it by itself. Returns the library's Work, or None when it is over.
    """

    def __init__(
        self, key: Key, given: torch.Tensor, taken: torch.Tensor, alone: Callable[["ProvenCall"], Any]
    ) -> None:
        self.key, self.given, self.taken, self._alone = key, given, taken, alone
        self.done: Done = Done()

    def settle(self) -> None:
        """Make it by itself."""
        settle(self.done, lambda: self._alone(self))


class Walk:
    """Where the calls of a group stand in the bundles.

    Attributes:
        group: Returns the group.
        queue: Its queue.
        at: Its last calls, as far as they begin a bundle.
        is_sent: Whether they are on their way: those that come to complete the bundle are made alone.
        waiting: Those that wait for more.
    """

    def __init__(self, group: Callable[[], Group | None], queue: Queue) -> None:
        self.group, self.queue = group, queue
        self.at: Bundle = ()
        self.is_sent = False
        self.waiting: list[ProvenCall] = []


class Bundles:
    """The calls of all groups that wait for more.

    Args:
        bundles: Calls one after another that can be made together.
        fewest: Returns the least of the numbers that a group's ranks give.
        together: Makes calls of a group that are such a bundle.
    """

    def __init__(
        self,
        bundles: set[Bundle],
        fewest: Callable[[Group | None, int], int],
        together: Callable[[Group | None, list[ProvenCall]], None],
    ) -> None:
        self._bundles, self._fewest, self._together = bundles, fewest, together
        self._starts = {keys[:count] for keys in bundles for count in range(1, len(keys) + 1)}
        self._unfinished = {keys[:-1] for keys in self._starts}
        self._lock = threading.RLock()  # held while calls are put in order, never while one is made
        self._walks: list[Walk] = []  # those with calls that wait

    def takes(self, walk: Walk, call: ProvenCall, *, may_wait: bool) -> bool:
        """Take a call, to be made with those that it follows or that follow it; False if it is to be made alone.

        Args:
            may_wait: It may wait for more; else it goes out with those that wait.
        """
        with self._lock:
            for other in self._walks[:]:
                if other is not walk:
                    self._send(other)
            if (*walk.at, call.key) not in self._starts:
                self._send(walk)
                walk.at, walk.is_sent = (), False
                if (call.key,) not in self._starts:
                    return False
            walk.at = (*walk.at, call.key)
            if walk.is_sent:
                return False
            if not walk.waiting:
                self._walks.append(walk)
            walk.waiting.append(call)
            if not may_wait or walk.at not in self._unfinished:
                self._send(walk)
            return True

    def continues(self, walk: Walk, key: Key) -> bool:
        """Whether a call goes on with a bundle whose first calls were the group's last."""
        return bool(walk.at) and (*walk.at, key) in self._starts

    def end(self, walk: Walk) -> None:
        """A collective comes that is in no bundle."""
        self.send_all()
        walk.at, walk.is_sent = (), False

    def send_all(self) -> None:
        """Send what waits, in all groups."""
        with self._lock:
            for walk in self._walks[:]:
                self._send(walk)

    def make_all(self) -> None:
        """Make what waits: the process ends, and has no more threads."""
        for walk in self._walks:
            with NESTED.here():
                self._make(walk.group(), walk.waiting)
        self._walks = []

    def _send(self, walk: Walk) -> None:
        if walk.waiting:
            calls, walk.waiting, walk.is_sent = walk.waiting, [], True
            self._walks.remove(walk)
            walk.queue.run(lambda: self._make(walk.group(), calls), is_awaited=False)

    def _make(self, group: Group | None, calls: list[ProvenCall]) -> None:
        try:
            keys = tuple(call.key for call in calls[: self._fewest(group, len(calls))])
            there = next((n for n in range(len(keys), 0, -1) if keys[:n] in self._bundles), 0)
            if there:
                self._together(group, calls[:there])
        except Exception as error:  # each of them raises it where it is awaited
            for call in calls:
                call.done.set_exception(error)
            return
        for call in calls[:there]:
            call.done.set_result(None)
        for call in calls[there:]:
            call.settle()


def fewest(group: Group | None, mine: int) -> int:
    """Return the least of the ranks' numbers."""
    count = torch.tensor(mine)
    dist.all_reduce(count, dist.ReduceOp.MIN, group=group)
    return int(count)


def is_eager() -> bool:
    """Whether the call that is being made comes from a function of torch.distributed, not from C++."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not MADE:
        frame = frame.f_back
    return frame is not None and frame.f_back is not None and frame.f_back.f_code.co_filename == c10d.__file__
