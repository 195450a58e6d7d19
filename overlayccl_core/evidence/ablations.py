"""Searches side by side: the cheapest price found by each after a number of evaluations.

An evaluation is a proposal that became a Program with a price: a new one, priced even if infeasible or unproven,
or a known one with its old price. Both count, since a search spends a proposal on each; the number of new ones is
kept beside. A proposal without a Program asks nothing of the cost model. Initial strategies, and tries of the
loop under other labels, count for every search alike.
"""

from typing import Any

import numpy as np
import polars as pl

from overlayccl_core.configuration.searches import file_and_seed
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.measuring.statistics import over_seeds
from overlayccl_core.program.case import problem_of
from overlayccl_core.program.numerics import NumericsClass
from overlayccl_core.search.candidate import Origin
from overlayccl_core.search.proposal import EVALUATED, PRICED

PLACE = ("case", "direction")
AT = ("search", *PLACE)
ARM = ("arm", "seed")
MEAN = pl.col("relative").log().mean().exp()  # of ratios: geometric
NOBODY = "nobody"  # model name of a search whose questions all failed
NEAR = 1.05  # of `relative`: as good as the best
POINTS = 60  # of a curve, spaced geometrically


def curve_rows(sketches: pl.DataFrame, candidates: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of `ablation_curves`, without the fingerprint; sketches, candidates: of all searches.

    A Program's price is that of its value_digest in `candidates`, the cheapest of several schedules. A search
    by way of a smaller Case also makes evaluations there; prices are of the Case itself.
    """
    prices = chosen_from(candidates).group_by(*AT, "value_digest").agg(us=pl.col("predicted_us").min())
    found = (
        sketches.filter(pl.col("outcome").is_in([str(one) for one in EVALUATED]))
        .sort(*AT, "number")
        .join(prices, on=[*AT, "value_digest"], how="left", maintain_order="left")
        .with_columns(
            evaluations=pl.int_range(1, pl.len() + 1).over(AT),
            priced=pl.col("outcome").is_in([str(one) for one in PRICED]).cast(pl.Int64).cum_sum().over(AT),
            best_us=pl.col("us").cum_min().forward_fill().over(AT),
        )
        .filter(pl.col("best_us").is_not_null())
    )
    before = pl.col("best_us").shift(1).over(AT)
    last = pl.col("number") == pl.col("number").max().over(AT)
    falls = before.is_null() | (pl.col("best_us") < before)
    return (
        _with_arm(found.filter(falls | last))
        .with_columns(
            problem=pl.col("case").map_elements(problem_of, return_dtype=pl.String),
            relative=pl.col("best_us") / pl.col("best_us").min().over(PLACE),
        )
        .select(*ARM, "problem", *PLACE, "evaluations", "priced", "best_us", "relative")
        .sort(*ARM, *PLACE, "evaluations")
    )


def place_rows(curves: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of `ablation_places`, without the fingerprint. curves: rows of `ablation_curves`."""
    last, first = pl.col("best_us").last(), pl.col("best_us").first()
    return curves.group_by(*ARM, "problem", *PLACE, maintain_order=True).agg(
        pl.col("evaluations", "relative").last(),
        found=last < first,
        near_after=pl.col("evaluations").filter(pl.col("relative") <= NEAR).first(),
    )


def arm_rows(
    curves: pl.DataFrame, candidates: pl.DataFrame, calls: pl.DataFrame, seconds: pl.DataFrame
) -> pl.DataFrame:
    """Return the rows of `ablations`, without the fingerprint.

    Args:
        curves: Rows of `ablation_curves`.
        calls: `search`, `made_by` and `usd` of every question to a language model.
        seconds: `search` and `seconds` of every job.
    """
    ends = curves.group_by(*ARM, *PLACE).agg(pl.col("evaluations", "priced").max(), pl.col("relative").last())
    equal = ends.group_by(PLACE).agg(evaluations=pl.col("evaluations").min())
    families = (
        _with_arm(chosen_from(candidates)).unique([*ARM, *PLACE, "family"]).group_by(ARM).len("families")
    )
    asked = (
        _with_arm(calls)
        .group_by(ARM)
        .agg(
            made_by=pl.when(pl.col("made_by").is_not_null().any())
            .then(pl.col("made_by").drop_nulls().unique().sort().implode())
            .otherwise(pl.lit([NOBODY])),
            usd=pl.when(pl.col("usd").null_count() == 0).then(pl.col("usd").sum()),
        )
    )
    return (
        ends.group_by(ARM)
        .agg(
            places=pl.len().cast(pl.Int64),
            evaluations=pl.col("evaluations").sum(),
            priced=pl.col("priced").sum(),
            relative=MEAN,
        )
        .join(standing_at(curves, equal).group_by(ARM).agg(relative_at_equal=MEAN), on=ARM)
        .join(families, on=ARM)
        .join(asked, on=ARM, how="left")
        .join(
            _with_arm(seconds)
            .group_by(ARM)
            .agg(seconds=pl.when(pl.col("seconds").null_count() == 0).then(pl.col("seconds").sum())),
            on=ARM,
            how="left",
        )
        .with_columns(pl.col("families").cast(pl.Int64), pl.col("made_by").fill_null([]))
        .select(
            *ARM, "places", "evaluations", "priced", "families",
            "relative", "relative_at_equal", "made_by", "usd", "seconds",
        )
        .sort(ARM)
    )  # fmt: skip


def chosen_from(candidates: pl.DataFrame) -> pl.DataFrame:
    """Return the eligible candidates of each search.

    They have a price, so they can run here, and no failed proof. Lossy ones count only where the developer's own is
    lossy: the option to invent them gives a search no advantage.
    """
    lossy = pl.col("family").str.split(", ").list.contains(NumericsClass.LOSSY.value)
    plain = pl.col("origin") == Origin.DEVELOPER.value
    return candidates.with_columns(lossy=lossy).filter(
        pl.col("predicted_us").is_not_null(),
        pl.col("equivalence").is_null() | (pl.col("equivalence") == Outcome.PASS.value),
        ~pl.col("lossy") | (plain & pl.col("lossy")).any().over(AT),
    )


def standing_at(curves: pl.DataFrame, at: pl.DataFrame) -> pl.DataFrame:
    """Return the progress of each search after numbers of evaluations (`at`: of each place, also several of one).

    Columns of ARM and PLACE, `evaluations`, `relative`. An ended search keeps its last value; one without a
    priced find has no row yet.
    """
    found = curves.select(*ARM, *PLACE, "evaluations", "relative").sort("evaluations")
    asked = curves.select(ARM).unique(maintain_order=True).join(at, how="cross").sort("evaluations")
    return asked.join_asof(found, on="evaluations", by=[*ARM, *PLACE], check_sortedness=False).drop_nulls()


def mean_curves(curves: pl.DataFrame) -> list[dict[str, Any]]:
    """Return rows for a figure: `arm`, `evaluations` (of each place), `value`, `low`, `high` (None below 5 seeds).

    Values are medians over seeds, with intervals, of the geometric mean of `relative` over places. All curves begin
    at the first count with a find in every search and place; each ends at the last evaluation of its arm.
    """
    first = int(curves.group_by(*ARM, *PLACE).agg(pl.col("evaluations").min())["evaluations"].max())  # type: ignore[arg-type]
    last = int(curves["evaluations"].max())  # type: ignore[arg-type]
    grid = np.unique(np.geomspace(first, last, POINTS).round().astype(int))
    at = (
        curves.select(PLACE)
        .unique(maintain_order=True)
        .join(pl.DataFrame({"evaluations": grid}), how="cross")
    )
    ends = {arm: end for arm, end in curves.group_by("arm").agg(pl.col("evaluations").max()).iter_rows()}
    means = standing_at(curves, at).group_by(*ARM, "evaluations").agg(relative=MEAN)
    rows = []
    for arm, evaluations, each in (
        means.group_by("arm", "evaluations").agg("relative").sort("arm", "evaluations").iter_rows()
    ):
        ratio = over_seeds(each)
        if evaluations <= ends[arm]:
            of = {"value": ratio.value, "low": ratio.low, "high": ratio.high}
            rows.append({"arm": arm, "evaluations": evaluations, **of})
    return rows


def _with_arm(rows: pl.DataFrame) -> pl.DataFrame:
    """Replace column `search` by `arm` and `seed`. ValueError for a search without a seed in its name."""
    named = [(search, *file_and_seed(search)) for search in rows["search"].unique().sort()]
    for search, _, seed in named:
        if seed is None:
            raise ValueError(f"search {search}: its name must tell its seed, as in {search}@0")
    schema = {"search": pl.String, "arm": pl.String, "seed": pl.Int64}
    return rows.join(pl.DataFrame(named, schema=schema, orient="row"), on="search", maintain_order="left")
