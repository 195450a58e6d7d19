"""The passage that makes sums of some groups in fewer bytes, with error feedback; every other call stays.

A sum is made in two exchanges, as in 1-bit Adam (Tang et al., ICML 2021): each rank sends each other its part of
the numbers, compressed, and adds up its own part in float32; then it sends this one, compressed, to all. A
reduce_scatter is the first exchange alone. All ranks decode the same bytes, so their results are equal.

What a call loses is kept for the call in the same place of the next training step: of the same group, kind and
size, with as many such calls before it in its step. It takes as much memory as all numbers that a step sums.

All ranks of a group must have the same setting (agreement.py), or all its calls stay as they are. Whether a call is
compressed depends on its kind, dtype, size and group alone, so no two ranks ever differ in it.
"""

import atexit
import os
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812

from .agreement import agree, tell
from .calls import BESIDE, METHODS, argument, tensors
from .compressors import COMPRESSORS, Compressor, Feedback
from .group import Group, plain
from .parts import FEWEST_ELEMENTS, LossySetting
from .queue import NESTED, Done, Queue, QueuedWork, keep_out_of_coalescing, settle
from .steps import at_each_step
from .ways import ends, options, stride

KINDS = ("all_reduce", "reduce_scatter")
REDUCTIONS = ("SUM", "AVG")
TAG = 0x6C6F  # of our messages, apart from the script's own
FORGOTTEN = 100
"""Training steps after which what nobody asked for is forgotten: the place is in no step any more."""


