"""What measured rows tell twice agrees: whoever invents one half has to invent the other with it."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.archiving.findings import Check, Finding, Outcome, guarded
from overlayccl_core.backends import fingerprint
from overlayccl_core.backends.measured import FOREIGN_CPU_LIMIT
from overlayccl_core.measuring.job_status import MEASURED
from overlayccl_core.program.json_form import loads
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.confirmed import CONFIRMED
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.steps import CONFIRMED_STAMPS, CONFIRMED_STEPS, STAMPS, STEPS
from overlayccl_core.tables.table import Table, read
from overlayccl_core.tables.timing_columns import OF_A_LAUNCH

TIMINGS, IN_STEPS, STAMPED = (PROBES, BENCH, CONFIRMED), (STEPS, CONFIRMED_STEPS), (STAMPS, CONFIRMED_STAMPS)
OF_ALL = tuple(column.name for column in OF_A_LAUNCH)
OF_AN_ARM = (
    "matmuls",
    "matmul_digest",
    "collectives",
    "peak_activation_bytes",
)  # its step is always the same
Row = Mapping[str, Any]
Rows = Sequence[Row]
Look = Callable[[Rows], Iterator[str]]


def consistent(tree: Path, machine: str) -> Iterator[Finding]:
    """Of each measured table of a results tree what does not agree first. machine: that measured it."""
    calls = _calls(tree)

    def stamps(rows: Rows) -> Iterator[str]:
        return _stamps(rows, calls, machine)

    looks: dict[Table, tuple[Look, ...]] = {
        FINALISTS: (_programs,),
        **dict.fromkeys(TIMINGS, (_programs, _disturbed, _samples, _launches)),
        **dict.fromkeys(IN_STEPS, (_disturbed, _steps, _launches, _arms)),
        **dict.fromkeys(STAMPED, (stamps,)),
    }
    for table, of in looks.items():
        for file in sorted(tree.rglob(f"{table.name}.parquet")):
            name = file.relative_to(tree).as_posix()
            yield from guarded(Check.CONSISTENT, name, _looked_at(name, table, file, of))


def _looked_at(name: str, table: Table, file: Path, looks: Iterable[Look]) -> Iterator[Finding]:
    rows = list(read(table, file).iter_rows(named=True))
    why = next((why for look in looks for why in look(rows)), "")
    outcome = Outcome.WRONG if why else Outcome.EXACT
    yield Finding(check=Check.CONSISTENT, subject=name, outcome=outcome, message=why)


@lru_cache(maxsize=4096)
def _program(text: str) -> tuple[str, int, int]:
    """Of a JSON form: the digest, all ranks, calls. ValueError: it is none."""
    program = loads(text)
    case = program.problem.case
    return program.digest, case.ranks * case.groups, len(program.calls)


def _programs(rows: Rows) -> Iterator[str]:
    """A Program in its JSON form is the one that its digest names."""
    for row in rows:
        try:
            digest, _, _ = _program(row["program_json"])
        except ValueError as error:
            yield f"{_of(row)}: {error}"
            continue
        if digest != row["program"]:
            yield f"{_of(row)}: program_json is {digest}, program {row['program']}"


def _disturbed(rows: Rows) -> Iterator[str]:
    for row in rows:
        share = row["foreign_cpu_share"]
        if row["disturbed"] != (share is not None and share > FOREIGN_CPU_LIMIT):
            yield (
                f"{_of(row)}: disturbed is {row['disturbed']}, and others took {share} of the CPU, "
                f"where {FOREIGN_CPU_LIMIT} is allowed"
            )


def _samples(rows: Rows) -> Iterator[str]:
    """As many as there are said to be, each the time of a rank; none of what failed."""
    for row in rows:
        samples, ranks = row["samples_us"], row["slowest_rank"]
        if not len(samples) == len(ranks) == row["rounds"]:
            yield f"{_of(row)}: {row['rounds']} rounds, {len(samples)} samples of {len(ranks)} ranks"
        yield from _timed(row, samples)
        _, all_ranks, _ = _program(row["program_json"])
        if not set(ranks) <= set(range(all_ranks)):
            yield f"{_of(row)}: the slowest were ranks {sorted(set(ranks))}, of {all_ranks}"


def _steps(rows: Rows) -> Iterator[str]:
    for row in rows:
        yield from _timed(row, row["steps_us"])


def _timed(row: Row, us: Sequence[float]) -> Iterator[str]:
    if bool(us) != (row.get("status", MEASURED[0]) in MEASURED):
        yield f"{_of(row)}: {row.get('status', MEASURED[0])}, with {len(us)} times"
    if not all(one > 0.0 and math.isfinite(one) for one in us):
        yield f"{_of(row)}: a time of {min(us)} us"


def _launches(rows: Rows) -> Iterator[str]:
    """What holds for a launch holds for all that ran in it; what failed in it has a row of another kind."""
    ran = [row for row in rows if row.get("status", MEASURED[0]) in MEASURED]
    yield from _one(ran, ("model", "launch"), OF_ALL)


def _arms(rows: Rows) -> Iterator[str]:
    yield from _one([row for row in rows if row["steps_us"]], ("model", "microbatches", "arm"), OF_AN_ARM)


def _one(rows: Rows, of: Sequence[str], columns: Sequence[str]) -> Iterator[str]:
    """Rows that are alike in some columns are alike in others."""
    first: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        one = first.setdefault(tuple(row.get(name) for name in of), row)
        for name in columns:
            if row[name] != one[name]:
                yield f"{_of(row)}: {name} is {row[name]}, in another row of the same {of[-1]} {one[name]}"


def _calls(tree: Path) -> dict[str, int]:
    """Program -> how often it calls the library."""
    programs: dict[str, str] = {}
    for file in tree.rglob(f"{FINALISTS.name}.parquet"):
        programs |= dict(pl.read_parquet(file, columns=["program", "program_json"]).iter_rows())
    return {digest: _program(text)[2] for digest, text in programs.items()}


def _stamps(rows: Rows, calls: Mapping[str, int], machine: str) -> Iterator[str]:
    """Each Program made the calls that it has, of the library that the machine has."""
    for row in rows:
        of = calls.get(row["program"])  # of another Program `complete` tells
        if of is not None and row["calls"] != of:
            yield f"{_of(row)}: {row['calls']} calls of {row['program']}, which has {of}"
        for part in row["library_version"].split(", "):
            name, _, version = part.partition(" ")
            here = fingerprint.part(machine, name)
            if here is not None and _release(here) != _release(version):
                yield f"{_of(row)}: {part} ran, on a machine with {name} {here}"


def _release(version: str) -> str:
    """Without the build, which a package's version and a library's own may tell otherwise: `2.13.0+cpu`."""
    return version.partition("+")[0]


def _of(row: Row) -> str:
    names = (
        "probe",
        "case",
        "direction",
        "model",
        "microbatches",
        "arm",
        "candidate",
        "site",
        "launch",
        "purpose",
    )
    return " ".join(str(row[name]) for name in names if row.get(name) is not None)
