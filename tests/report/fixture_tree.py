"""A small, plausible tree of all tables, written through the table modules. All figures are made up."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

from overlayccl_core import catalog
from overlayccl_core.configuration.deployment import load
from overlayccl_core.costmodel.fidelity import Scored, fidelity
from overlayccl_core.costmodel.price import price
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.evidence.accuracy import PlaceAccuracy, over_places
from overlayccl_core.probes.mixed import mixed_probes
from overlayccl_core.probes.probe import ProbeRole
from overlayccl_core.probes.structured import structured_probes
from overlayccl_core.program import library as program_library
from overlayccl_core.program.json_form import loads
from overlayccl_core.rule import ALL, Subjects, rules
from overlayccl_core.stages import fit
from overlayccl_core.stages.known_ways import known_way_rows
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.choice import CHOICE, VERDICTS
from overlayccl_core.tables.confirmed import CONFIRMED
from overlayccl_core.tables.deployed import DEPLOYED
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.known_ways import KNOWN_WAYS
from overlayccl_core.tables.price_ablations import PRICE_ABLATIONS
from overlayccl_core.tables.prices import PRICES
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.search_ends import SEARCH_ENDS
from overlayccl_core.tables.sketches import SKETCHES
from overlayccl_core.tables.theta import THETA
from tests.fake_timings import FINGERPRINT, timing_columns
from tests.known_cases import case
from tests.report.fixture_models import LAUNCHES, write_models
from tests.report.fixture_rows import REPOSITORY, ROUNDS, put, settings
from tests.rows import Row, row
from tests.took import took

PROBLEMS = ("tp_mlp", "uniform_a2a", "grad_ar")
TRAINED_IN = {"tp_mlp": "nano m1, nano m2, nano m8", "grad_ar": "nano-dp m1"}
REASON = "1.21 (1.16..1.30) times as fast as hand_bundled in nano m8"


def write_tree(
    folder: Path,
    *,
    chosen: str = "finalist_1",
    seeds: int = 2,
    problems: Sequence[str] = PROBLEMS,
    data: bool = True,
) -> Path:
    """A whole run in `folder`. chosen: the arm that `choice` names where models were trained.

    data: whether a data parallel model was trained too.
    """
    fitted = _fitted()
    for table in (PROBES, THETA, FIDELITY):
        put(table, fitted[table.name], folder / f"{table.name}.parquet", settings().part("probe"))
    put(PRICE_ABLATIONS, _ablations(), folder / "price_ablations.parquet")
    theta = Theta.from_rows(
        fitted["theta"],
        residual_low=fitted["fidelity"][0]["residual_low"],
        residual_high=fitted["fidelity"][0]["residual_high"],
    )
    deployed = [one for problem in problems for one in _write_problem(folder, problem, theta, chosen)]
    put(DEPLOYED, deployed, folder / "deployed.parquet")
    passes = [one for problem in problems for one in _confirmed(problem)]
    put(CONFIRMED, passes, folder / "confirmed.parquet", settings().part("confirm"))
    write_models(folder, chosen, seeds, data=data)
    write_files(folder, problems, ("nano", "nano-dp") if data else ("nano",))
    return folder


@cache
def _fitted() -> dict[str, list[Row]]:
    deployment = load(REPOSITORY / "config/deployments/local.yaml")
    probes = structured_probes(deployment) + mixed_probes(deployment, seed=1, count=20, role=ProbeRole.MIXED)
    probes += mixed_probes(deployment, seed=2, count=30, role=ProbeRole.HELD_OUT)
    rows = [
        row(PROBES, probe=p.name, role=p.role.value, **timing_columns(p.program, rounds=ROUNDS))
        for p in probes
    ]
    tables = fit.run(settings(), pl.DataFrame(rows), progress=lambda _: None)
    return {"probes": rows, **tables}


def _ablations() -> list[Row]:
    """Without collectives everything is worse."""
    worse = {"nothing": 0.06, "collectives": 0.7}
    of = {"heldout": None, "candidates": 0.0}
    return [
        row(
            PRICE_ABLATIONS,
            without=part,
            judged_on=on,
            n=30,
            median_rel_error=error,
            top1_regret=regret,
            fingerprint=FINGERPRINT,
        )
        for part, error in worse.items()
        for on, regret in of.items()
    ]


@cache
def _ways(problem: str) -> tuple[Row, ...]:
    directions = catalog.directions(case(problem))
    rows = [r for direction in directions for r in known_way_rows(direction, None, None)]
    return tuple(r for r in rows if r["role"] != program_library.Role.DERIVED)


def _write_problem(folder: Path, problem: str, theta: Theta, chosen: str) -> list[Row]:
    """Its tables; the rows of `deployed`."""
    home, ways = folder / "problems" / problem, list(_ways(problem))
    proven = [s for s in ways if s["equivalence"] == "pass"]
    bench = [
        row(
            BENCH,
            case=s["case"],
            direction=s["direction"],
            candidate=s["strategy"],
            **timing_columns(loads(s["program_json"]), noise=0.08),
        )
        for s in proven
    ]
    keys = sorted({(s["case"], s["direction"]) for s in proven}, reverse=True)
    at = {key: [s for s in proven if (s["case"], s["direction"]) == key] for key in keys}
    put(KNOWN_WAYS, ways, home / "known_ways.parquet")
    put(BENCH, bench, home / "bench.parquet", settings().part("bench"))
    put(FIDELITY, _fidelity(problem, at, bench, theta), home / "fidelity.parquet")
    put(SKETCHES, [r for key in keys for r in _sketches(key)], home / "search/offline/sketches.parquet")
    put(SEARCH_ENDS, [_search_end(key) for key in keys], home / "search/offline/search_ends.parquet")
    candidates = [_candidate(s, theta) for s in proven]
    put(CANDIDATES, candidates, home / "search/offline/candidates.parquet")
    put(PRICES, [_price(s, theta) for s in proven], home / "prices.parquet")
    put(FINALISTS, [r for key in keys for r in _finalists(at[key])], home / "finalists.parquet")
    put(VERDICTS, [r for key in keys for r in _verdicts(at[key])], home / "verdicts.parquet")
    put(CHOICE, [_choice(problem, at[key], chosen) for key in keys], home / "choice.parquet")
    return [_deployed(problem, at[key], chosen) for key in keys]


def _confirmed(problem: str) -> list[Row]:
    """Launches of developer's arm and of the deployed file, made of developer's Program for both."""
    return [
        row(
            CONFIRMED,
            problem=problem,
            **{name: way[name] for name in ("case", "direction")},
            candidate=way["strategy"],
            arm=arm,
            **timing_columns(loads(way["program_json"]), rounds=ROUNDS, launch=launch),
        )
        for way in _ways(problem)
        if way["role"] == "developer"
        for launch in range(LAUNCHES)
        for arm in ("developer", "deployed")
    ]


def _fidelity(
    problem: str, at: Mapping[tuple[str, str], Sequence[Row]], bench: Sequence[Row], theta: Theta
) -> list[Row]:
    """Of the whole Problem, then of each Case and direction."""
    places = {key: _accuracy(ways, bench, theta) for key, ways in at.items()}
    named = {(None, None): over_places(list(places.values()))} | {k: one.figures for k, one in places.items()}
    return [
        row(FIDELITY, problem=problem, case=case, direction=way, fingerprint=FINGERPRINT, **figures.to_row())
        for (case, way), figures in named.items()
    ]


def _accuracy(ways: Iterable[Row], bench: Iterable[Row], theta: Theta) -> PlaceAccuracy:
    samples = {r["program"]: r["samples_us"] for r in bench}
    scored = []
    for s in ways:
        us = price(loads(s["program_json"]), theta).us
        if us is not None:
            scored.append(Scored(predicted_us=us, samples_us=samples[s["program"]]))
    first = min(scored, key=lambda one: one.predicted_us)
    fastest = min(scored, key=lambda one: np.mean(one.samples_us))
    figures = fidelity(scored, first=(first.samples_us, fastest.samples_us))
    return PlaceAccuracy(scored=tuple(scored), figures=figures)


def _sketches(key: tuple[str, str]) -> list[Row]:
    twice = ["duplicate", "does_not_apply"] * 2
    outcomes = ["program", *twice, "illegal", "infeasible"]
    rules = ["merge", "drop_boundary", "exchange_of_copies", "reduce_scatter_all_gather", "ring"]
    return [
        row(
            SKETCHES,
            case=key[0],
            direction=key[1],
            number=n,
            origin="rule",
            step=json.dumps([rules[n % 5], "all_reduce:world:1", "all"]),
            outcome=outcomes[n % 7],
            stage="full",
            message="",
        )
        for n in range(30)
    ]


def _search_end(key: tuple[str, str]) -> Row:
    return row(
        SEARCH_ENDS,
        case=key[0],
        direction=key[1],
        search="offline",
        why="no_new_elite",
        proposals=30,
        programs=214,
        families=41,
        message="214 Programs of 41 families in 7 rounds; ended: no new elite; cheapest: made_up (made up), 41 us",
        fingerprint=FINGERPRINT,
    )


def _candidate(way: Row, theta: Theta) -> Row:
    priced = price(loads(way["program_json"]), theta)
    same = ("case", "direction", "recipe", "numerics", "program", "value_digest", "program_json")
    return row(
        CANDIDATES,
        **{name: way[name] for name in same},
        **{name: way[name] for name in ("collectives", "wire_bytes", "peak_bytes", "equivalence")},
        candidate=way["strategy"],
        search="offline",
        origin="known",
        family="made up",
        legality="pass",
        reason="ok",
        elite=True,
        predicted_us=priced.us,
        low_us=priced.low_us,
        high_us=priced.high_us,
        **{f"{term.value}_us": us for term, us in priced.terms.items()},
        fingerprint=FINGERPRINT,
    )


def _price(way: Row, theta: Theta) -> Row:
    priced = price(loads(way["program_json"]), theta)
    return row(
        PRICES,
        **{name: way[name] for name in ("case", "direction", "strategy", "program")},
        feasible=True,
        reason="ok",
        predicted_us=priced.us,
        low_us=priced.low_us,
        high_us=priced.high_us,
        **{f"{term.value}_us": us for term, us in priced.terms.items()},
        fingerprint=FINGERPRINT,
    )


def _finalists(ways: Sequence[Row]) -> list[Row]:
    same = ("case", "direction", "recipe", "numerics", "program", "program_json")
    return [
        row(
            FINALISTS,
            **{name: way[name] for name in same},
            arm=arm,
            candidate=way["strategy"],
        )
        for arm, way in zip(("developer", "finalist_1", "finalist_2"), [ways[0], *ways[-2:]], strict=True)
    ]


def _verdicts(ways: Sequence[Row]) -> list[Row]:
    key = {name: ways[-1][name] for name in ("case", "direction")}
    good = row(
        VERDICTS,
        **key,
        candidate=ways[-1]["strategy"],
        gate="bench",
        outcome="pass",
        reason="ok",
        evidence="{}",
    )
    bad = row(
        VERDICTS,
        **key,
        candidate=ways[-2]["strategy"],
        arm="finalist_2",
        model="nano m8",
        gate="training",
        outcome="fail",
        reason="wrong_gradient",
        message="a gradient is 0.1 (relative) away from the unsharded model's",
        evidence="{}",
    )
    why = row(VERDICTS, **key, candidate=ways[-1]["strategy"], gate="choice", outcome="pass", message=REASON)
    return [good, bad, why]


def _chosen(problem: str, ways: Sequence[Row], chosen: str) -> tuple[str, Row]:
    """(arm, known way) of what is deployed: what people write at data parallel Cases."""
    arm = {"tp_mlp": chosen, "grad_ar": "hand_bundled"}.get(problem, "finalist_1")
    proven = [s for s in ways if s["numerics"] != "lossy"]
    return arm, next((s for s in proven if s["strategy"] == arm or s["role"] == arm), proven[-1])


def _choice(problem: str, ways: Sequence[Row], chosen: str) -> Row:
    arm, way = _chosen(problem, ways, chosen)
    same = ("case", "direction", "recipe", "numerics", "program", "value_digest")
    return row(
        CHOICE,
        **{name: way[name] for name in same},
        candidate=way["strategy"],
        arm=arm,
        trained_in=TRAINED_IN.get(problem),
        fingerprint=FINGERPRINT,
    )


def _deployed(problem: str, ways: Sequence[Row], chosen: str) -> Row:
    arm, way = _chosen(problem, ways, chosen)
    itself = arm == "developer"
    return row(
        DEPLOYED,
        **{name: way[name] for name in ("case", "direction", "numerics")},
        problem=problem,
        candidate=way["strategy"],
        arm=arm,
        trained_in=TRAINED_IN.get(problem),
        **({"use": "framework", "instead": "ddp_25"} if problem == "grad_ar" else {}),
        predicted_us=4000.0,
        predicted_pair_us=8000.0,
        measured_us=4100.0,
        **({} if itself else {"speedup": 6.1, "speedup_low": 5.7, "speedup_high": 6.5}),
        gain=1.21,
        gain_low=1.16,
        gain_high=1.3,
        best_other="single_graph" if arm == "hand_bundled" else "hand_bundled",
        launches=LAUNCHES,
        regret=0.0,
        model_regret=0.03,
        reason=REASON,
        disturbed=False,
        fingerprint=FINGERPRINT,
    )


def write_files(folder: Path, problems: Sequence[str], models: Sequence[str]) -> None:
    logs = folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    subjects = Subjects(problems=problems, models=models, searches=dict.fromkeys(problems, ("offline",)))
    seconds = {job: 1.0 for rule in rules(ALL) for job in subjects.jobs(rule)}
    seconds |= {"selftest": 9.0, "probe": 171.2, "fit": 4.4, "summary": 5.0, "report": 6.0}
    seconds |= {"confirm": 172.0, "deploy": 0.2}
    for problem in problems:
        light = ("cases", "known_ways", "price", "shortlist", "finalists", "choose")
        seconds |= {f"{rule}-{problem}": 1.1 for rule in light}
        seconds |= {f"bench-{problem}": 52.9, f"search-{problem}-offline": 13.0}
    seconds |= {f"train-{model}": 205.0 for model in models}
    for job, s in seconds.items():
        took(logs / f"{job}.log", s)
    deploy = folder / "deploy"
    deploy.mkdir(exist_ok=True)
    for problem in PROBLEMS:
        (deploy / f"{problem}.py").write_text("# a module\n" * 400)
        (deploy / f"{problem}.json").write_text("{}")
