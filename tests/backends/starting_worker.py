"""What ranks run in the tests of how they are started: each what its line of a file says."""

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

from overlayccl_core.backends.torchdist.rank import run_rank


def main(folder: Path) -> None:
    """`sum`: meet the others; `exit 3`; `kill 9`; `raise`; `wait`: until it is ended; `rank`: so does a rank."""
    rank = int(os.environ["RANK"])
    todo = (folder / "todo").read_text().splitlines()
    what, _, number = todo[rank].partition(" ")
    (folder / f"pid-{rank}").write_text(str(os.getpid()))
    while len(list(folder.glob("pid-*"))) < len(todo):
        time.sleep(0.01)
    match what:
        case "sum":
            dist.init_process_group("gloo")
            total = torch.ones(1)
            dist.all_reduce(total)
            (folder / f"sum-{rank}").write_text(str(int(total.item())))
        case "exit":
            os._exit(int(number))
        case "kill":
            os.kill(os.getpid(), int(number))
        case "raise":
            raise RuntimeError("no luck")
        case "wait":
            time.sleep(60)
        case "rank":
            run_rank(folder, "gloo", lambda _rank: time.sleep(60))
