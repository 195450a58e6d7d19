"""All tables of a run, and the page docs/tables.md, made from their schemas alone."""

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import polars as pl

from overlayccl_core.tables.ablations import ABLATION_CURVES, ABLATION_PLACES, ABLATIONS
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.beside import BESIDE
from overlayccl_core.tables.calls import CALLS
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.captured import CAPTURED_CALLS
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.choice import CHOICE, VERDICTS
from overlayccl_core.tables.confirmed import CONFIRMED
from overlayccl_core.tables.decompose import PART_ARMS, PART_STAMPS, PART_STEPS, PARTS
from overlayccl_core.tables.deployed import DEPLOYED, SPLITS
from overlayccl_core.tables.drift import DRIFT, DRIFTED_CHOICES, REPROBES
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.known_ways import KNOWN_WAYS
from overlayccl_core.tables.longrun import CURVES, LONG_STAMPS, LONG_STEPS, LOSSES
from overlayccl_core.tables.price_ablations import PRICE_ABLATIONS
from overlayccl_core.tables.prices import PRICES
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.probing import ASKED_PROBES, CHOSEN_PROBES, COMPARED_PROBES, PROBE_CALLS, PROBING
from overlayccl_core.tables.redeploy import REDEPLOYED, REGRET, SOURCE_CHOICES, SOURCE_PRICES, SOURCE_THETA
from overlayccl_core.tables.scopes import SCOPE_ORDERS, SCOPED_ARMS, SCOPES
from overlayccl_core.tables.script_steps import SCRIPT_STEPS
from overlayccl_core.tables.search_ends import SEARCH_ENDS
from overlayccl_core.tables.segments import SEGMENTS
from overlayccl_core.tables.selftest import SELFTEST
from overlayccl_core.tables.shortlist import SHORTLIST
from overlayccl_core.tables.sketches import SKETCHES
from overlayccl_core.tables.step_prices import ARM_PRICES, STEP_FIDELITY, STEP_PRICES
from overlayccl_core.tables.steps import CONFIRMED_STAMPS, CONFIRMED_STEPS, STAMPS, STEPS
from overlayccl_core.tables.summary import SUMMARY
from overlayccl_core.tables.sweep_m import SWEPT_SPLITS, SWEPT_STAMPS, SWEPT_STEPS
from overlayccl_core.tables.sweep_payload import PAYLOAD_TIMES, TIMED_PAYLOADS
from overlayccl_core.tables.table import Column, Table
from overlayccl_core.tables.theta import THETA
from overlayccl_core.tables.timing_columns import TIMING_COLUMNS
from overlayccl_core.tables.trials import TRIALS
from overlayccl_core.tables.tune import TIMED_WAYS, TUNED_CALLS, TUNER_CURVES

TABLES = (
    *(SELFTEST, CAPABILITIES, PROBES, THETA, FIDELITY, BESIDE),
    *(CASES, KNOWN_WAYS, PRICES, CALLS, SKETCHES, CANDIDATES, SEARCH_ENDS),
    *(TRIALS, SEGMENTS, SHORTLIST, BENCH, FINALISTS, STEP_PRICES, PRICE_ABLATIONS),
    *(STEPS, STAMPS, ARM_PRICES, STEP_FIDELITY, VERDICTS, CHOICE),
    *(CONFIRMED, CONFIRMED_STEPS, CONFIRMED_STAMPS, DEPLOYED, SPLITS, SUMMARY),
    *(LONG_STEPS, LONG_STAMPS, LOSSES, CURVES),
    *(ABLATION_CURVES, ABLATION_PLACES, ABLATIONS),
    *(REDEPLOYED, REGRET, SOURCE_PRICES),
    *(ASKED_PROBES, CHOSEN_PROBES, PROBE_CALLS, COMPARED_PROBES, PROBING),
    *(SCOPES, SCOPED_ARMS, SCOPE_ORDERS),
    *(PART_ARMS, PART_STEPS, PART_STAMPS, PARTS),
    *(TIMED_WAYS, TUNER_CURVES, TUNED_CALLS),
    *(TIMED_PAYLOADS, PAYLOAD_TIMES, SWEPT_STEPS, SWEPT_STAMPS, SWEPT_SPLITS),
    *(REPROBES, DRIFT, DRIFTED_CHOICES),
)
"""Of rules, in the order of writing."""
OF_COMMANDS = (CAPTURED_CALLS, SCRIPT_STEPS, SOURCE_CHOICES, SOURCE_THETA)


def tables_with(*names: str) -> tuple[Table, ...]:
    """Return the tables that have all of these columns, none of them nullable."""
    return tuple(
        table for table in TABLES if set(names) <= {one.name for one in table.columns if not one.nullable}
    )


TIMED, TRAINED = tables_with("samples_us"), tables_with("steps_us")  # a row: launch of a Program; of an arm
OF_LAUNCHES = tables_with("launch", "nodes")  # both kinds
OF_PROGRAMS = tables_with("case", "program_json")  # a row: a Program that ran, or is to run


