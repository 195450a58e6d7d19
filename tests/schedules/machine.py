"""A simulated machine that runs MSCCL XML and MSCCL++ plans on integers, in a seeded random order.

It shares no code with the readers of overlayccl_core: what both take for right was understood twice. It knows one
order for each seed, so it shows faults, and never that there is none. What it does not have: memory that a GPU sees
late (a relaxed signal is a signal), several calls in a row, sizes that chunks do not divide.
"""

from random import Random

from tests.schedules import machine_msccl, machine_mscclpp
from tests.schedules.machine_order import Broken, Fault, Stuck, Wrong

__all__ = ["Broken", "Fault", "Stuck", "Wrong", "run"]


def run(
    text: str,
    *,
    seed: int,
    collective: str | None = None,
    slots: int | None = None,
    message: int | None = None,
) -> None:
    """Run a schedule once, in the order of this seed.

    `collective` takes the place of the file's: all_reduce, all_gather, reduce_scatter, all_to_all, all_to_next.
    A connection of MSCCL holds `slots` messages, else as many as its protocol has. A message holds `message`
    chunks, else all of a step. Raises Wrong, Stuck or Broken.
    """
    random = Random(seed)
    if text.lstrip()[:1] == "{":
        for plan in machine_mscclpp.machines(text, collective, random):
            plan.run()
    else:
        for schedule in machine_msccl.machines(text, collective, random, slots, message):
            schedule.run()
