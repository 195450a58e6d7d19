"""HLO texts for tests, written by hand, and their proofs."""

from overlayccl_core import catalog
from overlayccl_core.gates.equivalence import prove
from overlayccl_core.gates.verdict import Verdict
from overlayccl_core.program.problem import Problem
from overlayccl_core.schedules.hlo import program_of

SUM = """%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add.0 = f32[] add(f32[] %a, f32[] %b)
}
"""
MAX = SUM.replace("%sum", "%max").replace("%add.0", "%larger").replace(" add(", " maximum(")
ALL = "channel_id=1, replica_groups=[1,4]<=[4], use_global_device_ids=true"


def module(entry: str, *others: str, ranks: int = 4, more: str = "") -> str:
    """The text of a module with this body of its entry, for so many partitions."""
    lines = "\n".join(f"  {line.strip()}" for line in entry.strip().splitlines())
    below = "\n".join(others)
    head = f"HloModule written, is_scheduled=true, num_partitions={ranks}{more}"
    return f"{head}\n\n{below}\nENTRY %main {{\n{lines}\n}}\n"


def captured(*calls: tuple[str, int], ranks: int = 4) -> Problem:
    """The Problem of these calls, (kind, elements) each."""
    entry = {"calls": [{"kind": kind, "elements": elements} for kind, elements in calls]}
    return catalog.build(catalog.case("captured", entry, ranks=ranks, ranks_per_node=ranks))


def verdict(text: str, problem: Problem) -> Verdict:
    """Of a module against the calls of a script."""
    return prove(program_of(text, problem), catalog.reference_program(problem))


def summed(size: int, ranks: int = 4) -> Problem:
    """One all_reduce."""
    return captured(("all_reduce_sum", size), ranks=ranks)
