"""A rank of a step whose module keeps a call in flight while a segment runs (`test_in_flight_on_ranks.py`).

On the last rank a block waits until rank 0 runs the block after it. So on rank 0 a sum is in flight that cannot be
over: first across the read of the second microbatch, then across the write of the first one's total. A module that
waited for it at either place would never come to an end.
"""

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from overlayccl_core import catalog
from overlayccl_core.backends.torch_ranks.driver import load_module
from overlayccl_core.backends.torchdist.rank import Rank, run_rank
from overlayccl_core.launching.status import Phase
from overlayccl_core.program.problem import Segment
from overlayccl_core.step.driver import SiteModule, run_step
from overlayccl_core.step.segment import StepSegment, Value
from tests.known_cases import case

ENTRY = {"microbatches": 2, "layers": 2, "shape": [1, 2, 3]}
FOLLOWING = {("block", 0, 0): ("block", 1, 0), ("block", 1, 0): ("block", 0, 1)}  # by the Program's order
PATIENCE = timedelta(seconds=20)


def step(rank: Rank) -> None:
    """Run the step; write down the segments as they ran, and the sums that they were given."""
    rank.status.enter(Phase.CHECKING)
    rank.status.work_on(0)
    module: Any = load_module(rank.folder / "module.py", "module")
    module.connect()
    problem = catalog.build(case("tp_mlp", ENTRY, ranks=dist.get_world_size()))
    store = dist.distributed_c10d._get_default_store()
    ran, given = [], []

    def work(segment: Segment, needed: dict[Value, torch.Tensor]) -> dict[Value, torch.Tensor]:
        ran.append(segment.name)
        if rank.index == 0:
            store.set(str(segment.name), "")
        elif segment.name in FOLLOWING:
            store.wait([str(FOLLOWING[segment.name])], PATIENCE)
        given.extend(value.mean().item() for value in needed.values())
        return {("here", port): torch.full((6,), 10.0 * port[1] + port[2]) for port in segment.gives}

    segments = [
        StepSegment(
            name=s.name,
            needs=tuple(("here", port) for port in s.needs),
            gives=tuple(("here", port) for port in s.gives),
            after=s.after,
            work=lambda needed, s=s: work(s, needed),
        )
        for s in problem.segments
    ]
    shapes = {port: spec.shape for port, spec in problem.outputs.items()}
    run_step([SiteModule(site="here", generator=module.forward(), read=module.Read, shapes=shapes)], segments)
    (rank.folder / f"seen-{rank.index}.json").write_text(json.dumps({"ran": ran, "given": given}))


def main(folder: Path) -> None:
    run_rank(folder, "gloo", step)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