class Lossy:
    """Sums in fewer bytes.

    Args:
        said: The setting, as the ranks' variable has it.

    Attributes:
        made: What was made -> how many calls.
        numerics: The same -> class of its numerics.

    Raises:
        ValueError: It is no setting.
    """

    def __init__(self, said: str) -> None:
        self._said, self._setting = f"lossy:{said}", LossySetting.of(said)
        self._compressor = COMPRESSORS[self._setting.compressor]
        self._steps = 0
        self.made: dict[str, int] = {}
        self.numerics: dict[str, str] = {}
        at_each_step(self._end_step)
        keep_out_of_coalescing()
        atexit.register(self._end)

    def means(self, ranks: int, stride: int) -> bool:
        """Return whether the setting is for a group of so many ranks, so far apart."""
        return self._setting.is_for(ranks, stride)

    def _end_step(self) -> None:
        self._steps += 1

    def _end(self) -> None:
        """Say so if nothing was compressed, or nothing fed back."""
        if os.environ.get("RANK", "0") != "0":
            return
        if not self.made:
            print(f"overlayccl: no sum was compressed: {self._setting.needs}", file=sys.stderr)
        elif not self._steps:
            print("overlayccl: no optimizer made a step, so no error was fed back", file=sys.stderr)

    def group_begins(self, group: Group) -> None:
        """Tell the ranks of a group that is about to be connected what this one does."""
        tell(group, self._said)

    def group_ends(self, group: Group) -> None:
        """Make what is under way in a group that is about to be destroyed."""
        if isinstance(group.kept, Places):
            group.kept.queue.close()
            group.kept = None

    def __call__(self, group: Group, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call."""
        if NESTED.inside:
            return plain(group, method, args, kwargs)
        if group.kept is None:
            group.kept = Places(group, self._setting)
        places: Places = group.kept
        found = sum_of(method, args, kwargs, places.size) if places.is_meant else None
        if found is not None and places.is_agreed is None:
            places.is_agreed = agree(group, self._said, "OVERLAYCCL_LOSSY").is_one
        if found is None or not places.is_agreed:
            return _passed(places.queue, group, method, args, kwargs)
        given, taken = found
        kind, is_async = METHODS[method].kind, getattr(options(method, args, kwargs), "asyncOp", True)
        feedback = places.next((kind, given.numel()), self._steps)
        name = f"{self._setting.compressor} {kind}"
        self.made[name] = self.made.get(name, 0) + 1
        self.numerics[name] = "lossy"

        def call() -> None:
            numbers = given.detach().resolve_neg().contiguous().view(-1)
            total = summed(group, self._compressor, feedback, numbers, scattered=kind == "reduce_scatter")
            if _reduction(method, args, kwargs) == "AVG":
                total /= places.size
            taken.data.copy_(total.view(taken.shape))  # as the library writes: autograd does not see it

        done: Done = Done()
        on_host = given.device.type == "cpu"  # a device has streams: no thread of ours
        places.queue.run(lambda: settle(done, call), is_awaited=not (on_host and is_async))
        return QueuedWork(done, [taken])


class Places:
    """Places of calls in the training steps of a group.

    Attributes:
        is_meant: Whether the setting is for such a group.
        is_agreed: Whether its ranks have the same setting; None before anybody asked.
    """

    def __init__(self, group: Group, setting: LossySetting) -> None:
        ranks: Sequence[int] = dist.get_process_group_ranks(group)
        self.size = len(ranks)
        self.is_meant = setting.is_for(self.size, stride(ranks))
        self.is_agreed: bool | None = None
        self.queue = Queue()
        self._step = 0
        self._counts: Counter[tuple[str, int]] = Counter()
        self._feedback: dict[tuple[tuple[str, int], int], Feedback] = {}

    def next(self, key: tuple[str, int], step: int) -> Feedback:
        """Return what was lost in the place of the next call. None is kept where no step ever ends.

        Args:
            key: Kind and elements of the call.
            step: Training steps so far.
        """
        if step != self._step:
            self._step = step
            self._counts.clear()
            self._feedback = {at: one for at, one in self._feedback.items() if step - one.step < FORGOTTEN}
        place = key, self._counts[key]
        self._counts[key] += 1
        feedback = self._feedback.setdefault(place, Feedback()) if step else Feedback()
        feedback.step = step
        return feedback


def summed(
    group: Group, compressor: Compressor, feedback: Feedback, numbers: torch.Tensor, *, scattered: bool
) -> torch.Tensor:
    """Return the sum of the ranks' numbers, of each rank for itself [elements] float32.

    Args:
        scattered: Return this rank's part alone.
    """
    size, elements = group.size(), numbers.numel()
    part = -(-elements // size)
    sent = feedback.encode(compressor, "mine", F.pad(numbers, (0, size * part - elements)).view(size, part))
    mine = compressor.decode(_exchanged(group, sent), part).sum(0, keepdim=True)
    if scattered:
        return mine[0]
    sent = feedback.encode(compressor, "sum", mine)
    return compressor.decode(_exchanged(group, sent.expand(size, -1)), part).flatten()[:elements]


def _exchanged(group: Group, rows: torch.Tensor) -> torch.Tensor:
    """Return what each rank of the group has in its row for this one [ranks, bytes].

    On a CPU each receive goes out before any send: gloo says that it is ready behind what this rank sends.
    """
    received = torch.empty_like(rows, memory_format=torch.contiguous_format)
    if rows.device.type != "cpu":
        dist.all_to_all_single(received, rows.contiguous(), group=group)
        return received
    received[group.rank()] = rows[group.rank()]
    others = [rank for rank in range(group.size()) if rank != group.rank()]
    works = [dist.irecv(received[rank], group=group, group_src=rank, tag=TAG) for rank in others]
    works += [dist.isend(rows[rank], group=group, group_dst=rank, tag=TAG) for rank in others]
    for work in works:
        work.wait()
    return received


def sum_of(
    method: str, args: tuple[Any, ...], kwargs: dict[str, Any], size: int
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return what a call reads and writes if it is a large sum of float32 that the library takes, too."""
    found, kind = ends(method, args), METHODS[method].kind
    if found is None or kind not in KINDS or _reduction(method, args, kwargs) not in REDUCTIONS:
        return None
    given, taken = found
    is_one = (
        given.numel() >= FEWEST_ELEMENTS
        and given.numel() == taken.numel() * (size if kind == "reduce_scatter" else 1)
        and given.dtype == taken.dtype == torch.float32
        and given.device == taken.device
        and given.layout is taken.layout is torch.strided
    )
    return found if is_one else None


def _reduction(method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    reduction = getattr(options(method, args, kwargs), "reduceOp", None)
    return "" if reduction is None else str(getattr(reduction, "op", reduction).name)


def _passed(queue: Queue, group: Group, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make a call as the script wrote it, behind those under way."""
    if method in BESIDE or queue.is_idle():
        return plain(group, method, args, kwargs)
    if method == "monitored_barrier":  # it returns when all ranks are there
        queue.drain()
    outputs = list(tensors(argument(args, METHODS[method].outputs)))
    return queue.passed(lambda: plain(group, method, args, kwargs), outputs)
