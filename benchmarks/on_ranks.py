"""Emitted modules against the same collectives written by hand, on 4 real ranks, in one launch.

First every hand-written function must give what its Program means; then both sides are timed in the same rounds.
"""

import tempfile
from pathlib import Path

import numpy as np

from benchmarks.pairs import RANKS, Pair, pairs
from overlayccl_core.backends.measured import Job, TimingSettings
from overlayccl_core.backends.torchdist.backend import emit, run_once
from overlayccl_core.backends.trials import Trial
from overlayccl_core.configuration.deployment import Deployment, Tier
from overlayccl_core.measuring import statistics
from overlayccl_core.timing.batch import Batch, time_programs

SECONDS = 90.0


HERE = Deployment(
    name="four-ranks", backend="torchdist", library="gloo", ranks=RANKS, ranks_per_node=RANKS,
    tiers=(Tier(name="node", ranks=RANKS),), memory_budget_bytes=2**30,
)  # fmt: skip


def report() -> list[str]:
    """One line per Program: us of both sides, and the paired ratio with its 95% interval."""
    compared = list(pairs())
    with tempfile.TemporaryDirectory() as folder:
        wrong = differing(compared, Path(folder))
    if wrong:
        raise RuntimeError(f"written by hand and wrong: {', '.join(wrong)}")
    jobs = [Job(key=pair.name, program=pair.program, source=emit(pair.program)) for pair in compared]
    jobs += [
        Job(key=f"{pair.name} by hand", program=pair.program, source=pair.hand_written_module(yields=False))
        for pair in compared
    ]
    with tempfile.TemporaryDirectory() as folder:
        settings = TimingSettings(seconds=SECONDS, foreign_cpu_limit=1.0)
        batch = Batch(
            jobs=jobs, deployment=HERE, settings=settings, partial_dir=Path(folder), rule="benchmark"
        )
        timed = time_programs(batch, lambda _line: None)
    samples = {one.key: one.samples_us for one in timed}
    lines = [
        f"emitted and hand-written on {RANKS} ranks, {timed[0].rounds} rounds: us, emitted over hand-written"
    ]
    for pair in compared:
        emitted, by_hand = samples[pair.name], samples[f"{pair.name} by hand"]
        ratio = statistics.paired_ratio([(emitted, by_hand)])
        each = (statistics.estimate(emitted).value, statistics.estimate(by_hand).value)
        lines.append(
            f"  {pair.name:40s} {each[0]:9.0f} {each[1]:9.0f}  "
            f"{ratio.value:.3f} ({ratio.low:.3f}..{ratio.high:.3f})"
        )
    error = statistics.repeat_error(samples.values())
    return [*lines, f"repeat error of the batch: {error:.1%}; foreign CPU: {timed[0].foreign_cpu_share:.0%}"]


def differing(compared: list[Pair], folder: Path) -> list[str]:
    """Names of pairs whose two sides do not give the same."""
    trials = []
    random = np.random.default_rng(0)
    for pair in compared:
        inputs = {
            port: random.integers(-9, 10, (RANKS, spec.size)).astype(np.float64)
            for port, spec in pair.program.problem.inputs.items()
        }
        for source in (emit(pair.program), pair.hand_written_module(yields=True)):
            trials.append(Trial(job=Job(key=pair.name, program=pair.program, source=source), inputs=inputs))
    observed = run_once(HERE, folder, trials, may_refuse=True)
    wrong = []
    for index, pair in enumerate(compared):
        emitted, by_hand = observed[2 * index : 2 * index + 2]
        told = [said for one in (emitted, by_hand) if (said := one.error or one.overwritten)]
        same = not told and all(
            np.array_equal(x, by_hand.outputs[port]) for port, x in emitted.outputs.items()
        )
        if not same:
            wrong.append(" ".join([pair.name, *told]))
    return wrong
