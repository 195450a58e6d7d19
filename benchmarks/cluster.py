"""Search at the size of a cluster: what each Problem takes from its Case to its shortlist, and what it finds.

`python -m benchmarks cluster [--problems NAME ...] [--ranks N ...] [--model NAME]`: the functions of the stages
known ways, price, search and shortlist, each Problem at its training shapes, or each Case of a model, in a process
of its own, with all ranks alike as on trn1. Seconds are of its one thread, so that others on the machine do not
count. Capabilities and theta are MADE UP from published figures (benchmarks/made_up.py): prices say what a search
has to tell apart, no cluster's times.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from benchmarks import made_up
from benchmarks.alone import alone
from benchmarks.examples import NODES, PROBLEMS, RANKS, example
from overlayccl_core.asking.allowance import Allowance
from overlayccl_core.backends.torchxla.backend import emit
from overlayccl_core.configuration import models, searches, settings, topology
from overlayccl_core.configuration.cases import cases_of_model
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.searches import Search
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program.case import Case
from overlayccl_core.stages import cases as cases_
from overlayccl_core.stages import known_ways, price, search, shortlist
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.known_ways import KNOWN_WAYS
from overlayccl_core.tables.prices import PRICES
from overlayccl_core.tables.rows import frame_of
from overlayccl_core.tables.table import Rows, Table
from overlayccl_core.tables.theta import THETA

TOPOLOGY = "trn1.32xlarge"
LIMIT_S, LIMIT_GIB = 600.0, 4.0  # of all Problems together, on 2 cores
WIDTH = 16  # of a name's column; a longer one has a line of its own
STAGES = ("known_ways", "price", "search", "shortlist")
HEAD = (
    f"{'problem':<{WIDTH}}{'seconds':>8}{'GiB':>6}{'proven':>9}{'programs':>10}{'families':>9}{'listed':>7}"
    f"{'found us':>11}{'way us':>11}  direction: why it ended"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """One Case and direction. us: the cheapest that is proven, of all and of the strategies; None: none is."""

    direction: str
    proven: int
    ways: int
    programs: int
    families: int
    listed: int
    found_us: float | None
    known_us: float | None
    ending: str


def options() -> argparse.ArgumentParser:
    """What may be asked for on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks cluster", description=__doc__)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=PROBLEMS)
    parser.add_argument(
        "--ranks",
        nargs="+",
        type=int,
        choices=[n for n, nodes in NODES.items() if n == 32 * nodes],
        default=[RANKS],
    )
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--example", default="train", help="of the Problem (default: train)")
    sizes.add_argument("--model", help="a file in config/models: its Cases, in place of an example")
    return parser


def report(asked: argparse.Namespace) -> Iterator[str]:
    """Lines of text: a row for each Problem and direction, and the sums."""
    yield f"theta and capabilities {made_up.fingerprint(topology.load(TOPOLOGY))}"
    for ranks in asked.ranks:
        of = f"model {asked.model}" if asked.model else f"example {asked.example}, bfloat16"
        yield f"{ranks} ranks, {NODES[ranks]} nodes, {of}"
        yield HEAD
        seconds, gib, begun = 0.0, 0.0, time.monotonic()
        for name, case in asked_cases(asked, ranks):
            (rows, took), mib = alone(searched, case)
            seconds, gib = seconds + sum(took.values()), max(gib, mib / 1024)
            yield from lines(name, rows, took, mib / 1024)
        clock = time.monotonic() - begun
        yield (
            f"{'all':<{WIDTH}}{seconds:>8.1f}{gib:>6.2f}  one after another, {clock:.0f} s by the "
            f"clock; the limit is {LIMIT_S:.0f} s and {LIMIT_GIB:.0f} GiB"
        )


