"""The target of test_failures: what goes wrong in scripts, on two ranks, with the library alone and with us.

usage: failures.py FOLDER, with folders of ways (`ways`, `other`, `larger`), `timed`, `odd`. For each course, mode
and rank it gets a JSON file: what the rank said, its error, its warnings, what was made. Printed: exit codes.
"""

import json
import os
import signal
import sys
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from overlayccl_core.process_group import seam
from overlayccl_core.process_group.recorder import StepRecorder
from overlayccl_core.process_group.stopwatch import Stopwatch
from overlayccl_core.process_group.tuned import Tuned

FOLDER = Path(sys.argv[1])
SECONDS = 4  # the library's own timeout
Say = Callable[[Any], None]


def reduced(elements: int = 8) -> list[float]:
    x = torch.ones(elements)
    dist.all_reduce(x)
    return x.tolist()


def issued(elements: int) -> tuple[torch.Tensor, dist.Work]:
    x = torch.ones(elements)
    return x, dist.all_reduce(x, async_op=True)


def killed(rank: int, say: Say) -> None:
    say(reduced())
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    say(reduced())


def other_shape_on_all(rank: int, say: Say) -> None:
    for step in range(60):
        say(reduced(9 if step == 57 else 8))


def other_shape_on_one(rank: int, say: Say) -> None:
    for step in range(60):
        reduced(9 if step == 57 and rank == 1 else 8)


def other_shape_on_one_in_detail(rank: int, say: Say) -> None:
    other_shape_on_one(rank, say)


def error_between_issue_and_wait(rank: int, say: Say) -> None:
    x, work = issued(8)
    if rank == 0:
        raise KeyError("of the script")
    work.wait()
    say(x.tolist())
    reduced()


def error_in_a_bundle(rank: int, say: Say) -> None:
    (x, work), (y, other) = issued(5), issued(6)
    if rank == 0:
        raise KeyError("of the script")
    work.wait()
    other.wait()
    say([x.tolist(), y.tolist()])


def rank_without_ways(rank: int, say: Say) -> None:
    say(reduced())


def rank_with_other_ways(rank: int, say: Say) -> None:
    say(reduced())


def destroyed_under_way(rank: int, say: Say) -> None:
    calls = [issued(elements) for elements in (8, 8, 5, 6)]
    dist.destroy_process_group()
    for x, work in calls:
        say(work.wait())
        say(x.tolist())


def wait_with_a_timeout(rank: int, say: Say) -> None:
    if rank == 1:
        dist.distributed_c10d._get_default_store().wait(["late"])
    x, work = issued(8)
    if rank == 0:
        try:
            work.wait(timedelta(milliseconds=50))
        except RuntimeError as error:
            say("timed out" in str(error))
        dist.distributed_c10d._get_default_store().set("late", "")
    work.wait()
    say(x.tolist())


def issue_returns_before_the_others_call(rank: int, say: Say) -> None:
    """Rank 1 calls only when rank 0 has gone on."""
    store = dist.distributed_c10d._get_default_store()
    if rank == 1:
        store.wait(["issued"])
    (x, first), (y, second) = issued(8), issued(4)
    if rank == 0:
        say([first.is_completed(), second.is_completed()])
        store.set("issued", "")
    second.wait()
    say([x.tolist(), y.tolist(), first.is_completed()])  # in the order of issue


def sends_beside_calls(rank: int, say: Say) -> None:
    """Rank 1 makes a call only when it has what rank 0 sends after its own call; it sends nothing in its bundle."""
    sent = torch.ones(1)
    if rank == 0:
        x, work = issued(8)
        dist.send(sent, 1)
    else:
        dist.recv(sent, 0)
        x, work = issued(8)
    work.wait()
    y, first = issued(3)
    sending = dist.isend(sent, 1) if rank == 0 else None
    z, second = issued(3)
    second.wait()
    first.wait()
    sending.wait() if sending else dist.recv(sent, 0)
    say([x.tolist(), y.tolist(), z.tolist()])


def ways_of_more_ranks(rank: int, say: Say) -> None:
    say(reduced())


def ways_of_another_library(rank: int, say: Say) -> None:
    say(reduced())


