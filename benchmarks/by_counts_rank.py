"""What ranks run for `python -m benchmarks by_counts`: exact calls and exchanges by counts, in rounds."""

import importlib
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

ROUNDS, CALLS = 40, 5
Step = tuple[torch.Tensor, list[int], list[int]]  # rows, how many for each rank, how many from each


def exact(step: Step) -> None:
    """The library's call, for a script that knows what comes."""
    rows, give, take = step
    dist.all_to_all_single(rows.new_empty(sum(take), rows.shape[1]), rows, take, give)


def exact_and_counts(step: Step) -> None:
    """The same, for a script that has to ask what comes."""
    rows, give, _ = step
    counts = torch.tensor(give)
    received = torch.empty_like(counts)
    dist.all_to_all_single(received, counts)
    exact((rows, give, received.tolist()))


def _by_counts(exchange: Any, step: Step) -> None:
    rows, give, _ = step
    exchange(rows, give)


def main(folder: Path) -> None:
    """Time every arm of every Case of uniform_a2a.py; write samples in seconds, and the share that overflowed."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    sys.path.insert(0, str(folder))
    module = importlib.import_module("uniform_a2a")
    counts = json.loads((folder / "counts.json").read_text())
    timed = [_timed(module, case, counts) for case in module.cases()]
    (folder / f"timed-{dist.get_rank()}.json").write_text(json.dumps(timed))
    dist.destroy_process_group()


def _timed(module: Any, case: str, counts: list[list[list[int]]]) -> dict[str, Any]:
    exchanges = {way: module.by_counts(module.connect(case, way=way)) for way in module.ways(case)}
    del exchanges["plain"]
    rank, width = dist.get_rank(), module.ENTRIES[case].inputs["forward"]["send",].shape[1]
    steps = [(torch.randn(sum(one[rank]), width), one[rank], [row[rank] for row in one]) for one in counts]
    arms: dict[str, Callable[[Step], Any]] = {"exact": exact, "exact_and_counts": exact_and_counts}
    arms |= {way: partial(_by_counts, exchange) for way, exchange in exchanges.items()}
    random = np.random.default_rng(0)  # the same order on all ranks
    samples: dict[str, list[float]] = {name: [] for name in arms}
    for number in range(-1, ROUNDS):  # the first is not counted
        for name in random.permutation(list(arms)).tolist():
            dist.barrier()
            begin = perf_counter()
            for call in range(CALLS):
                arms[name](steps[(number * CALLS + call) % len(steps)])
            if number >= 0:
                samples[name].append((perf_counter() - begin) / CALLS)
    one = exchanges["chosen"]
    return {"samples": samples, "overflowed": one.overflowed / one.calls}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
