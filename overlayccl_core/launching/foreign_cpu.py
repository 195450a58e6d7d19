"""How much of the CPU others take while ranks run: other processes, and the hypervisor.

Of the CPUs that ranks may use (those of this process: ranks inherit them), others have what is left:

    others = passed - idle - interrupts - own processes

All of these are kept by a clock. What /proc/stat calls user and system is sampled at timer ticks, and is not used.

Interrupts: a kernel that keeps their time (CONFIG_IRQ_TIME_ACCOUNTING) charges them to nobody, and much of the
traffic of one's own ranks runs in them. Any other charges them to the process that they interrupt; its column `irq`
stays 0, as a tick does not interrupt an interrupt.

Steal: where a kernel takes it out of the time of processes (CONFIG_PARAVIRT_TIME_ACCOUNTING), it is in what is
left, but for the wait of an idle CPU to wake; in any other it is hidden in the time of processes. So others took
steal at least.
"""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from overlayccl_core.launching import processes

LEAST_S = 1.0  # of CPU time: below that, ticks of 10 ms that are rounded away would be a share of their own
STAT = Path("/proc/stat")
IDLE, IO_WAIT, IRQ, SOFT_IRQ, STEAL = range(3, 8)  # columns of a CPU in /proc/stat (man 5 proc)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTimes:
    """Seconds of some CPUs together: passed by the clock, idle, of interrupts that no process is charged with,
    stolen by the hypervisor, and of one's own processes."""

    passed_s: float
    idle_s: float
    interrupts_s: float
    stolen_s: float
    own_s: float

    def since(self, before: "CpuTimes") -> "CpuTimes":
        """What came between two readings of the same CPUs."""
        return CpuTimes(
            passed_s=self.passed_s - before.passed_s,
            idle_s=self.idle_s - before.idle_s,
            interrupts_s=self.interrupts_s - before.interrupts_s,
            stolen_s=self.stolen_s - before.stolen_s,
            own_s=self.own_s - before.own_s,
        )

    @property
    def left_s(self) -> float:
        """What neither idleness nor one's own processes explain; below 0 by the rounding to ticks only."""
        return self.passed_s - self.idle_s - self.interrupts_s - self.own_s

    @property
    def foreign_share(self) -> float:
        """Share (0..1) that others took; 0 where no time has passed."""
        if self.passed_s <= 0:
            return 0.0
        return min(max(self.left_s, self.stolen_s, 0.0) / self.passed_s, 1.0)


def read(own: Iterable[int]) -> CpuTimes:
    """The times so far, of the CPUs that this process may use; `own`: ids of one's processes.

    Of this process itself, without its children: what they took may be long past when it reaps them.
    """
    cpus = os.sched_getaffinity(0)
    text, passed_s = STAT.read_text(), time.monotonic() * len(cpus)
    me = os.getpid()
    states = ((pid, state) for pid in own if (state := processes.state(pid)) is not None)
    ticks = sum(state.own_ticks if pid == me else state.ticks for pid, state in states)
    return cpu_times(text, cpus, passed_s=passed_s, own_s=ticks / _ticks_a_second())


def cpu_times(stat: str, cpus: Iterable[int], *, passed_s: float, own_s: float) -> CpuTimes:
    """From the text of /proc/stat."""
    names = {f"cpu{cpu}" for cpu in cpus}
    lines = (line.split() for line in stat.splitlines() if line.startswith("cpu"))
    rows = [list(map(int, columns)) for name, *columns in lines if name in names]
    idle, io_wait, irq, soft_irq, steal = (
        sum(row[column] for row in rows) / _ticks_a_second()
        for column in (IDLE, IO_WAIT, IRQ, SOFT_IRQ, STEAL)
    )
    return CpuTimes(
        passed_s=passed_s,
        idle_s=idle + io_wait,
        interrupts_s=irq + soft_irq if irq else 0.0,
        stolen_s=steal,
        own_s=own_s,
    )


def _ticks_a_second() -> int:
    return os.sysconf("SC_CLK_TCK")
