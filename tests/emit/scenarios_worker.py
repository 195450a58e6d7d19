"""What workers of scenarios share: each rank runs all of them, one after the other, and leaves what it saw."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.distributed as dist

from overlayccl_core.backends.torchdist.rank import Rank, run_rank
from overlayccl_core.launching.status import Phase


def run_scenarios(folder: Path, tried: Callable[..., Any]) -> None:
    """Run the scenarios of a folder.

    tried: (rank, module's path, *what stands before it in the scenario, **its arguments) -> what is seen, for JSON.
    """
    scenarios = json.loads((folder / "scenarios.json").read_text())

    def work(rank: Rank) -> None:
        rank.status.enter(Phase.CHECKING)
        seen = []
        for index, (*names, module, arguments) in enumerate(scenarios):
            rank.status.work_on(index)
            seen.append(tried(rank, folder / module, *names, **arguments))
            dist.barrier()
        (folder / f"seen-{rank.index}.json").write_text(json.dumps(seen))

    run_rank(folder, "gloo", work)
