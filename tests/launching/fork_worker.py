"""What ranks run in the tests of how they are started: each what its line of a file says."""

import os
import threading
import time
from functools import cache
from pathlib import Path

import torch
import torch.distributed as dist

from overlayccl_core.backends.torch_ranks.joining import RankPlace
from overlayccl_core.backends.torchdist.rank import run_rank
from overlayccl_core.launching.status import Phase, StatusFile


@cache
def abort_when_done() -> None:
    """As a library that fails in its destructors: this rank aborts as soon as it has said that it is done."""
    here = RankPlace.from_environment()

    def wait_and_abort() -> None:
        while here.shared.snapshot()[here.local_rank, StatusFile.PHASE] != Phase.DONE:
            time.sleep(0.001)
        os.abort()

    threading.Thread(target=wait_and_abort, daemon=True).start()


def main(folder: Path) -> None:
    """`sum`: meet the others; `exit 3`; `kill 9`; `raise`; `wait`: until it is ended; `rank`: so does a rank;
    `abort`: a rank that aborts when it is done; `late 2`: one that is done after 2 seconds."""
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
        case "abort":
            run_rank(folder, "gloo", lambda _rank: abort_when_done())
        case "late":
            run_rank(folder, "gloo", lambda _rank: time.sleep(int(number)))
