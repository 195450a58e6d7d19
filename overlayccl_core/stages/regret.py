"""regret: the choices of another tree beside this run's own, in rounds of one bench that neither was chosen by.

The time of the one over the time of the other is what it costs not to measure one's own cluster. Needs no ranks.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.costmodel.ablation import at_theta_of
from overlayccl_core.costmodel.features import Features, features
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.deployments.floor import Floor
from overlayccl_core.evidence.accuracy import judged_row, of_candidates
from overlayccl_core.evidence.benched import Benched, benched, floor_of, ranked
from overlayccl_core.evidence.predictions import place_of, rows_at
from overlayccl_core.evidence.prices import theta_of
from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.program.case import problem_of
from overlayccl_core.program.problem import Place
from overlayccl_core.program.program import Program
from overlayccl_core.report.regret import lines, page
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.redeploy import REDEPLOYED, REGRET, SOURCE_PRICES, SOURCE_THETA
from overlayccl_core.tables.remake import snakemake
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.shortlist import SHORTLIST
from overlayccl_core.tables.theta import THETA

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RedeployTables:
    """The tables of one Problem in the folder of this target."""

    redeployed: pl.DataFrame
    shortlist: pl.DataFrame
    bench: pl.DataFrame


def main(job: RuleJob) -> None:
    """Write the table regret, and the page."""
    tree = job.option("tree")
    problems = [
        RedeployTables(**{table.name: job.read(table, problem) for table in (REDEPLOYED, SHORTLIST, BENCH)})
        for problem in job.problems
    ]
    floor = floor_of(job.read(PROBES))
    rows = run(tree, problems, floor)
    redeployed = pl.concat(of.redeployed for of in problems)
    source = redeployed.filter(pl.col("tree") != tree)["tree"][0]
    thetas = {tree: job.read(THETA), source: job.read(SOURCE_THETA)}
    prices = priced_by(thetas, job.read(FIDELITY), problems, floor)
    end = (
        pl.DataFrame(rows, schema=REGRET.schema),
        redeployed,
        pl.DataFrame(prices, schema=SOURCE_PRICES.schema),
    )
    for line in lines(tree, *end):
        job.say(line)
    (path,) = job.outputs["page"]
    job.write_text(path, page(tree, *end))
    job.write({REGRET: rows, SOURCE_PRICES: prices})


def run(tree: str, problems: Sequence[RedeployTables], floor: Floor) -> list[Row]:
    """Return the rows of `regret`: of each Case and direction that was benched. tree: this run's own."""
    frames: dict[str | Path, pl.DataFrame] = {f"bench {n}": of.bench for n, of in enumerate(problems)}
    fingerprint = one_fingerprint(frames, f"{snakemake()} --forcerun redeploy_bench")
    return [row | {"fingerprint": fingerprint} for of in problems for row in _of_problem(tree, of, floor)]


def priced_by(
    thetas: Mapping[str, pl.DataFrame],
    fidelity: pl.DataFrame,
    problems: Sequence[RedeployTables],
    floor: Floor,
) -> list[Row]:
    """Return the rows of `source_prices`.

    Args:
        thetas: By tree. What it lacks is priced as `at_theta_of` says.
        fidelity: This run's own: the spread of its predictions serves for all.
    """
    fingerprint = one_fingerprint(
        {f"bench {n}": of.bench for n, of in enumerate(problems)}, f"{snakemake()} --forcerun redeploy_bench"
    )
    places: dict[Place, list[Benched]] = {}
    for of in problems:
        places |= benched(of.shortlist, of.bench, floor)
    rows = []
    for tree, table in thetas.items():
        theta = theta_of(table, fidelity)

        def counted(program: Program, theta: Theta = theta) -> Features:
            return at_theta_of(features(program), theta.values.keys())

        if (judged := of_candidates(places, counted, theta)) is not None:
            figures = judged_row(judged.figures, judged.regrets)
            rows.append({"tree": tree, **figures, "fingerprint": fingerprint})
    return rows


def _of_problem(tree: str, tables: RedeployTables, floor: Floor) -> Iterator[Row]:
    for place, listed in benched(tables.shortlist, tables.bench, floor).items():
        rows = list(rows_at(tables.redeployed, place).iter_rows(named=True))
        own = next((_timed(row, listed) for row in rows if row["tree"] == tree), None)
        for row in rows:
            if row["tree"] != tree:
                yield _row(row, _timed(row, listed), own, listed)


def _timed(row: Row, listed: Iterable[Benched]) -> Benched | None:
    """Return the Program of a row in the bench: itself, or one of the same values; None if it was not timed."""
    if row["program"] is None:
        return None
    alike = [one for one in listed if one.program.value_digest == row["value_digest"] and one.verdict.passed]
    return min(alike, key=lambda one: one.program.digest != row["program"], default=None)


def _row(row: Row, mine: Benched | None, own: Benched | None, listed: Sequence[Benched]) -> Row:
    developer = next((one for one in listed if ArmName.DEVELOPER in one.why), None)
    known = next((one for one in ranked(listed, lossy=False) if one.known), None)
    case, direction = place_of(row)
    return {
        "problem": problem_of(case),
        "case": case,
        "direction": direction,
        "tree": row["tree"],
        "candidate": mine and mine.candidate,
        "way": row["way"],
        "own": own and own.candidate,
        "us": mine and mine.us,
        "own_us": own and own.us,
        **_columns("regret", _over(mine, own)),
        **_columns("speedup", _over(developer, mine)),
        "best_known": known and known.candidate,
        **_columns("over_known", _over(known, mine)),
        "message": "" if mine else _why_not(row, listed),
    }


def _over(one: Benched | None, other: Benched | None) -> Ratio | None:
    """Return the time of one over the time of the other, paired by round."""
    if one is None or other is None or one.timed is None or other.timed is None:
        return None
    return other.timed.speedup_over(one.timed)


def _columns(name: str, ratio: Ratio | None) -> Mapping[str, float | None]:
    low, high = (ratio.low, ratio.high) if ratio else (None, None)
    return {name: ratio.value if ratio else None, f"{name}_low": low, f"{name}_high": high}


def _why_not(row: Row, listed: Iterable[Benched]) -> str:
    failed = (one.verdict.message for one in listed if one.program.digest == row["program"])
    return str(row["message"] or next(failed, "it is not in the shortlist"))
