"""Emitted modules against functions written by hand, with all collectives replaced by the identity.

What is left is what the emitted module adds or saves around its calls: CPU time of one process, rank 0 of 4. The
limit is 3% of the fastest probe of the same kind of collective on 2 real ranks, for each collective.
"""

import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from typing import Any

import torch
import torch.distributed as dist

from benchmarks.by_hand import BY_HAND, connect
from benchmarks.pairs import RANKS, Pair, pairs
from overlayccl_core.backends.measured import Job, TimingSettings
from overlayccl_core.backends.torch_ranks.driver import Emitted, load_module, run
from overlayccl_core.backends.torchdist.backend import emit
from overlayccl_core.configuration.deployment import Deployment, Tier
from overlayccl_core.measuring import statistics as timings
from overlayccl_core.program.groups import world
from overlayccl_core.program.kinds import COLLECTIVES, DType, Kind
from overlayccl_core.timing.batch import Batch, time_programs
from overlayccl_core.timing.primitives import grouped, permute, permutes

SHARE = 0.03
REPEATS = 60
PROBE_ELEMENTS = 64
PROBE_SECONDS = 15.0


def report() -> list[str]:
    """One line per Program, and whether all are within the limit."""
    torch.set_num_threads(1)
    probes = fastest_probes_us()
    lines = [
        "emitted against hand-written, identity collectives: CPU us a call, extra us a collective (limit)"
    ]
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder, identity_collectives():
        for index, pair in enumerate(pairs()):
            emitted_us, by_hand_us = compared(pair, Path(folder), index)
            kinds = [x.kind for x in pair.program.collectives]
            extra = (emitted_us - by_hand_us) / len(kinds)
            limit = SHARE * statistics.fmean(probes[kind] for kind in kinds)
            worst = max(worst, extra / limit)
            ratio = emitted_us / by_hand_us
            lines.append(
                f"  {pair.name:40s} {emitted_us:8.1f} {by_hand_us:8.1f}  x{ratio:4.2f}  {extra:+6.2f} ({limit:.1f})"
            )
    lines.append(
        f"worst: {worst:.0%} of the limit; probes: " + ", ".join(f"{k} {us:.0f}" for k, us in probes.items())
    )
    return lines


def compared(pair: Pair, folder: Path, index: int) -> tuple[float, float]:
    """CPU us of one call: (emitted, by hand), medians of alternating repeats."""
    path = folder / f"program_{index}.py"
    path.write_text(emit(pair.program))
    module = load_module(path, f"benchmarked_{index}")
    module.connect((tuple(range(RANKS)),), lambda _ranks: NOBODY)
    emitted = Emitted(function=module.forward, read=module.Read)
    at = connect(pair.case, 0, lambda _ranks: NOBODY)
    function = BY_HAND[pair.problem][pair.strategy]
    inputs = {port: torch.randn(spec.size) for port, spec in pair.program.problem.inputs.items()}
    sides: list[Callable[[], Any]] = [lambda: run(emitted, inputs), lambda: function(inputs, at)]
    calls = max(1, round(0.01 / max(_cpu_s(sides[1], 3), 1e-6)))
    times = [[_cpu_s(side, calls) for side in sides] for _ in range(REPEATS)]
    emitted_s, by_hand_s = (statistics.median(column) for column in zip(*times, strict=True))
    return emitted_s * 1e6, by_hand_s * 1e6


def _cpu_s(side: Callable[[], Any], calls: int) -> float:
    start = process_time()
    for _ in range(calls):
        side()
    return (process_time() - start) / calls


def fastest_probes_us() -> dict[Kind, float]:
    """us of the cheapest collective of each kind on 2 real ranks."""
    here = Deployment(
        name="two-ranks", backend="torchdist", library="gloo", ranks=2, ranks_per_node=2,
        tiers=(Tier(name="node", ranks=2),), memory_budget_bytes=2**30,
    )  # fmt: skip
    programs = {
        kind: permute(here, DType.FLOAT32, PROBE_ELEMENTS, permutes(2)[0])
        if kind is Kind.COLLECTIVE_PERMUTE
        else grouped(here, kind, world(2), DType.FLOAT32, PROBE_ELEMENTS)
        for kind in COLLECTIVES
    }
    jobs = [Job(key=kind, program=p.program, source=emit(p.program)) for kind, p in programs.items()]
    settings = TimingSettings(seconds=PROBE_SECONDS, foreign_cpu_limit=1.0)
    with tempfile.TemporaryDirectory() as folder:
        batch = Batch(
            jobs=jobs, deployment=here, settings=settings, partial_dir=Path(folder), rule="benchmark"
        )
        timed = time_programs(batch, lambda _line: None)
    return {Kind(one.key): timings.estimate(one.samples_us).value for one in timed}


class _Done:
    """A work that is over."""

    def wait(self) -> None:
        """Nothing to wait for."""


class _Group:
    """A process group in which nobody is asked for anything."""


NOBODY = _Group()


@contextmanager
def identity_collectives() -> Iterator[None]:
    """torch.distributed's collectives do nothing, at once; this process is rank 0."""
    done = _Done()
    fakes: dict[str, Any] = {
        "get_rank": lambda: 0,
        "get_world_size": lambda: RANKS,
    }
    for name in ("all_reduce", "all_gather_into_tensor", "all_gather_single", "reduce_scatter_tensor",
                 "reduce_scatter_single", "all_to_all_single", "isend", "irecv"):  # fmt: skip
        if hasattr(dist, name):
            fakes[name] = lambda *_a, **_k: done
    real = {name: getattr(dist, name) for name in fakes}
    try:
        for name, fake in fakes.items():
            setattr(dist, name, fake)
        yield
    finally:
        for name, one in real.items():
            setattr(dist, name, one)