def group_over_two_hosts(rank: int, say: Say) -> None:
    """Ranks on two hosts, as torchrun numbers them, with ways for one host."""
    say([reduced(), reduced()])


def no_process_group(rank: int, say: Say) -> None:
    """A script that never calls init_process_group, timed."""
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)])
    for _ in range(4 if rank == 0 else 0):
        optimizer.step()


def destroyed_before_the_last_step(rank: int, say: Say) -> None:
    """Recorded steps, the last of which comes after the process group."""
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)])
    reduced()
    optimizer.step()
    reduced()
    dist.destroy_process_group()
    optimizer.step()


def odd_step(rank: int, say: Say) -> None:
    """Three recorded steps, and an odd one that would have been followed."""
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)])
    for step in range(9):
        x = torch.ones(8)
        if rank:
            dist.send(x, 0, tag=7)
        else:
            dist.recv(x, tag=7)
        dist.all_reduce(x)
        if step == 3:
            reduced(3)
        optimizer.step()


BOTH = ("plain", "tuned")
COURSES = {
    **dict.fromkeys((killed, other_shape_on_one, error_between_issue_and_wait), BOTH),
    **dict.fromkeys((destroyed_under_way, wait_with_a_timeout), BOTH),
    **dict.fromkeys((other_shape_on_all, other_shape_on_one_in_detail, error_in_a_bundle), ("tuned",)),
    **dict.fromkeys((rank_without_ways, rank_with_other_ways, ways_of_more_ranks), ("tuned",)),
    **dict.fromkeys((ways_of_another_library, group_over_two_hosts), ("tuned",)),
    **dict.fromkeys((sends_beside_calls, issue_returns_before_the_others_call), ("tuned",)),
    no_process_group: ("timed",),
    destroyed_before_the_last_step: ("recorded",),
    odd_step: ("recorded",),
}
"""course -> modes."""


def start(course: Callable[..., None], mode: str, rank: int) -> Tuned | None:
    """Become a rank. Returns what makes its calls."""
    tuned = None
    if mode == "tuned" and (course, rank) != (rank_without_ways, 1):
        other = {rank_with_other_ways: ("ways", "other")[rank], ways_of_more_ranks: "larger"}
        other |= {ways_of_another_library: "nccl"}
        if course is group_over_two_hosts:
            os.environ["GROUP_RANK"] = str(rank)
        tuned = Tuned(FOLDER / other.get(course, "ways"))
        seam.install(lambda: tuned, every=True)
    elif mode == "recorded":
        odd = course is odd_step
        folder, steps = (FOLDER / "odd", 3) if odd else (FOLDER, 1)
        seam.install(lambda: StepRecorder(folder, whole=False, skip=0, steps=steps), every=True)
    elif mode == "timed":
        Stopwatch(FOLDER / "timed", 3, {})
        return None
    if course is other_shape_on_one_in_detail:
        dist.set_debug_level(dist.DebugLevel.DETAIL)
    met = f"file://{FOLDER}/{course.__name__}-{mode}"
    dist.init_process_group(
        "gloo", init_method=met, rank=rank, world_size=2, timeout=timedelta(seconds=SECONDS)
    )
    return tuned


def rank_of(course: Callable[..., None], mode: str, rank: int) -> None:
    """A rank's whole life."""
    said: list[Any] = []
    found: dict[str, Any] = {"said": said}
    tuned = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            tuned = start(course, mode, rank)
            course(rank, said.append)
        except Exception as error:
            found["error"] = f"{type(error).__name__}: {error}"
            raise
        finally:
            found |= {"warned": [str(one.message) for one in caught], "made": tuned.made if tuned else {}}
            (FOLDER / f"{course.__name__}-{mode}-{rank}.json").write_text(json.dumps(found))


def main() -> None:
    """Fork both ranks of each course, and print their exit codes."""
    for course, modes in COURSES.items():
        for mode in modes:
            pids = []
            for rank in range(2):
                sys.stdout.flush()
                pid = os.fork()
                if not pid:
                    rank_of(course, mode, rank)
                    return
                pids.append(pid)
            codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
            print(json.dumps([course.__name__, mode, codes]))


if __name__ == "__main__":
    main()
