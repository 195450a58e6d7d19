"""Schedules of others, proven and run; then each with a mistake in it: `python -m benchmarks schedules FOLDER`.

FOLDER has files of MSCCL (.xml) and MSCCL++ (.json). Published ones: tools/msccl-algorithms of ROCm/rccl and of
Azure/msccl-scheduler, src/tools/msccl-algorithms of Azure/msccl-executor-nccl, test/executor-tests/execution-plans
of microsoft/mscclpp.

The simulated machine of tests/schedules runs each in several random orders. It shares no code with the reader. A
mistake must be caught, by reader or proof, or the machine must find the result right in every order: then it was
none. A schedule that is proven and goes wrong on the machine is a fault of ours, and the exit code is 1.
"""

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import process_time

from benchmarks.alone import alone
from benchmarks.mutants import MISTAKES, mutated
from overlayccl_core import catalog
from overlayccl_core.gates import equivalence
from overlayccl_core.gates.verdict import Verdict
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.schedules.reading import read
from overlayccl_core.schedules.schedule import Schedule, entry, program
from tests.schedules.machine import Fault, run

RIGHT = "right"
LONGER = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What reader and proof say: `stage` is proven, or where it was caught."""

    stage: str
    message: str
    seconds: float

    @property
    def proven(self) -> bool:
        """Nothing was caught."""
        return self.stage == "proven"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A schedule with a mistake, and what came of it. `machine` is RIGHT, or the first fault in words."""

    file: str
    kind: str
    mistake: str
    judgement: Judgement
    machine: str

    @property
    def cell(self) -> tuple[bool, bool]:
        """(proven, right on the machine)."""
        return self.judgement.proven, self.machine == RIGHT


def options() -> argparse.ArgumentParser:
    """What may be asked for on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks schedules", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="schedules: *.xml, *.json")
    parser.add_argument("--mutants", type=int, default=200, help="schedules with a mistake (default: 200)")
    parser.add_argument("--seed", type=int, default=0, help="of the mistakes (default: 0)")
    parser.add_argument("--orders", type=int, default=8, help="in which the machine runs each (default: 8)")
    return parser


def report(asked: argparse.Namespace) -> Iterator[str]:
    """A line for each file, then those of the mistakes."""
    files = sorted(file for ending in ("*.xml", "*.json") for file in asked.folder.glob(ending))
    if not files:
        sys.exit(f"no *.xml and no *.json in {asked.folder}: name a folder with schedules")
    texts = {file.name: file.read_text() for file in files}
    yield (
        f"{'file':<48}{'collective':>14}{'ranks':>6}{'steps':>7}{'seconds':>9}{'MiB':>6}"
        f"  verdict; machine, {asked.orders} orders"
    )
    faults, proven = 0, {}
    for name, text in texts.items():
        judgement, mib = alone(judged, text)
        machine = ran(text, asked.orders)
        faults += judgement.proven and machine != RIGHT
        if judgement.proven:
            proven[name] = text
        collective, ranks, steps = facts(text)
        said = judgement.stage if judgement.proven else f"{judgement.stage}: {judgement.message}"
        figures = f"{collective:>14}{ranks:>6}{steps:>7}{judgement.seconds:>9.2f}{mib:>6.0f}"
        yield f"{name:<48}{figures}  {said}; {machine}"
    yield ""
    made = []
    for mutant in mutants(proven, asked.mutants, asked.seed, asked.orders):
        made.append(mutant)
        if mutant.cell != (False, False):
            yield odd(mutant)
    yield ""
    yield from matrix(made)
    faults += sum(mutant.cell == (True, False) for mutant in made)
    if faults:
        yield ""
        sys.exit(f"{faults} proven, and wrong on the machine")


def judged(text: str) -> Judgement:
    """Read, then proven equal to the collective's definition, once for each use that the file is for."""
    begin = process_time()
    try:
        verdicts = [_proved(schedule) for schedule in read(text)]
    except (ValueError, Rejected) as error:
        return Judgement(stage=_stage(str(error)), message=str(error), seconds=process_time() - begin)
    failed = [verdict for verdict in verdicts if not verdict.passed]
    stage, message = ("proof", failed[0].message) if failed else ("proven", "")
    return Judgement(stage=stage, message=message, seconds=process_time() - begin)


