"""Ranks that are late, that are killed, whose group is made again while ways are tried: no hang, no difference.

Each trial forks two ranks. At a random call of a random rank something happens; a killed rank is started again with
its peer, as torchrun does. Each rank notes in which way it makes each call, before it makes it.
"""

import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from benchmarks import open_ways
from overlayccl_core.process_group import seam, tuned
from overlayccl_core.process_group.online import Tuner

TRIALS = 100
EVENTS = ("late", "killed", "made again")
CALLS, OF_STEP, ELEMENTS = 240, 4, 8
LATE_S, TIMEOUT_S, HANG_S = 0.3, 10.0, 40.0


def trials(count: int, seed: int = 0) -> Iterator[str]:
    """Make trials; yield a line of their ends."""
    ends: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        open_ways.write(folder / "ways", 2, [ELEMENTS])
        for number in range(count):
            drawn = random.Random(f"{seed} {number}")
            event = EVENTS[number % len(EVENTS)]
            ends[event, _trial(folder / str(number), folder / "ways", event, drawn)] += 1
    for event in EVENTS:
        yield f"  {event:12}" + ", ".join(
            f"{n} {end}" for (of, end), n in sorted(ends.items()) if of == event
        )


def _trial(folder: Path, ways: Path, event: str, drawn: random.Random) -> str:
    """Return how a trial ended: `well`, `a hang`, `differing choices`, or what else went wrong."""
    folder.mkdir()
    rank, call = drawn.randrange(2), drawn.randrange(CALLS)
    for launch, happens in enumerate((event, "") if event == "killed" else (event,)):
        place = folder / str(launch)
        codes = _launched(place, ways, folder / "found", happens, rank, call)
        if None in codes:
            return "a hang"
        notes = [(place / f"{one}.txt").read_text().split() for one in range(2)]
        if any(mine != other for mine, other in zip(*notes, strict=False)):
            return "differing choices"
        is_killed = happens == "killed"
        if is_killed and (codes[rank] != -signal.SIGKILL or codes[1 - rank] != 1):
            return f"exit codes {codes} where one was killed"
        if not is_killed and (any(codes) or [len(one) for one in notes] != [CALLS] * 2):
            return f"exit codes {codes}, {[len(one) for one in notes]} calls"
    return "well"


def _launched(folder: Path, *given: Any) -> list[int | None]:
    """Fork two ranks; return their exit codes, None of one that does not end."""
    folder.mkdir()
    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=_rank, args=(folder, rank, *given)) for rank in range(2)]
    for one in ranks:
        one.start()
    end = time.monotonic() + HANG_S
    for one in ranks:
        one.join(max(end - time.monotonic(), 0.0))
    codes = [one.exitcode for one in ranks]
    for one in ranks:
        one.kill()
        one.join()
    return codes


def _rank(folder: Path, rank: int, ways: Path, found: Path, event: str, of: int, at: int) -> None:
    """Make calls of several kinds of waiting; at call `at` something happens."""
    os.dup2(os.open(folder / f"{rank}.err", os.O_WRONLY | os.O_CREAT), 2)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    notes = (folder / f"{rank}.txt").open("w", buffering=1)

    class Noted(Tuner):
        def way(self, now: float, *, is_awaited: bool = True) -> str:
            way = super().way(now, is_awaited=is_awaited)
            notes.write(f"{way}\n")
            return way

    vars(tuned)["Tuner"] = Noted
    passage = tuned.Tuned(ways, found)
    seam.install(lambda: passage, every=True)
    begin(folder / "store 0", rank)
    for call in range(CALLS):
        if call == at:
            if event == "made again":
                dist.destroy_process_group()
                begin(folder / "store 1", rank)
            elif event and rank == of:
                os.kill(os.getpid(), signal.SIGKILL) if event == "killed" else time.sleep(LATE_S)
        x = torch.full((ELEMENTS,), float(rank + call))
        work = dist.all_reduce(x, async_op=call % 3 == 0)
        if work is not None:
            work.wait()
        if x.tolist() != [2.0 * call + 1] * ELEMENTS:
            raise ValueError(f"call {call}: {x}")
        if call % OF_STEP == OF_STEP - 1:
            passage._end_step()
    dist.destroy_process_group()


def begin(store: Path, rank: int) -> None:
    """Make the group."""
    late = timedelta(seconds=TIMEOUT_S)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=late)