def asked_cases(asked: argparse.Namespace, ranks: int) -> list[tuple[str, Case]]:
    """The Cases to search, each with its name: of the Problems' example, or all different ones of a model."""
    if not asked.model:
        cases = {problem: example(problem, asked.example, ranks=ranks) for problem in asked.problems}
    else:
        here = made_up.deployment(topology.load(TOPOLOGY), NODES[ranks], ranks // NODES[ranks])
        model = models.load(asked.model)
        found = {
            case
            for microbatches in model.microbatches
            for case in cases_of_model(model, here, microbatches).values()
            if case.problem in asked.problems
        }
        if not found:
            raise SystemExit(f"{asked.model} has none of these Problems: {', '.join(asked.problems)}")
        cases = {case.id: case for case in sorted(found, key=lambda case: case.id)}
    return [(name, replace(case, uniform=True)) for name, case in cases.items()]


def lines(problem: str, rows: list[Searched], took: dict[str, float], gib: float) -> Iterator[str]:
    """A line for each direction, and one that says where the seconds went."""
    if len(problem) > WIDTH:
        yield problem
        problem = ""
    head = f"{problem:<{WIDTH}}{sum(took.values()):>8.1f}{gib:>6.2f}"
    for row in rows:
        proven = f"{row.proven}/{row.ways}"
        yield (
            f"{head}{proven:>9}{row.programs:>10}{row.families:>9}{row.listed:>7}{_us(row.found_us):>11}"
            f"{_us(row.known_us):>11}  {row.direction}: {row.ending}"
        )
        head = " " * len(head)
    yield " " * WIDTH + "  of them " + ", ".join(f"{stage} {s:.1f}" for stage, s in took.items())


def _us(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def searched(case: Case, by: Search | None = None) -> tuple[list[Searched], dict[str, float]]:
    """(what came of each direction, seconds of each stage). by: the search, `offline` unless given."""
    of = topology.load(TOPOLOGY)
    nodes = case.ranks // case.ranks_per_node
    here = made_up.deployment(of, nodes, case.ranks_per_node, uniform=case.uniform)
    cases = frame_of([cases_.row(case)], CASES.schema, "cases")
    capabilities = frame_of(made_up.capabilities(of, here), CAPABILITIES.schema, "capabilities")
    theta = frame_of(made_up.theta(of, here).to_rows(), THETA.schema, "theta")
    tables, took = staged(here, cases, capabilities, theta, by or searches.load("offline"))
    return [
        _one(tables, direction) for direction in tables["known_ways"]["direction"].unique(maintain_order=True)
    ], took


def staged(
    here: Deployment, cases: pl.DataFrame, capabilities: pl.DataFrame, theta: pl.DataFrame, by: Search
) -> tuple[dict[str, pl.DataFrame], dict[str, float]]:
    """(tables by name, seconds by stage) of the stages as the pipeline runs them."""
    took: dict[str, float] = {}
    tables: dict[str, pl.DataFrame] = {}
    low, high = made_up.RESIDUALS
    fidelity = pl.DataFrame(
        {
            "problem": pl.Series([None], dtype=pl.String()),
            **{"residual_low": [low], "residual_high": [high], "fingerprint": theta["fingerprint"][:1]},
        }
    )

    def keep(stage: str, begun: float, rows: Rows, table: Table) -> None:
        took[stage] = time.process_time() - begun
        tables[table.name] = frame_of(rows, table.schema, table.name)

    def silent(_text: str) -> None:
        pass

    begun = time.process_time()
    keep("known_ways", begun, known_ways.run(here, cases, capabilities, silent), KNOWN_WAYS)
    begun = time.process_time()
    keep("price", begun, price.run(here, tables["known_ways"], theta, fidelity, progress=silent), PRICES)
    begun = time.process_time()
    inputs = (cases, tables["known_ways"], theta, fidelity, capabilities)
    nobody = Allowance(
        answers=Path("nowhere"), tree=Path("nowhere"), max_usd=0.0
    )  # the rules' own search asks nobody
    rows = search.run(here, by, *inputs, allowance=nobody, clock=time.monotonic, progress=silent)
    keep("search", begun, rows["candidates"], CANDIDATES)
    tables["search_ends"] = pl.DataFrame(rows["search_ends"], infer_schema_length=None)
    begun = time.process_time()
    listed = shortlist.run(
        settings.read(Path(settings.FILE)),
        *(tables["known_ways"], tables["prices"], tables["candidates"]),
        emit,
        progress=silent,
    )
    took["shortlist"] = time.process_time() - begun
    tables["shortlist"] = pl.DataFrame(listed, infer_schema_length=None)
    return tables, took


def _one(tables: dict[str, pl.DataFrame], direction: str) -> Searched:
    here = {
        name: frame.filter(pl.col("direction") == direction)
        for name, frame in tables.items()
        if "direction" in frame.columns
    }
    (end,) = here["search_ends"].iter_rows(named=True)
    proven = here["candidates"].filter(pl.col("equivalence") == Outcome.PASS)
    strategies = proven.filter(pl.col("origin") != "rule")
    return Searched(
        direction=direction,
        proven=here["known_ways"].filter(pl.col("equivalence") == Outcome.PASS).height,
        ways=here["known_ways"].height,
        programs=end["programs"],
        families=end["families"],
        listed=here["shortlist"].height,
        found_us=_least(proven),
        known_us=_least(strategies),
        ending=end["why"],
    )


def _least(candidates: pl.DataFrame) -> float | None:
    value = candidates["predicted_us"].min()
    return None if value is None else float(value)  # type: ignore[arg-type]