def _place(table: Table) -> str:
    """Return a pattern of a table's path in a tree."""
    folder = table.folder.replace("[", "(?:").replace("]", ")?")
    return re.sub(r"<\w+>", "[^/.]+", folder) + table.name


# The target `redeploy` has tables of the same names in a folder of its own.
PLACES = re.compile(rf"(?:redeploy/)?(?:{'|'.join(map(_place, TABLES))})\.parquet")

SAME_AS = {
    one.name: of for of in (STEPS, STAMPS) for one in TABLES if one != of and one.columns == of.columns
}
TYPES = {pl.String: "text", pl.Int64: "integer", pl.Float64: "number", pl.Boolean: "true or false"}
COMMAND = "overlayccl schema tables > docs/tables.md"
HEAD = f"""# Tables

Made by `{COMMAND}` from the schemas in `overlayccl_core/tables/`: change those, not
this page.

A run leaves Parquet files in `results/<deployment>/` (of a preset: `results/<deployment>-<preset>/`). Each
carries the name and the version of its schema, nothing else. Host, versions, times and the digests of inputs are
in `<table>.sidecar.json` beside it. A column marked `?` may be null.

A row of `bench` or `steps` has empty lists if it failed on the ranks. Its `message` names the file with the
ranks' own messages, in `logs/<rule>-<subject>.failure-<k>/`; k counts the failures of the rule from 0.

`problems/P/chosen.py` is the chosen module: a function of recipes, Programs and the proven library alone. The
rule `confirm` runs it. `deploy/P.py` is the same file if all in it stands. If a rival took the place of a Case,
the file has the rival's Programs there, and `confirm` checks the values of this file, too. If nothing of P is
deployed, there is no file. `deploy/P.json` holds the file's sha256, its rows of `deployed`, and `splits`. In it,
each row of `deployed` has the file's facts on a Case and direction, and under `chosen` all facts on the chosen
Program, with its verdicts. If `deploy/P.py` lost a Case of earlier runs, `deploy/earlier/` keeps the last file
with it.

The target `redeploy` has tables of the same names, from `candidates` to `deployed`, in `redeploy/`.

Any reader of Parquet reads them. [`examples/questions.py`](../examples/questions.py) answers three questions with
polars alone, [`examples/questions.sql`](../examples/questions.sql) the same in SQL, for DuckDB.
"""
TIMINGS = """## Timing columns

Every table of timings has them. A sample is the slowest rank's time of `repeats` back-to-back calls, divided by
`repeats`.
"""


def is_table(below: PurePath) -> bool:
    """Return whether a rule writes this file of a results tree, judged by its path alone."""
    return PLACES.fullmatch(below.as_posix()) is not None


def page() -> str:
    """Return the Markdown of docs/tables.md: the tables, then the common columns of timings."""
    index = "\n".join(f"| [`{t.name}`](#{t.name}) | {t.row} | `{t.rule}` |" for t in (*TABLES, *OF_COMMANDS))
    parts = [
        HEAD,
        f"| table | one row is | written by the rule, or by the command |\n|---|---|---|\n{index}\n",
        *map(_table, (*TABLES, *OF_COMMANDS)),
        f"{TIMINGS}\n{_columns(TIMING_COLUMNS)}",
    ]
    return "\n".join(parts)


def _table(table: Table) -> str:
    where = f"`{table.folder}{table.name}.parquet`, version {table.version}. One row is {table.row}."
    if table.name in SAME_AS:
        other = SAME_AS[table.name].name
        return f"## {table.name}\n\n{where} The columns are those of [`{other}`](#{other}).\n"
    return f"## {table.name}\n\n{where}\n\n{_columns(table.columns)}"


def _columns(columns: tuple[Column, ...]) -> str:
    return "\n".join(["| column | type | meaning |", "|---|---|---|", *_rows(columns)]) + "\n"


def _rows(columns: tuple[Column, ...]) -> Iterator[str]:
    shared: tuple[Column, ...] = ()
    if columns is not TIMING_COLUMNS and set(TIMING_COLUMNS) <= set(columns):
        shared = TIMING_COLUMNS
    for column in columns:
        if column not in shared:
            yield f"| `{column.name}`{'?' if column.nullable else ''} | {_type(column)} | {_meaning(column)} |"
        elif column == TIMING_COLUMNS[0]:
            yield f"| [{len(shared)} timing columns](#timing-columns) | | |"


def _type(column: Column) -> str:
    dtype: Any = column.dtype
    lists = 0
    while isinstance(dtype, pl.List):
        dtype, lists = dtype.inner, lists + 1
    unit = f", {column.unit}" if column.unit else ""
    return "list of " * lists + TYPES[dtype.base_type()] + unit


def _meaning(column: Column) -> str:
    values = ", ".join(f"`{value}`" for value in column.values)
    return "; ".join(filter(None, (values, column.doc))).replace("|", "\\|")
