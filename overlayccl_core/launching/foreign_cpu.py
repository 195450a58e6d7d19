"""Share of the CPU taken by others while ranks run: by other processes and the hypervisor.

On the CPUs of the ranks (this process's: ranks inherit them) others have the rest:

    others = passed - idle - interrupts - own processes

The kernel keeps all of these by a clock. It samples user and system time of /proc/stat at timer ticks; we do not
use them.

Interrupts: a kernel with CONFIG_IRQ_TIME_ACCOUNTING charges them to no process, and much traffic of one's own ranks
runs in them. Any other kernel charges the interrupted process; its column `irq` stays 0, as a tick does not
interrupt an interrupt.

Steal: a kernel with CONFIG_PARAVIRT_TIME_ACCOUNTING takes it out of the time of processes. Then it is in the rest,
except for an idle CPU's wait to wake. In any other kernel it hides in the time of processes. So others took
steal at least.
"""

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from overlayccl_core.launching import processes

LEAST_S = 1.0  # of CPU time: below it, rounding to ticks of 10 ms would look like a share
STAT = Path("/proc/stat")
TICKS = os.sysconf("SC_CLK_TCK")  # a second
IDLE, IO_WAIT, IRQ, SOFT_IRQ, STEAL = range(3, 8)  # columns of a CPU in /proc/stat (man 5 proc)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTimes:
    """Seconds of CPUs: passed, idle, in interrupts charged to no process, stolen by a hypervisor, own use."""

    passed_s: float
    idle_s: float
    interrupts_s: float
    stolen_s: float
    own_s: float

    def since(self, before: "CpuTimes") -> "CpuTimes":
        """Return the difference of two readings of the same CPUs."""
        was = asdict(before)
        return CpuTimes(**{name: seconds - was[name] for name, seconds in asdict(self).items()})

    @property
    def left_s(self) -> float:
        """Time beyond idleness, interrupts and own processes; below 0 by rounding to ticks only."""
        return self.passed_s - self.idle_s - self.interrupts_s - self.own_s

    @property
    def foreign_share(self) -> float:
        """Share (0..1) taken by others; 0 if no time has passed."""
        if self.passed_s <= 0:
            return 0.0
        return min(max(self.left_s, self.stolen_s, 0.0) / self.passed_s, 1.0)


class ForeignCpu:
    """Share (0..1) taken by others from the first look on; 0 in less than LEAST_S of CPU time."""

    def __init__(self) -> None:
        self.share = 0.0
        self._own: set[int] = set()
        self._from: CpuTimes | None = None

    def look(self, own: Callable[[], Iterable[int]]) -> None:
        """Update the share. `own`: ids of one's processes, asked for at the first look."""
        if self._from is None:
            self._own = {*own(), os.getpid()}
            self._from = read(self._own)
        so_far = read(self._own).since(self._from)
        if so_far.passed_s >= LEAST_S:
            self.share = so_far.foreign_share


def read(own: Iterable[int]) -> CpuTimes:
    """Return the times so far of this process's CPUs; `own`: ids of one's processes.

    Children of this process do not count in its own time: they may have run long before it reaps them.
    """
    cpus = os.sched_getaffinity(0)
    text, passed_s = STAT.read_text(), time.monotonic() * len(cpus)
    me = os.getpid()
    states = ((pid, state) for pid in own if (state := processes.state(pid)) is not None)
    ticks = sum(state.own_ticks if pid == me else state.ticks for pid, state in states)
    return cpu_times(text, cpus, passed_s=passed_s, own_s=ticks / TICKS)


def cpu_times(stat: str, cpus: Iterable[int], *, passed_s: float, own_s: float) -> CpuTimes:
    names = {f"cpu{cpu}" for cpu in cpus}
    lines = (line.split() for line in stat.splitlines() if line.startswith("cpu"))
    rows = [list(map(int, columns)) for name, *columns in lines if name in names]
    idle, io_wait, irq, soft_irq, steal = (
        sum(row[column] for row in rows) / TICKS for column in (IDLE, IO_WAIT, IRQ, SOFT_IRQ, STEAL)
    )
    return CpuTimes(
        passed_s=passed_s,
        idle_s=idle + io_wait,
        interrupts_s=irq + soft_irq if irq else 0.0,
        stolen_s=steal,
        own_s=own_s,
    )
