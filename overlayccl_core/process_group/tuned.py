"""The passage that makes calls in proven ways: each call that has one, every other as the script wrote it.

All ranks of a group must have the same folder of ways (agreement.py). Where ranks differ, or one has no folder, all
calls of the group stay as they are.

A way that needs groups of some of the ranks makes them at its first call, which then waits for all ranks.

Where a Case's ways are open, each call is made in the one that the group's plan says (online.py).
"""

import atexit
import os
import sys
import threading
import time
import warnings
import weakref
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from .agreement import agree, have_met, libraries, tell
from .bundles import Bundles, ProvenCall, Walk, fewest, is_eager
from .calls import BESIDE, METHODS, argument, tensors
from .group import Group, plain
from .online import Findings, Tuner, told
from .parts import PLAIN, Key
from .queue import NESTED, Queue, QueuedWork, finished, keep_out_of_coalescing
from .steps import at_each_step
from .ways import ProvenWays, ends, options


class Tuned:
    """Calls in the ways of a folder.

    Args:
        folder: The ways.
        findings: A folder for what is found out about them; None: it is not kept.

    Attributes:
        made: Case -> how many times it was used.
        numerics: Case -> class of its numerics.

    Raises:
        ValueError: It is no such folder.
    """

    def __init__(self, folder: Path, findings: Path | None = None) -> None:
        self._ways = ProvenWays(folder)
        self._tuners: dict[str, list[Tuner]] = {}
        self._turn = threading.Lock()  # of calls that overlap one is on trial at a time
        self._folder, self._findings = findings, Findings(None, 0, {})
        self._bundles = Bundles(set(self._ways.bundles), fewest, self._together)
        self._has_bundles = bool(self._ways.bundles)
        self._is_first = True
        self.made: dict[str, int] = {}
        self.numerics = self._ways.numerics
        if self._ways.arms:
            at_each_step(self._end_step)
        keep_out_of_coalescing()
        atexit.register(self._end)

    def _end(self) -> None:
        """Make what waits, as the process ends; say so if nothing was ever made in a way."""
        self._bundles.make_all()
        led = [of[-1] for of in self._tuners.values() if of[-1].leads]
        for tuner in led:
            tuner.keep()
            print(f"overlayccl: {told(tuner)}", file=sys.stderr)
        if not self.made and not self._tuners and os.environ.get("RANK", "0") == "0":
            why = "the ways are of other calls, ranks differ in them, or none is tried on this device"
            print(f"overlayccl: no call was made in a proven way: {why}", file=sys.stderr)

    def _end_step(self) -> None:
        for of in self._tuners.values():
            for tuner in of:
                tuner.end_step()

    def groups_wait(self) -> None:
        """Send what waits: a group is about to be made, for which ranks wait that may need it."""
        if not NESTED.inside:
            self._bundles.send_all()

    def group_begins(self, group: Group) -> None:
        """Tell the ranks of a group that is about to be connected which ways this one has."""
        if NESTED.inside:
            return
        tell(group, self._ways.digest)
        if self._is_first and not group.rank() and not self._ways.fit(group.size()):
            warnings.warn(
                f"all proven ways are for more ranks than the {group.size()} here: no call is made in one",
                stacklevel=2,
            )
        self._is_first = False

    def group_ends(self, group: Group) -> None:
        """Make what is under way in a group that is about to be destroyed."""
        if isinstance(group.kept, Kept):
            self._bundles.send_all()
            group.kept.queue.close()
            for tuner in group.kept.tuners.values():
                tuner.close()
            group.kept = None

    def __call__(self, group: Group, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call."""
        if NESTED.inside:
            return plain(group, method, args, kwargs)
        kept = group.kept
        if kept is None:
            kept = group.kept = Kept(group)
        key = self._ways.key(kept.ranks, lambda: self._hosts(group, kept), method, args, kwargs)
        if key is not None and key not in kept.keys and not self._bundles.continues(kept.walk, key):
            self._bundles.send_all()  # to agree and to connect, ranks wait for each other
        if key is None or not self._agreed(group, kept):
            return self._passed(group, kept, method, args, kwargs)
        issued = time.perf_counter()
        found = ends(method, args)
        assert found is not None  # or it would have no key
        given, taken = found
        if given.device.type != "cpu" and self._ways.cases.get(key) in self._ways.arms:
            return self._passed(group, kept, method, args, kwargs)  # its calls return before they are over
        self._connect(group, kept, key, given.device)
        on_host = given.device.type == "cpu"  # a device has streams: no thread of ours, and no bundles
        is_async = on_host and getattr(options(method, args, kwargs), "asyncOp", True)

        def alone(call: ProvenCall) -> Any:
            return self._alone(call, group, method, args, kwargs, issued=issued, is_awaited=not is_async)

        call = ProvenCall(key, given, taken, alone)
        if not (is_async or self._has_bundles) and kept.queue.is_idle():
            with NESTED.here(), torch.no_grad():  # no thread of ours, and nothing to wait for
                work = alone(call)
            return work or QueuedWork(finished(None), [taken])
        bundled = self._has_bundles and on_host
        if not bundled or not self._bundles.takes(kept.walk, call, may_wait=is_async and is_eager()):
            kept.queue.run(call.settle, is_awaited=not is_async)
        return QueuedWork(call.done, [taken], self._bundles.send_all)

    def _passed(
        self, group: Group, kept: "Kept", method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Make a call as the script wrote it."""
        if not self._has_bundles and (method in BESIDE or kept.queue.is_idle()):
            return plain(group, method, args, kwargs)

        def call() -> Any:
            return plain(group, method, args, kwargs)

        outputs = list(tensors(argument(args, METHODS[method].outputs)))
        if method in BESIDE:
            self._bundles.send_all()  # another rank may do something else: no bundle ends
            work = call()
        else:
            if self._has_bundles:
                self._bundles.end(kept.walk)
            if method == "monitored_barrier":  # it returns when all ranks are there
                kept.queue.drain()
            work = kept.queue.passed(call, outputs)
        if not self._has_bundles or work is None or isinstance(work, QueuedWork):
            return work
        return QueuedWork(finished(work), outputs, self._bundles.send_all)

    def _alone(
        self,
        call: ProvenCall,
        group: Group,
        method: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        issued: float,
        is_awaited: bool,
    ) -> Any:
        """Make a call that is in no bundle that goes out."""
        case = self._ways.cases.get(call.key)
        if case is None:
            return plain(group, method, args, kwargs)
        tuner = group.kept.tuners.get(call.key)
        if tuner is None:
            self._run(group.kept, case, self._ways.fixed.get(case, "chosen"), [call])
            return None
        way, begin = tuner.way(issued, is_awaited=is_awaited), time.perf_counter()
        made = None
        if way != PLAIN:
            self._run(group.kept, case, way, [call])
        else:
            work = plain(group, method, args, kwargs)
            if not is_awaited:  # the library makes it beside others, as without us
                return work
            work.wait()
            made = work
        tuner.took(time.perf_counter() - begin)
        return made

    def _together(self, group: Group | None, calls: list[ProvenCall]) -> None:
        assert group is not None
        self._run(group.kept, self._ways.bundles[tuple(call.key for call in calls)], "chosen", calls)

    def _run(self, kept: "Kept", case: str, way: str, calls: list[ProvenCall]) -> None:
        self.made[case] = self.made.get(case, 0) + 1
        results: dict[Any, torch.Tensor] = {}
        given = {("given", i): call.given.resolve_neg().contiguous().view(-1) for i, call in enumerate(calls)}
        self._ways.module.answer(kept.connected[case, way].forward(), given, results)
        for i, call in enumerate(calls):  # as the library writes: autograd does not see it
            call.taken.data.copy_(results["result", i].view(call.taken.shape))

    def _agreed(self, group: Group, kept: "Kept") -> bool:
        """Whether all ranks of the group have the same ways."""
        if kept.is_agreed is None:
            kept.is_agreed, kept.hosts, kept.token = agree(group, self._ways.digest, "OVERLAYCCL_WAYS")
            if kept.is_agreed and (why := self._refused(group)):
                kept.is_agreed = False
                if not group.rank():
                    warnings.warn(f"{why}: all calls of the group stay as they are", stacklevel=2)
        return kept.is_agreed

    def _refused(self, group: Group) -> str:
        """Return why the ways are not for this group's library; empty if they are."""
        below = libraries(group)
        if self._ways.library not in {"", *below}:
            return (
                f"the ways were measured on {self._ways.library}, and a group's library is {', '.join(below)}"
            )
        if self._ways.arms and not have_met(group):  # else a rank might read plans of an earlier run
            return "ways are tried where gloo connects all ranks at once (TORCH_GLOO_LAZY_INIT is not)"
        return ""

    def _hosts(self, group: Group, kept: "Kept") -> int:
        """Return over how many hosts the group is spread."""
        if kept.is_agreed is None:
            self._bundles.send_all()  # to agree, ranks wait for each other
            self._agreed(group, kept)
        return kept.hosts

    def _connect(self, group: Group, kept: "Kept", key: Key, device: torch.device) -> None:
        """Connect the Cases of a call, and of the bundles that it may begin: at the same call on all ranks."""
        if key in kept.keys:
            return
        kept.keys.add(key)
        begun = [keys for keys in self._ways.bundles if keys[0] == key]
        cases = [self._ways.bundles[keys] for keys in begun]
        cases += [
            self._ways.cases[one] for keys in ((key,), *begun) for one in keys if one in self._ways.cases
        ]
        ranks, module, here, parts = kept.ranks, self._ways.module, kept.group, kept.parts

        def group_of(wanted: tuple[int, ...]) -> Any:
            if wanted == ranks:
                return here()
            made = parts[wanted]() if wanted in parts else None
            if made is None and dist.get_rank() in wanted:  # others have no part in it
                made = dist.new_group(list(wanted), use_local_synchronization=True)
                parts[wanted] = weakref.ref(made)
            return made

        with NESTED.here():
            for case in cases:
                open_ways = [arm.way for arm in self._ways.arms.get(case, ()) if arm.way != PLAIN]
                for way in open_ways or [self._ways.fixed.get(case, "chosen")]:
                    if (case, way) not in kept.connected:
                        kept.connected[case, way] = module.Connected(
                            *(case, module.ENTRIES[case], (ranks,), group_of, device),
                            *(way, False, module.Held(group)),
                        )
        if arms := self._ways.arms.get(self._ways.cases.get(key, "")):
            role = _role(group)
            name = key.of(ranks, role)
            if not self._tuners:
                self._findings = Findings(self._folder, dist.get_rank(), _here(self._ways.digest))
            before = self._tuners.setdefault(name, [])  # of groups of the same ranks
            found, known = self._findings.begin(name, key, role, arms)
            if before:
                found, known = before[-1].found, before[-1].descent.trials
            kept.tuners[key] = tuner = Tuner(
                *(key, f"{name}, {kept.token}", arms, kept.plans(), self._ways.digest),
                found=found,
                known=known,
                leads=not group.rank(),
                keep=lambda: self._findings.add(name, role, tuner),
                turn=self._turn,
            )
            before.append(tuner)


class Kept:
    """What is kept of a group.

    Attributes:
        is_agreed: Whether its ranks have the same ways, for its library; None before anybody asked.
        hosts: Over how many hosts it is spread.
        token: The first rank's, for this group alone: a store outlives groups, and ranks that torchrun restarts.
        keys: The calls whose Cases are connected.
        connected: (Case, way) -> its calls on this group.
        parts: Ranks -> a group of some of these.
        tuners: What is found out about calls whose way is open.
    """

    def __init__(self, group: Group) -> None:
        self.group = weakref.ref(group)
        self.ranks = tuple(dist.get_process_group_ranks(group))
        self.size = group.size()
        self.queue = Queue()
        self.walk = Walk(self.group, self.queue)
        self.is_agreed: bool | None = None
        self.hosts, self.token = 0, ""
        self.keys: set[Key] = set()
        self.connected: dict[tuple[str, str], Any] = {}
        self.parts: dict[tuple[int, ...], weakref.ref[dist.ProcessGroup]] = {}
        self.tuners: dict[Key, Tuner] = {}
        self._plans: dist.Store | None = None

    def plans(self) -> dist.Store:
        """The group's store, for plans: a connection of its own, so that who waits for one keeps nobody else."""
        if self._plans is None:
            group = self.group()
            assert group is not None
            store = group.get_group_store()
            if not hasattr(store, "clone"):
                raise RuntimeError(
                    f"ways that are open need torch 2.8 or newer (this is {torch.__version__})"
                )
            self._plans = store.clone()
        return self._plans


def _here(digest: str) -> dict[str, Any]:
    """Return what findings hold for: these ways, this torch, so many ranks on so many hosts."""
    local = os.environ.get("LOCAL_WORLD_SIZE", "")
    ranks = {"world_size": dist.get_world_size(), "local_world_size": local}
    return {"ways": digest, "torch": str(torch.__version__), **ranks}


def _role(group: Group) -> str:
    """Return what the script says that the group is for: the name of its dimension of a DeviceMesh, or a text."""
    said = group.group_desc
    return "" if said in ("undefined", "default_pg") else said.removeprefix("mesh_")
