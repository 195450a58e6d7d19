"""What emitted modules allocate on real ranks: `python -m tests.emit.memory_worker`.

All ranks are forked from one process. Rank 0 prints {name: [bytes that the module holds at its peak, the same with
what the library needs for itself while a collective runs]}.
"""

import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile

from overlayccl_core import catalog
from overlayccl_core.backends.torchdist.backend import emit
from overlayccl_core.program.kinds import COLLECTIVES, DType
from overlayccl_core.program.nodes import Port
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.step.driver import SiteModule, run_step
from overlayccl_core.step.segment import StepSegment
from tests import known_cases

RANKS = 4
SETTLED_S = 0.05  # gloo's thread keeps a work for a moment after it is over
RUNS = 2
SITE = "here"
# Of each Problem an entry of some MiB, and strategies that are looked at: developers, and what merges or gathers.
TRIED: Mapping[str, tuple[Mapping[str, Any], tuple[str, ...]]] = {
    "tp_mlp": (
        {"microbatches": 4, "layers": 2, "shape": [1, 512, 128]},
        ("developer", "merged_over_microbatches", "all_to_all_sum"),
    ),
    "uniform_a2a": ({"payload": "1MiB"}, ("native", "gather_slice")),
    "alltoallv": ({"pattern": "random", "rows": 1024, "width": 256}, ("native", "packed_gather_take")),
    "grad_ar": ({"sizes": [2**18, 2**16, 2**17, 2**18]}, ("one_by_one", "flat", "reduce_scatter_all_gather")),
    "pp_send_recv": (
        {"microbatches": 4, "shape": [1, 512, 128]},
        ("send_receive", "masked_all_reduce", "merged_all_reduce"),
    ),
    "layer_block_ar": (
        {"microbatches": 2, "layers": 2, "shape": [1, 512, 128]},
        ("developer", "merged_over_microbatches"),
    ),
    "ring_kv": ({"heads": 4, "sequence": 1024, "head_dim": 64}, ("per_slot", "joined")),
    "attention": (
        {"heads": 4, "sequence": 512, "head_dim": 32},
        ("gathered", "ring", "ulysses", "gathered_and_scattered", "ring_of_gradients", "ulysses_backward"),
    ),
    "fsdp_prefetch": (
        {"microbatches": 2, "layers": 4, "shape": [1024, 256]},
        ("prefetched", "in_lockstep", "merged_under_256_mib"),
    ),
    "dist_ce": (
        {"tokens": 512, "vocabulary": 4096},
        ("three_all_reduce", "gather_logits", "max_then_stacked", "softmax_minus_one_hot"),
    ),
}


def programs() -> Iterator[tuple[str, Program]]:
    """(name, Program) of what is tried, in both directions."""
    for name, (entry, strategies) in TRIED.items():
        for problem in catalog.directions(catalog.case(name, entry, ranks=RANKS, ranks_per_node=RANKS)):
            for library_way, program in known_cases.programs(problem).items():
                if library_way.removeprefix("simplified_transpose_of_") in strategies:
                    yield f"{problem.name} {library_way}", program


def given_to(problem: Problem) -> dict[Port, torch.Tensor]:
    """Inputs, flat."""
    found = {}
    for port, spec in problem.inputs.items():
        if spec.dtype is DType.INT64:
            assert spec.within is not None
            found[port] = torch.randint(spec.within[0], spec.within[1] + 1, (spec.size,))
        else:
            found[port] = torch.randn(spec.size).to(getattr(torch, spec.dtype.value))
    return found


def run(module: Any, problem: Problem, given: Mapping[Port, torch.Tensor]) -> None:
    """One step of the driver that training has: it drops an output after the last segment that needs it."""
    segments = [
        StepSegment(
            name=s.name,
            needs=tuple((SITE, port) for port in s.needs),
            gives=tuple((SITE, port) for port in s.gives),
            after=s.after,
            work=lambda _, gives=s.gives: {(SITE, port): given[port] for port in gives},
        )
        for s in problem.segments
    ]
    step = SiteModule(
        site=SITE,
        generator=getattr(module, problem.direction.value)(),
        read=module.Read,
        shapes={port: spec.shape for port, spec in (*problem.outputs.items(), *problem.inputs.items())},
    )
    run_step([step], segments)


def load(program: Program) -> ModuleType:
    """The emitted module, connected. Its works let go of their tensors on this thread, where frees are counted."""
    module = ModuleType("emitted")
    exec(compile(emit(program), "emitted", "exec"), module.__dict__)
    module.connect()
    for kind in COLLECTIVES:
        if start := getattr(module, kind.value, None):
            setattr(module, kind.value, lambda *given, start=start: _settled(*start(*given)))
    return module


def _settled(result: torch.Tensor, work: Any) -> "tuple[torch.Tensor, _Settled]":
    return result, _Settled(work)


class _Settled:
    def __init__(self, work: Any) -> None:
        self.work = work

    def wait(self) -> None:
        self.work.wait()
        time.sleep(SETTLED_S)
        self.work = None


def allocated(function: Callable[[], None]) -> tuple[int, int]:
    """(bytes that the caller's statements hold at their peak, the same with those of the library)."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        function()
    events: list[tuple[int, int, int, bool]] = []  # time, pointer, bytes (freed: below 0), inside the library
    threads = set()

    def visit(event: Any, inside: bool) -> None:
        if event.tag == _EventType.Allocation:
            what = event.extra_fields
            threads.add(event.start_tid)
            events.append(
                (event.start_time_ns, what.ptr, what.alloc_size, inside or event.start_tid != caller)
            )
        for child in event.children:
            visit(child, inside or event.name.startswith(("c10d::", "gloo:")))

    roots = seen.profiler.kineto_results.experimental_event_tree()
    caller = min((root.start_tid for root in roots), default=0)
    for root in roots:
        visit(root, False)
    own: dict[int, int] = {}
    peak = live = peak_of_all = all_live = 0
    for _, pointer, size, inside in sorted(events):
        all_live += size
        if size > 0 and not inside:
            own[pointer] = size
            live += size
        elif size < 0:
            live -= own.pop(pointer, 0)
        peak, peak_of_all = max(peak, live), max(peak_of_all, all_live)
    return peak, peak_of_all


def rank(index: int) -> None:
    """Run everything; the least of some runs counts, as a work that is let go late can only add."""
    os.environ["RANK"] = str(index)
    dist.init_process_group("gloo")
    found = {}
    for name, program in programs():
        module, given = load(program), given_to(program.problem)
        once = partial(run, module, program.problem, given)
        found[name] = [min(bytes_) for bytes_ in zip(*(allocated(once) for _ in range(RUNS)), strict=True)]
    every: list[Any] = [None] * RANKS
    dist.all_gather_object(every, found)
    if index == 0:  # of attention the last rank holds most: it sees the most keys
        print(json.dumps({name: list(map(max, *(of[name] for of in every))) for name in found}))
    dist.destroy_process_group()


def main() -> None:
    """Fork the ranks."""
    torch.set_num_threads(1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(RANKS))
    pids = []
    for index in range(RANKS):
        if not (pid := os.fork()):
            return rank(index)
        pids.append(pid)
    failed = [pid for pid in pids if os.waitpid(pid, 0)[1]]
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
