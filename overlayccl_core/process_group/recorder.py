"""The passage that records a training step: each call as the script wrote it, and a record of it.

The records of a rank are one JSON file; `overlayccl capture` makes a table of all.
"""

import json
import os
import sys
import time
from collections import Counter
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from . import fake
from .calls import METHODS, argument, tensors
from .flow import Flow
from .group import Group, Passage, plain
from .origin import ddp_buckets, origin
from .parts import SKIPPED, TIMED
from .steps import at_each_step
from .ways import ends
from .work import EndOfBackward, WatchedWork

ALIKE = ("kind", "dtype", "inputs", "outputs", "group", "line")
FOLLOWED = "overlayccl: ranks that have followed a step"
HERE = "overlayccl: ranks that have recorded their steps"
MOST_SECONDS = 60.0
"""How long a rank waits for the others."""


class StepRecorder:
    """Records the calls of `steps` training steps, then of one more with its data flow, and passes all others on.

    If that one makes other calls than most of the others, on any rank, the next one is followed in its place.

    Args:
        folder: Gets `rank-<r>.json` once all steps are over.
        skip: How many steps go by first: DDP, for instance, makes its buckets anew after the first.
        steps: How many steps are recorded for their times.
        whole: The script goes on to its own end; else it ends when all ranks have recorded these steps.
        below: Makes the calls.
    """

    def __init__(
        self, folder: Path, *, whole: bool, below: Passage = plain, skip: int = SKIPPED, steps: int = TIMED
    ) -> None:
        self.folder, self.whole, self.below = folder, whole, below
        self.first, self.flow_at = skip, skip + steps
        self.step = 0
        self.calls: list[dict[str, Any]] = []
        self.ends: list[int] = []
        self.groups: dict[str, list[int]] = {}
        self.job: dict[str, Any] = {}
        self.flow: Flow | None = None
        self.follows_another = False
        self.backward = EndOfBackward()
        at_each_step(self._end_step)

    def __call__(self, group: Group, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call; record it if the step is one of those."""
        if not self.first <= self.step <= self.flow_at:
            return self.below(group, method, args, kwargs)
        self.job = self.job or job()
        record = self._described(group, method, args, kwargs)
        self.calls.append(record)
        record["issued"] = time.perf_counter_ns()
        work = self.below(group, method, args, kwargs)
        record["returned"] = time.perf_counter_ns()
        if work is None:
            return None
        waits, done = record["waits"], record["done"]
        in_backward = record["part"] == "backward"
        unseen = self.flow.unseen if self.flow is not None else nullcontext
        return WatchedWork(
            work, waits, done, lambda: self.backward.add(waits, done) if in_backward else None, unseen
        )

    def _described(
        self, group: Group, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        method = METHODS[name]
        inputs, outputs = argument(args, method.inputs), argument(args, method.outputs)
        options = kwargs.get("opts", argument(args, method.options))
        line, part = origin()
        first = next(tensors(inputs), next(tensors(outputs), None))
        record = {
            "step": self.step,
            "kind": method.kind,
            "group": self._name(group),
            "dtype": "" if first is None else str(first.dtype).removeprefix("torch."),
            "device": "" if first is None else first.device.type,
            "inputs": [list(one.shape) for one in tensors(inputs)],
            "outputs": [list(one.shape) for one in tensors(outputs)],
            "line": line,
            "part": part,
            "uniform": ends(name, args) is not None,
            "waits": [],
            "done": [],
        }
        reduction, root = getattr(options, "reduceOp", None), getattr(options, "rootRank", None)
        if reduction is not None:
            record["reduction"] = getattr(reduction, "op", reduction).name.lower()
        if root is not None:
            record["root"] = root
        if name in ("send", "recv"):
            record["peer"] = args[1]
        if method.kind == "all_to_all" and method.options == 4:
            record["output_splits"], record["input_splits"] = list(args[2]), list(args[3])
        if self.flow is not None:
            record["depends_on"] = self.flow.call(len(self.calls), inputs, outputs)
        return record

    def _name(self, group: Group) -> str:
        """Return the group's name; another if a group that was destroyed had it and other ranks."""
        if group.kept is None:
            name, ranks = group.group_name, dist.get_process_group_ranks(group)
            while self.groups.setdefault(name, ranks) != ranks:
                name += "'"
            group.kept = name
        return str(group.kept)

    def _end_step(self) -> None:
        self.ends.append(time.perf_counter_ns())
        self.step += 1
        if self.flow is not None:
            self.flow.__exit__(None, None, None)
            self.flow = None
            self.write()
            if not self.follows_another and meet(FOLLOWED, says=self._is_odd()):
                self.follows_another = True  # at most one
                self.calls = [call for call in self.calls if call["step"] < self.flow_at]
                self.flow_at += 1
            elif not self.whole:
                leave_together()
        if self.step == self.flow_at:
            self.flow = Flow()
            self.flow.__enter__()

    def _is_odd(self) -> bool:
        """Whether the followed step makes other calls than most that were timed: a last, shorter batch."""
        of_steps: dict[int, list[str]] = {}
        for call in self.calls:
            of_steps.setdefault(call["step"], []).append(repr([call[name] for name in ALIKE]))
        followed = of_steps.pop(self.flow_at, [])
        (usual, times), *_ = Counter(map(tuple, of_steps.values())).most_common(1) or [((), 0)]
        return times > 1 and tuple(followed) != usual

    def write(self) -> None:
        """Write what was recorded: at once whole, or not at all."""
        about = self.job or job()
        file = self.folder / f"rank-{about['rank']}.json"
        partial = file.with_suffix(".part")
        partial.write_text(
            json.dumps(
                {
                    **about,
                    "groups": self.groups,
                    "made": Group.made,
                    "ddp": ddp_buckets(),
                    "ends": self.ends,
                    "calls": self.calls,
                }
            )
        )
        partial.replace(file)


def job() -> dict[str, Any]:
    """Return which rank of how many this is, of which library: "" where there is no process group (any more)."""
    there = dist.is_initialized()
    return {
        "rank": dist.get_rank() if there else int(os.environ.get("RANK", "0")),
        "ranks": dist.get_world_size() if there else int(os.environ.get("WORLD_SIZE", "1")),
        "library": dist.get_backend() if there else "",
    }


def meet(where: str, *, says: bool = False) -> bool:
    """Return whether one of the ranks says so, once all are here.

    A rank that comes too late, or a store that went with its process, keeps nobody. A fake group has no others.
    """
    with suppress(RuntimeError, ValueError):  # torch's DistError is one; there is no process group any more
        others = 0 if dist.get_backend() == fake.LIBRARY else dist.get_world_size()
        store = c10d._get_default_store()
        said = f"{where}, who say so"
        store.add(said, int(says))
        store.add(where, 1)
        until = time.monotonic() + MOST_SECONDS
        while store.add(where, 0) < others and time.monotonic() < until:
            time.sleep(0.01)
        return bool(store.add(said, 0))
    return says


GOODBYE_S = 0.1
"""The first rank may have the store, and the last answer to each of the others is on its way."""


def leave_together() -> None:
    """End this process once all ranks are here, so that none waits for a call of another."""
    meet(HERE)
    if not job()["rank"]:
        time.sleep(GOODBYE_S)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
