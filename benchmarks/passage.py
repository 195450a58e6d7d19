"""What a process group in between costs a call: CPU time of its thread, over a library that returns at once.

`python -m benchmarks passage`. The library is torch's fake process group: it communicates nothing. In each round
every mode makes as many all_reduces, in another order each time, so that all are compared within one run.
"""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import thread_time_ns

import numpy as np
import torch
import torch.distributed as dist
import torch.testing._internal.distributed.fake_pg  # torch knows the name "fake" then
from torch.distributed import distributed_c10d as c10d

from benchmarks import open_ways
from benchmarks.columns import line
from overlayccl_core.measuring.statistics import estimate, ratio_within
from overlayccl_core.process_group import agreement, seam, tuned
from overlayccl_core.process_group.agreement import SAID
from overlayccl_core.process_group.group import Group, Passage, plain
from overlayccl_core.process_group.parts import MODULE, WAYS
from overlayccl_core.process_group.recorder import StepRecorder
from overlayccl_core.process_group.tuned import Tuned

ROUNDS = 60
CALLS = 200
STEP_US, CALLS_A_STEP = 50_000.0, 100
TARGET = 0.01
LIBRARY = "library"
SETTLED_TUNER = "tuned, settled"
OTHER_CALL = [{"key": ["all_reduce", "sum", "float32", 7, 4], "case": "other"}]
ELEMENTS = 8


class OfAll(Tuned):
    """The ways of all ranks, of which there is but this one."""

    def group_begins(self, group: Group) -> None:
        vars(tuned)["have_met"] = vars(agreement)["have_met"] = lambda _: True
        super().group_begins(group)
        store = group.get_group_store()
        said = store.get(f"{SAID}{group.rank()}")
        for rank in range(group.size()):
            store.set(f"{SAID}{rank}", said.decode())


def report() -> list[str]:
    """A line for each mode."""
    with tempfile.TemporaryDirectory() as folder:
        samples = _measured(Path(folder))
    lines = [
        f"CPU time of an all_reduce through a process group in between, {ROUNDS} rounds of {CALLS} calls",
        f"share: of a step of {STEP_US / 1000:.0f} ms with {CALLS_A_STEP} calls, with its 95% interval; at most "
        f"{TARGET:.0%} is asked of a script that is not recorded",
        line("mode", "us a call", "added us", "x library", "share", "low", "high"),
    ]
    library = samples.pop(LIBRARY)
    lines.append(line(LIBRARY, f"{np.median(library):.2f}"))
    for mode, times in samples.items():
        added, ratio = estimate(times - library), ratio_within(times, library)
        half = 1.96 * added.standard_error
        shares = [
            (us * CALLS_A_STEP) / STEP_US for us in (added.value, added.value - half, added.value + half)
        ]
        lines.append(
            line(
                *(mode, f"{np.median(times):.2f}", f"{added.value:.2f}", f"{ratio.value:.2f}"),
                *(f"{share:.2%}" for share in shares),
            )
        )
    return lines


def settled_us() -> float:
    """Return the CPU time in us that a tuner adds to a call when all ways are tried."""
    with tempfile.TemporaryDirectory() as folder:
        samples = _measured(Path(folder))
    return float(np.median(samples[SETTLED_TUNER] - samples[LIBRARY]))


def _measured(folder: Path) -> dict[str, np.ndarray]:
    """Mode -> microseconds a call [rounds]."""
    (folder / MODULE).write_text("ENTRIES = {}\n")
    (folder / WAYS).write_text(json.dumps(OTHER_CALL))
    open_ways.write(settled := folder / "settled", 4, [ELEMENTS])
    (row,) = json.loads((settled / WAYS).read_text())
    (settled / WAYS).write_text(json.dumps([{**row, "ways": row["ways"][:1]}]))  # nothing is left to try
    own = settled / MODULE
    own.write_text(own.read_text().replace("'library': 'gloo'", "'library': 'fake'"))
    modes: dict[str, Callable[[], Passage]] = {
        "plain": lambda: plain,
        "record, before": lambda: StepRecorder(folder, whole=True),
        "record": lambda: StepRecorder(folder, whole=True, skip=0),
        "tuned, no way": lambda: Tuned(folder),
        SETTLED_TUNER: lambda: OfAll(settled),
    }
    dist.init_process_group("fake", store=dist.HashStore(), rank=0, world_size=4)
    try:
        groups = {LIBRARY: dist.new_group(), **{mode: _through(make) for mode, make in modes.items()}}
        x = torch.zeros(ELEMENTS)
        samples: dict[str, list[float]] = {mode: [] for mode in groups}
        for order in range(-1, ROUNDS):  # the first warms up
            names = list(groups)
            for mode in np.roll(names, order):
                group = groups[mode]
                begin = thread_time_ns()
                for _ in range(CALLS):
                    dist.all_reduce(x, group=group)
                samples[mode].append((thread_time_ns() - begin) / 1e3 / CALLS)
    finally:
        dist.destroy_process_group()
    return {mode: np.array(times[1:]) for mode, times in samples.items()}


def _through(make: Callable[[], Passage]) -> dist.ProcessGroup:
    """A group of ours."""
    torchs = c10d._new_process_group_helper
    seam.install(make, every=True)
    try:
        return dist.new_group()
    finally:
        c10d._new_process_group_helper = torchs
