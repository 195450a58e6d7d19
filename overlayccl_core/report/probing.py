"""The page of the target `probing`: cost models fitted to probes of a language model's choice, and to the sweep."""

from collections.abc import Iterator

import polars as pl

from overlayccl_core.measuring.figures import figures
from overlayccl_core.probes.asked.fit_quality import ProbeSource
from overlayccl_core.report.ablations import label
from overlayccl_core.report.blocks import (
    NOTHING,
    Block,
    PageSection,
    TableBlock,
    Text,
    count,
    page_sources,
    percent,
    scripted,
    table_of,
    with_sources,
)
from overlayccl_core.report.rendering import page_of
from overlayccl_core.tables.probing import PROBING

LEAD = (
    "Probes that a language model chose, beside the sweep: how right a cost model is that is fitted to them."
)


def page(rows: pl.DataFrame, name: str) -> str:
    """Return the HTML. rows: the table `probing`; name: of the run."""
    section = PageSection(
        anchor="probes",
        title="Cost models by their probes",
        blocks=with_sources(page_sources(PROBING), _blocks(rows)),
    )
    about = f"{rows['heldout'][0]} held-out Programs judge."
    return page_of(name, about, LEAD, section)


def _blocks(rows: pl.DataFrame) -> Iterator[Block]:
    repeat = percent(rows["repeat_rel_error"][0])
    yield Text(
        text=(
            "All Programs were timed in one launch, which chose nothing. A cost model is fitted to the probes of "
            "each row alone, and predicts Programs that are in no fit. The error is |ln(predicted / measured)|, "
            "over all of them: one without a price is farther off than any other. Seconds are those of samples; "
            "starting ranks for each turn of a conversation is not in them. A dash: too many have no price. A "
            f"measured time itself is wrong by {repeat} (half of what even and odd rounds differ by)."
        )
    )
    if rows["disturbed"].any():
        yield Text(text="Others used the machine while it was measured: run it again alone.", tone="warning")
    yield from scripted(who for made_by in rows["made_by"] for who in made_by)
    yield _table(rows)
    for row in rows.filter(arm=ProbeSource.AGENT.value).iter_rows(named=True):
        usd = "" if row["usd"] is None else f", {row['usd']:.2f} USD"
        yield Text(
            text=f"{label(row['search'], row['made_by'])}: {count(row['calls'], 'question')}, "
            f"{count(row['launches'], 'launch', 'launches')}{usd}; {row['ended']}."
        )


def _table(rows: pl.DataFrame) -> TableBlock:
    return table_of(
        "Each choice of probes (random parts of the sweep: the median of the draws, least..largest)",
        rows.partition_by("arm", "search", maintain_order=True),
        {
            "probes chosen by": _chosen_by,
            "probes": lambda here: _over(here["probes"]),
            "seconds": lambda here: _over(here["seconds"]),
            "coefficients without a value": lambda here: f"{_over(here['missing'])} of {here['columns'][0]}",
            "Programs with a price": lambda here: f"{_over(here['priced'])} of {here['heldout'][0]}",
            "median error": lambda here: _over(here["median_log_error"]),
            "error of nine in ten": lambda here: _over(here["p90_log_error"]),
            "rank correlation": lambda here: _over(here["spearman"]),
        },
        numeric=frozenset(range(1, 8)),
    )


def _chosen_by(here: pl.DataFrame) -> str:
    arm, search = here["arm"][0], here["search"][0]
    if arm == ProbeSource.FIXED:
        return "the sweep, all of it"
    if arm == ProbeSource.EQUAL_COST:
        return f"the sweep, parts of the seconds of {search}"
    return label(search, here["made_by"][0])


def _over(values: pl.Series) -> str:
    """Format `0.0712`; of several the (lower) median and the ends, with unknown values last."""
    found = [NOTHING if one is None else figures(one) for one in values.sort(nulls_last=True)]
    middle = found[(len(found) - 1) // 2]
    return middle if len(found) == 1 else f"{middle} ({found[0]}..{found[-1]})"
