"""weigh_probes: cost models of a model's chosen probes, of the sweep, and of as much of it. Needs no ranks."""

from collections.abc import Callable
from typing import Any

import polars as pl

from overlayccl_core.configuration.settings import Settings
from overlayccl_core.probes.asked.chooser import TurnOutcome
from overlayccl_core.probes.asked.fit_quality import ProbeSource, arms, timed_of
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.probing import ASKED_PROBES, COMPARED_PROBES, PROBE_CALLS, PROBING
from overlayccl_core.tables.remake import snakemake
from overlayccl_core.tables.rule_job import RuleJob

Row = dict[str, Any]


def main(job: RuleJob) -> None:
    """Write the table probing."""
    rows = run(
        Settings.from_part(job.option("settings")),
        job.read_all(ASKED_PROBES),
        job.read_all(PROBE_CALLS),
        job.read(COMPARED_PROBES),
        progress=job.say,
    )
    job.write({PROBING: rows})


def run(
    settings: Settings,
    asked: pl.DataFrame,
    calls: pl.DataFrame,
    compared: pl.DataFrame,
    *,
    progress: Callable[[str], None],
) -> list[Row]:
    """Return the rows of `probing`. asked, calls: `asked_probes` and `probe_calls` of all choosing searches."""
    fingerprint = one_fingerprint({"compared_probes": compared}, f"{snakemake()} --forcerun time_probes")
    programs = compared.unique("program", keep="first", maintain_order=True)
    chosen = {
        search: programs.filter(pl.col("chosen_by").list.contains(search))["program"].to_list()
        for search in asked["search"].unique(maintain_order=True)
    }
    rows = []
    for row in arms(
        timed_of(compared.to_dicts()),
        programs.filter("fixed")["program"].to_list(),
        chosen,
        settings.fit,
        draws=settings.probing.draws,
    ):
        agent = row["arm"] == ProbeSource.AGENT
        rows.append(row | (_of_agent(row["search"], asked, calls) if agent else _OF_OTHERS))
        if row["arm"] != ProbeSource.EQUAL_COST:
            progress(
                f"{row['search'] or row['arm']}: {row['probes']} probes, {row['seconds']:.1f} s, prices "
                f"{row['priced']} of {row['heldout']} held-out Programs"
            )
    of_all = {"fingerprint": fingerprint, "disturbed": bool(compared["disturbed"].any())}
    return [row | of_all for row in rows]


_OF_OTHERS: Row = {"made_by": [], "calls": None, "launches": None, "usd": None, "ended": ""}


def _of_agent(search: str, asked: pl.DataFrame, calls: pl.DataFrame) -> Row:
    """Return the models that answered, their calls, launches and cost, and the end."""
    mine, questions = asked.filter(search=search), calls.filter(search=search)
    known = questions["usd"].null_count() == 0
    return {
        "made_by": questions["made_by"].drop_nulls().unique().sort().to_list(),
        "calls": questions.height,
        "launches": mine.filter(outcome=TurnOutcome.MEASURED.value)["turn"].n_unique(),
        "usd": float(questions["usd"].sum()) if known else None,
        "ended": mine.filter(outcome=TurnOutcome.ENDED.value)["message"][-1],
    }
