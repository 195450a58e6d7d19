"""python -m benchmarks sweep: every known way of every Problem, at every example and number of ranks, proven.

Rows go to a table (CSV); what is in it is not proven again, so a sweep may be done in pieces.
"""

import argparse
import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.examples import NODES, PROBLEMS, example
from benchmarks.proof import TARGET_MIB, TARGET_S, proofs_at
from overlayccl_core import catalog

TABLE = Path("results/sweep.csv")
Row = dict[str, str]
COLUMNS = (
    *("problem", "example", "ranks", "case", "direction", "strategy", "outcome", "reason", "message"),
    *("seconds", "before_s", "mib", "loop_ms", "atoms", "method", "numerics"),
)


def options() -> argparse.ArgumentParser:
    """What may be asked for on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks sweep", description=__doc__)
    parser.add_argument("--problems", nargs="*", default=PROBLEMS, choices=PROBLEMS, metavar="PROBLEM")
    parser.add_argument("--ranks", nargs="*", type=int, default=list(NODES), choices=list(NODES), metavar="N")
    parser.add_argument("--table", type=Path, default=TABLE, help=f"{TABLE} by default")
    return parser


def report(asked: argparse.Namespace) -> list[str]:
    """Prove what was asked for and is not in the table; return the summary of the table."""
    sweep(asked.problems, asked.ranks, asked.table)
    return summary(_read(asked.table))


def sweep(problems: Iterable[str], sizes: Iterable[int], table: Path) -> None:
    """Add to the table what is missing of these Problems and numbers of ranks."""
    done = {(row["problem"], row["example"], int(row["ranks"])) for row in _read(table)}
    table.parent.mkdir(parents=True, exist_ok=True)
    new = not table.exists()
    with table.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if new:
            writer.writeheader()
        for ranks in sizes:
            for problem in problems:
                for name in catalog.plug_in(problem).examples(ranks):
                    if (problem, name, ranks) not in done:
                        writer.writerows(list(_rows(problem, name, ranks)))
                        file.flush()


def _rows(problem: str, name: str, ranks: int) -> Iterator[Row]:
    """Small examples in float32, the others in bfloat16."""
    head = {"problem": problem, "example": name, "ranks": str(ranks)}
    try:
        case = example(
            problem, name, ranks=ranks, dtype="float32" if name.startswith("small") else "bfloat16"
        )
    except ValueError as error:
        yield head | dict.fromkeys(COLUMNS[3:], "") | {"outcome": "no Case", "message": str(error)}
        return
    for proof in proofs_at(case):
        verdict, evidence = proof.verdict, dict(proof.verdict.evidence)
        yield head | {
            "case": proof.case,
            "direction": proof.direction,
            "strategy": proof.strategy,
            "outcome": verdict.outcome.value,
            "reason": verdict.reason.value,
            "message": verdict.message,
            "seconds": f"{proof.seconds:.3f}",
            "before_s": f"{proof.before_s:.3f}",
            "mib": f"{proof.mib:.0f}",
            "loop_ms": f"{proof.loop_ms:.1f}",
            **{key: str(evidence.get(key, "")) for key in ("atoms", "method", "numerics")},
        }


def _read(table: Path) -> list[Row]:
    if not table.exists():
        return []
    with table.open(newline="") as file:
        return list(csv.DictReader(file))


def summary(rows: list[Row]) -> list[str]:
    """Of each Problem: how many were proven, the worst time and memory; then all that is not proven, and why."""
    lines = [f"{'problem':<16}{'proven':>8}{'n/a':>6}{'other':>7}{'worst s':>9}{'worst MiB':>11}   at"]
    for problem in dict.fromkeys(row["problem"] for row in rows):
        here = [row for row in rows if row["problem"] == problem and row["seconds"]]
        outcomes = [row["outcome"] for row in here]
        proven, without = outcomes.count("pass"), outcomes.count("not_applicable")
        slow, large = (max(here, key=lambda row: float(row[by])) for by in ("seconds", "mib"))
        lines.append(
            f"{problem:<16}{proven:>8}{without:>6}{len(here) - proven - without:>7}{float(slow['seconds']):>9.2f}"
            f"{large['mib']:>11}   {slow['case']} {slow['direction']} {slow['strategy']}"
        )
    over = [
        r for r in rows if r["seconds"] and (float(r["seconds"]) > TARGET_S or float(r["mib"]) > TARGET_MIB)
    ]
    lines.append(f"over {TARGET_S:.0f} s or {TARGET_MIB:.0f} MiB: {len(over)}")
    lines += [f"  {r['seconds']} s, {r['mib']} MiB: {_name(r)} ({r['outcome']})" for r in over]
    why: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row["outcome"] != "pass":
            why.setdefault((row["outcome"], row["message"]), []).append(row)
    lines += [
        f"{outcome}: {message} ({len(of)}, such as {_name(of[0])})" for (outcome, message), of in why.items()
    ]
    loops = sorted(float(row["loop_ms"]) for row in rows if row["loop_ms"])
    if loops:
        lines.append(
            f"a fixed loop took {loops[0]:.0f} to {loops[-1]:.0f} ms, {loops[len(loops) // 2]:.0f} mostly"
        )
    return lines


def _name(row: Row) -> str:
    where = row["case"] or f"{row['problem']} {row['example']} on {row['ranks']} ranks"
    return f"{where} {row['direction']} {row['strategy']}"