def _proved(schedule: Schedule) -> Verdict:
    """At one element a chunk: of more, each moves alike."""
    name, fields = entry(schedule, schedule.chunks)
    case = catalog.case(name, fields, ranks=schedule.ranks, ranks_per_node=schedule.ranks)
    problem = catalog.build(case)
    return equivalence.prove(program(schedule, problem), catalog.reference_program(problem))


def ran(text: str, orders: int) -> str:
    """RIGHT, or what the machine found first, with its kind and how many orders went before."""
    for seed in range(orders):
        try:
            run(text, seed=seed)
        except Fault as fault:
            return f"{type(fault).__name__.lower()} in order {seed}: {fault}"
    return RIGHT


def mutants(texts: dict[str, str], count: int, seed: int, orders: int) -> Iterator[Mutant]:
    """As many of each kind, over proven schedules at random: what was refuted before has nothing to lose."""
    for number in range(count if texts else 0):
        random, kind = Random(f"{seed}/{number}"), list(MISTAKES)[number % len(MISTAKES)]
        for name in random.sample(list(texts), len(texts)):
            found = mutated(texts[name], kind, random)
            if found is not None:
                yield judged_and_run(name, kind, *found, orders)
                break


def judged_and_run(file: str, kind: str, text: str, mistake: str, orders: int) -> Mutant:
    """A mistake that is caught runs in more orders, until the machine finds it, too: one of eight shows a race."""
    judgement = alone(judged, text)[0]
    machine = ran(text, orders if judgement.proven else LONGER * orders)
    return Mutant(file=file, kind=kind, mistake=mistake, judgement=judgement, machine=machine)


def odd(mutant: Mutant) -> str:
    """A mutant that is not both caught and wrong, in a line."""
    word = {
        (True, False): "PROVEN, AND WRONG ON THE MACHINE",
        (True, True): "proven, and right on the machine",
        (False, True): "caught, and right on the machine",
    }[mutant.cell]
    caught = "" if mutant.judgement.proven else f"; {mutant.judgement.stage}: {mutant.judgement.message}"
    machine = "" if mutant.machine == RIGHT else f"; machine: {mutant.machine}"
    return f"{word}: {mutant.file}, {mutant.mistake}{caught}{machine}"


def matrix(made: list[Mutant]) -> Iterator[str]:
    """By kind of mistake: what reader and proof say, and what the machine does."""
    cells = defaultdict[str, Counter[tuple[bool, bool]]](Counter)
    stages = defaultdict[str, Counter[str]](Counter)
    for mutant in made:
        for row in (mutant.kind, "all"):
            cells[row][mutant.cell] += 1
            stages[row][mutant.judgement.stage] += 1
    yield f"{'':<20}{'':>8}{'caught,':>10}{'caught,':>10}{'proven,':>10}{'PROVEN,':>10}"
    yield f"{'mistake':<20}{'mutants':>8}{'wrong':>10}{'right':>10}{'right':>10}{'WRONG':>10}  caught by"
    for row, counted in cells.items():
        order = ((False, False), (False, True), (True, True), (True, False))
        figures = "".join(f"{counted[cell]:>10}" for cell in order)
        by = ", ".join(
            f"{stage} {times}" for stage, times in sorted(stages[row].items()) if stage != "proven"
        )
        yield f"{row:<20}{counted.total():>8}{figures}  {by}"


def facts(text: str) -> tuple[str, int, int]:
    """(collective, ranks, steps), as the file says."""
    if text.lstrip()[:1] == "{":
        plan = json.loads(text)
        return plan["collective"], len(plan["gpus"]), text.count('"name"') - 1
    collective = re.search(r'coll="(\w*)"', text)
    return (
        collective[1] if collective else "?",
        len(re.findall(r"<gpu\b", text)),
        len(re.findall(r"<step\b", text)),
    )


def _stage(message: str) -> str:
    """Deadlock or race, by the word for it in the reader's message; else the file itself is refused."""
    lowered = message.lower()
    if "deadlock" in lowered or "cycle" in lowered:
        return "deadlock"
    return "race" if "race" in lowered or "unordered" in lowered else "read"
