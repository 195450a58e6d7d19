"""`overlayccl drift`: does what was chosen here still hold?

Print what the last `snakemake drift` found: whether the cost model still holds, and which choices would change.
With --module, time the chosen and the plain calls of a deployed file in one launch instead.
"""

import argparse
import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from overlayccl_core import catalog
from overlayccl_core.backends.measured import Job
from overlayccl_core.cli.context import Context, context
from overlayccl_core.cli.one_strategy import timed_once
from overlayccl_core.cli.render import print_line, print_text, say
from overlayccl_core.cli.try_strategy import DEFAULT_SECONDS
from overlayccl_core.emit.deployed_case import CHOSEN, PLAIN
from overlayccl_core.evidence.drift import holds, kinds_drifted
from overlayccl_core.measuring.statistics import Ratio, ratio_over_launches
from overlayccl_core.program.case import Case
from overlayccl_core.program.problem import Place, Problem
from overlayccl_core.report.blocks import columns_ratio
from overlayccl_core.report.drift import DISTURBED, lines
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.drift import DRIFT, DRIFTED_CHOICES

FOLDER = "drift"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
    parser.add_argument(
        "--module", type=Path, metavar="FILE", help="a deployed file, such as deploy/tp_mlp.py"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=DEFAULT_SECONDS,
        help="time for measuring a module (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Return 0; 1 if theta no longer holds, or a chosen way is slower than the plain calls beyond noise."""
    if not 0 < arguments.seconds < inf:
        raise ValueError(f"--seconds must be a time above 0 (got {arguments.seconds:g})")
    where = context(arguments)
    return _of_module(where, arguments.module, arguments.seconds) if arguments.module else _of_theta(where)


def _of_theta(where: Context) -> int:
    drift = where.table(DRIFT, f"{FOLDER}/{DRIFT.name}")
    choices = where.table(DRIFTED_CHOICES, f"{FOLDER}/{DRIFTED_CHOICES.name}")
    if drift is None or choices is None:
        raise ValueError(f"{where.results}: nobody has asked yet: {where.command(where.root / FOLDER)}")
    for line in lines(drift, choices, where.results):
        print_line(line)
    return int(not holds(kinds_drifted(drift)))


# ------------------------------------------------------------------------------------------------ a deployed file
@dataclass(frozen=True, slots=True, kw_only=True)
class _Module:
    """A deployed file: its source, its Problem and the ids of its Cases. It is read, not run."""

    source: str
    problem: str
    cases: tuple[str, ...]

    @classmethod
    def read(cls, file: Path) -> "_Module":
        """ValueError if it is no deployed file."""
        try:
            source = file.read_text()
            assigned = {
                target.id: one.value
                for one in ast.parse(source).body
                if isinstance(one, ast.Assign)
                for target in one.targets
                if isinstance(target, ast.Name)
            }
            problem, entries = ast.literal_eval(assigned["PROBLEM"]), assigned["ENTRIES"]
            keys = entries.keys if isinstance(entries, ast.Dict) else []
            cases = tuple(ast.literal_eval(key) for key in keys if key)
        except (OSError, SyntaxError, ValueError, KeyError) as error:
            raise ValueError(f"{file}: no deployed file ({type(error).__name__}: {error})") from None
        return cls(source=source, problem=problem, cases=cases)


def _of_module(where: Context, file: Path, seconds: float) -> int:
    module = _Module.read(file)
    known = {case.id: case for case in _cases(where, module.problem)}
    here = [known[one] for one in module.cases if one in known]
    if not here:
        raise ValueError(
            f"{file}: none of its Cases is of {where.results} or of the configuration: it has "
            f"{', '.join(module.cases)}. Name the deployment that it was chosen on, --deployment NAME"
        )
    problems = [problem for case in here for problem in catalog.directions(case)]
    timed = _timed(where, module, problems, seconds)
    then = _gains_then(file.with_suffix(".json"))
    for place, ratio in timed.items():
        was = then.get(place)
        print_text(
            f"{' '.join(place)}: chosen is {ratio} times as fast as the plain calls: {ratio.word}"
            + (f" (when it was chosen {was})" if was else "")
        )
    if len(here) < len(module.cases):
        print_line(f"left out, of another configuration: {', '.join(set(module.cases) - known.keys())}")
    return int(any(ratio.slower for ratio in timed.values()))


def _cases(where: Context, problem: str) -> list[Case]:
    """Return the Cases of the run; before there is one, those of the configuration."""
    rows = where.table(CASES, f"problems/{problem}/{CASES.name}")
    if rows is None:
        return where.cases(problem)
    return [catalog.case_from_row(row) for row in rows.iter_rows(named=True)]


def _timed(where: Context, module: _Module, problems: list[Problem], seconds: float) -> dict[Place, Ratio]:
    """Return the plain calls' time over the chosen way's, by Case and direction. Silent directions are left out."""
    programs = {
        problem.place: program
        for problem in problems
        if (program := catalog.developer_program(problem)).collectives
    }
    key = {(place, way): f"{' '.join(place)} {way}" for place in programs for way in (CHOSEN, PLAIN)}
    jobs = [
        Job(key=name, program=programs[place], source=module.source, deployed=True, way=way)
        for (place, way), name in key.items()
    ]
    timed = {one.key: one for one in timed_once(jobs, where.deployment, seconds, where.results, say)}
    if any(one.disturbed for one in timed.values()):
        say(DISTURBED)
    samples = {of: {0: timed[name].samples_us} for of, name in key.items()}
    ratios = {place: ratio_over_launches(samples[place, PLAIN], samples[place, CHOSEN]) for place in programs}
    return {place: ratio for place, ratio in ratios.items() if ratio}


def _gains_then(record: Path) -> dict[Place, Ratio]:
    """Return the gains over the developer's calls in the record beside a deployed file; none without one."""
    if not record.is_file():
        return {}
    rows: list[dict[str, Any]] = json.loads(record.read_text())["deployed"]
    return dict(_gains(rows))


def _gains(rows: list[dict[str, Any]]) -> Iterator[tuple[Place, Ratio]]:
    for row in rows:
        if row["in_file"] and (ratio := columns_ratio(row["chosen"], "speedup")):
            yield (row["case"], row["direction"]), ratio
