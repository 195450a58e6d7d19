"""A small flow from timings of a known theta: every table that stages make before anything is trained."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl

from overlayccl_core import catalog
from overlayccl_core.backends.torchdist import deployed
from overlayccl_core.backends.torchdist.backend import emit
from overlayccl_core.configuration import settings
from overlayccl_core.configuration.deployment import load
from overlayccl_core.costmodel.price import price as price_of
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.deployments.capabilities import permute_shapes
from overlayccl_core.evidence.contest import ChoiceTables
from overlayccl_core.evidence.prices import price_columns, theta_of
from overlayccl_core.gates.equivalence import prove
from overlayccl_core.probes.probe import Probe
from overlayccl_core.probes.sweep import probes_of
from overlayccl_core.program.json_form import dumps, loads
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.apply import DoesNotApply, Step, apply, steps_at
from overlayccl_core.search.family import family_of
from overlayccl_core.stages import cases, choose, finalists, fit, known_ways, price, shortlist
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.known_ways import KNOWN_WAYS
from overlayccl_core.tables.prices import PRICES
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.shortlist import SHORTLIST
from overlayccl_core.tables.steps import STAMPS, STEPS
from overlayccl_core.tables.table import Table, write
from overlayccl_core.tables.theta import THETA
from tests.fake_timings import bench_rows, timing_columns
from tests.rows import row

ROOT = Path(__file__).parents[2]
FOUND = 15  # Programs that a step from a known way gives, for each Case and direction
NOTHING_TRAINED = pl.DataFrame(schema=STEPS.schema), pl.DataFrame(schema=STAMPS.schema)
Row = dict[str, Any]


def quiet(_: str) -> None:
    """Progress that nobody reads."""


def flow_of(folder: Path, problem: str, entries: Sequence[Mapping[str, Any]]) -> SimpleNamespace:
    """Tables by name, and `checked`, which writes one more through its schema."""

    def checked(table: Table, rows: list[dict[str, Any]]) -> pl.DataFrame:
        return write(table, rows, folder / f"{table.name}.parquet")

    configured = settings.read(ROOT / "config/config.yaml")
    configured = configured.changed(
        cases={problem: tuple(entries)},
        problems=(problem,),
        models=(),
        fit=configured.fit.changed(bootstraps=20),
        probe=configured.probe.changed(mixed=40, heldout=30),
    )
    deployment = load(ROOT / "config/deployments/local.yaml")
    probes = checked(PROBES, timed(probes_of(deployment, configured)))
    fitted = fit.run(configured, probes, progress=quiet)
    theta, judged = checked(THETA, fitted["theta"]), checked(FIDELITY, fitted["fidelity"])
    listed = checked(CASES, cases.run(configured, deployment, problem, progress=quiet))
    ways = checked(KNOWN_WAYS, known_ways.run(deployment, listed, capabilities(), progress=quiet))
    prices = checked(PRICES, price.run(deployment, ways, theta, judged, progress=quiet))
    candidates = checked(CANDIDATES, list(candidates_of(ways, theta_of(theta, judged))))
    shortlisted = checked(
        SHORTLIST, shortlist.run(configured, ways, prices, candidates, emit, progress=quiet)
    )
    bench = checked(BENCH, bench_rows(shortlisted.iter_rows(named=True)))
    ranked = finalists.run(ways, shortlisted, bench, prices, candidates, probes, {}, progress=quiet)
    compared = checked(FIDELITY, ranked["fidelity"])
    ready = checked(FINALISTS, ranked["finalists"])
    return SimpleNamespace(
        known_ways=ways, **{k: v for k, v in locals().items() if k not in ("ranked", "ways")}
    )


def finalists_of(
    flow: SimpleNamespace,
    trained: Mapping[str, tuple[str, ...]] = {},
    progress: Callable[[str], None] = quiet,
    in_steps: Any = None,
    **changes: pl.DataFrame,
) -> dict[str, list[Row]]:
    """What rule finalists gives. in_steps: prices in the step; changes: tables of the flow that are others."""
    names = ("known_ways", "shortlisted", "bench", "prices", "candidates", "probes")
    of = vars(flow) | changes
    return finalists.run(*(of[name] for name in names), trained, in_steps, progress=progress)


def chosen_of(
    flow: SimpleNamespace,
    trained: tuple[pl.DataFrame, pl.DataFrame] = NOTHING_TRAINED,
    labels: Mapping[str, Mapping[str, Sequence[str]]] = {},
    **changes: pl.DataFrame,
) -> choose.Chosen:
    """What rule choose gives. trained: (steps, stamps); labels: Case -> direction -> the models that have it."""
    names = ("known_ways", "candidates", "bench", "probes")
    of = vars(flow) | changes
    tables = ChoiceTables(
        **{name: of[name] for name in names}, shortlist=of["shortlisted"], finalists=of["ready"],
        steps=trained[0], stamps=trained[1],
    )  # fmt: skip
    return choose.run(flow.problem, "gloo", tables, labels, printer=deployed, progress=quiet)


def said_of(chosen: choose.Chosen, arm: str) -> set[str]:
    """Why an arm was chosen or not, at every Case."""
    return {v["message"] for v in chosen.verdicts if (v["gate"], v["arm"]) == ("choice", arm)}


def timed(probes: list[Probe]) -> list[dict[str, Any]]:
    """Rows of `probes`."""
    return [row(PROBES, probe=p.name, role=p.role.value, **timing_columns(p.program)) for p in probes]


def capabilities() -> pl.DataFrame:
    """A library that can do everything in groups of 2 and 4."""
    kinds = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
    shapes = [(kind, shape) for kind in kinds for shape in ((2, 1), (2, 2), (4, 1))]
    shapes += [("collective_permute", shape) for shape in permute_shapes(4).values()]
    fixed = {"payload_bytes": 64, "supported": True, "evidence": ""}
    return pl.DataFrame(
        [
            {"operation": kind, "group_size": size, "stride": stride, "dtype": dtype, **fixed}
            for kind, (size, stride) in shapes
            for dtype in ("float32", "bfloat16")
        ]
    )


def candidates_of(ways: pl.DataFrame, theta: Theta) -> Iterator[dict[str, Any]]:
    """Rows of `candidates`: the known ways, and what one step makes of them."""
    proven = ways.filter(pl.col("equivalence") == "pass").unique("value_digest", maintain_order=True)
    for case, direction in ways.select("case", "direction").unique(maintain_order=True).iter_rows():
        here = proven.filter((pl.col("case") == case) & (pl.col("direction") == direction))
        programs = [loads(text) for text in here["program_json"]]
        if not programs or any(not p.collectives for p in programs):
            continue
        reference = catalog.reference_program(programs[0].problem)
        for program, way in zip(programs, here.iter_rows(named=True), strict=True):
            yield candidate(way["strategy"], "known", program, way["numerics"], theta, recipe=way["recipe"])
        known = {digest for p in programs for digest in (p.value_digest, p.run_digest)}
        for program, step in islice(_new(programs, known), FOUND):
            proof = prove(program, reference)
            if proof.passed:
                name = f"found-{program.value_digest[:8]}"
                yield candidate(name, "rule", program, str(proof["numerics"]), theta, recipe=str(list(step)))


def candidate(
    name: str, origin: str, program: Program, numerics: str, theta: Theta, *, recipe: str
) -> dict[str, Any]:
    """One proven row of `candidates`."""
    problem: Problem = program.problem
    return {
        **dict.fromkeys(column.name for column in CANDIDATES.columns),
        "case": problem.case.id,
        "direction": problem.direction.value,
        "candidate": name,
        "search": "offline",
        "origin": origin,
        "recipe": recipe,
        "family": family_of(program, feasible=True),
        "numerics": numerics,
        "program": program.digest,
        "value_digest": program.value_digest,
        "program_json": dumps(program),
        "collectives": len(program.collectives),
        "wire_bytes": 0,
        "legality": "pass",
        "equivalence": "pass",
        "reason": "ok",
        "message": "",
        "elite": True,
        **price_columns(price_of(program, theta)),
        "fingerprint": theta.fingerprint,
    }


def _new(programs: Sequence[Program], known: set[str]) -> Iterator[tuple[Program, Step]]:
    for program in programs:
        for step in steps_at(program):
            try:
                rewritten = apply(program, step)
            except DoesNotApply:
                continue
            digests = {rewritten.value_digest, rewritten.run_digest}
            if known.isdisjoint(digests):
                known |= digests
                yield rewritten, step
