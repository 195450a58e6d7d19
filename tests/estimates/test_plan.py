"""What a run asks for, counted by hand, and held against what the configuration and the shortlist do."""

import re
from pathlib import Path

import pytest

from overlayccl_core import catalog
from overlayccl_core.configuration import models, topology
from overlayccl_core.configuration.cases import cases_of
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.searches import FOLDER
from overlayccl_core.configuration.settings import Settings, read
from overlayccl_core.configuration.topology import ClusterTimes
from overlayccl_core.estimates.plan import Run, listed_of
from overlayccl_core.estimates.sizes import peak_of, sizes_of
from overlayccl_core.estimates.span import Span
from overlayccl_core.probes.sweep import probes_of
from overlayccl_core.rule import ALL, BATCH_S, GRADIENTS_S, LAUNCH_S, LOSSES_S, rules
from overlayccl_core.search.proposer import rounds
from tests.workflow.repository import copy_to, snakemake

ROOT = Path(__file__).parents[2]
FIGURES = topology.load("trn1.32xlarge", ROOT / topology.FOLDER).calibration.changed(
    compile_s=((2**30, 6.0),)
)
ON_RANKS = [name for name, rule in rules(ALL).items() if rule.measures and not rule.second_round]


def deployment(ranks: int = 4, ranks_per_node: int = 2, budget: int = 2**30) -> Deployment:
    return Deployment(
        name="boxes",
        backend="torchdist",
        library="any",
        node="box",
        ranks=ranks,
        ranks_per_node=ranks_per_node,
        memory_budget_bytes=budget,
    )


def settings(**overrides: str) -> Settings:
    return read(ROOT / "config/config.yaml", overrides)


def planned(given: Settings, figures: ClusterTimes | None = None) -> Run:
    boxes = deployment()
    cases = {problem: cases_of(given, boxes, problem, ROOT) for problem in given.problems}
    of_searches = tuple(rounds(given.searches, ROOT / FOLDER))
    return Run(deployment=boxes, settings=given, cases=cases, figures=figures, rounds=of_searches)


def test_jobs_launches_and_seconds_are_those_of_the_configuration() -> None:
    given = settings(problems="tp_mlp,grad_ar", models="nano,nano-dp")
    rows = {row.rule: row for row in planned(given).on_ranks()}
    assert list(rows) == ON_RANKS
    assert {row.jobs for row in rows.values() if not rules()[row.rule].of} == {1}
    assert {row.jobs for row in rows.values() if rules()[row.rule].of} == {2}  # of a Problem, or of a model
    assert rows["train"].launches == 2 * given.train.launches
    assert rows["train"].measuring_s == 2 * given.train.launches * given.train.seconds
    assert rows["train"].start_s == 2 * (given.train.launches * LAUNCH_S + GRADIENTS_S + LOSSES_S)
    assert rows["bench"].seconds == Span(*[2 * (given.bench.seconds + BATCH_S)] * 2)
    each = given.confirm.seconds + 2 * given.confirm.step_seconds
    assert rows["confirm"].measuring_s == given.confirm.launches * each
    assert rows["confirm"].launches == given.confirm.launches * 3
    assert all(row.node_seconds == row.seconds * 2 for row in rows.values())  # two nodes
    assert rows["probe"].programs == Span(*[len(probes_of(deployment(), given))] * 2)


def test_a_conversation_about_probes_is_given_a_launch_a_turn_and_then_one_of_all() -> None:
    given = settings()
    asked, all_of_them = (rules()[rule].budget(given, 0) for rule in ("ask_probes", "time_probes"))
    assert asked.launches == given.probing.turns and asked.measuring_s == given.probing.seconds
    assert all_of_them.launches == 1
    assert all_of_them.measuring_s == given.probe.seconds + given.probing.seconds


def test_nothing_is_compiled_where_nothing_is_published_and_each_probe_is_a_graph_or_more() -> None:
    given = settings(problems="tp_mlp", models="nano")
    without = {row.rule: row.compile_s for row in planned(given).on_ranks()}
    assert set(without.values()) == {Span()}
    with_figures = {row.rule: row.compile_s for row in planned(given, FIGURES).on_ranks()}
    probes = probes_of(deployment(), given)
    graphs = sum(max(1, len({x.label.graph for x in probe.program.collectives})) for probe in probes)
    assert with_figures["probe"] == Span(6.0 * graphs, 6.0 * graphs)
    # entry and exit at M = 1 and M = 4: each a sum that only one direction of the Case runs
    known = [len(catalog.read_library(catalog.library_source("tp_mlp")).strategies)] * 4
    most = sum(
        max(
            n + given.shortlist.families + given.shortlist.random + given.shortlist.overlapping + 1,
            given.shortlist.at_least,
        )
        for n in known
    )
    bench = next(row for row in planned(given, FIGURES).on_ranks() if row.rule == "bench")
    assert bench.programs == Span(4, most)
    assert with_figures["bench"].least == 4 * 6.0


def test_a_shortlist_is_never_longer_than_what_is_said_of_it() -> None:
    given = settings(problems="uniform_a2a")
    [case, *_] = cases_of(given.changed(models=()), deployment(), "uniform_a2a")
    listed = listed_of(catalog.build(case), given.shortlist)
    strategies = len(catalog.read_library(catalog.library_source("uniform_a2a")).strategies)
    assert listed == Span(1, strategies + 1 + 3 + 1 + 2)  # the cheapest, families, at random, with overlap


def test_a_search_that_asks_has_a_trial_and_a_second_round() -> None:
    given = settings(problems="tp_mlp,grad_ar", models="nano")
    alone, asks = planned(given), planned(given.changed(searches=("offline", "command")))
    rows = {row.rule: row for row in asks.on_ranks()}
    assert set(rows) == {*ON_RANKS, "trial"}
    assert (rows["trial"].jobs, rows["trial"].launches, rows["trial"].measuring_s) == (2, 2, 0.0)
    assert asks.without_ranks({}).jobs == alone.without_ranks({}).jobs + 4


def test_jobs_without_ranks_take_what_they_took_before_or_a_guess() -> None:
    run = planned(settings(problems="tp_mlp", models="nano"))
    guessed, told = run.without_ranks({}), run.without_ranks({"fit": 105.0, "bench-tp_mlp": 1000.0})
    # fit, price ablation, summary, report; cases, known way, price, shortlist, finalists, choose; search
    assert guessed.jobs == told.jobs == 13
    assert told.start_s == guessed.start_s + 100.0  # 5 s were guessed; bench is no job of these
    assert guessed.node_seconds == Span()


@pytest.mark.parametrize("nodes", [1, 7])
def test_the_cases_of_the_preset_for_clusters_fit_any_of_their_sizes(nodes: int) -> None:
    given = settings(preset="cluster")
    where = deployment(32 * nodes, 32, 2**33)
    for problem in given.problems:
        for case in cases_of(given, where, problem, ROOT):
            assert case.ranks * case.groups == 32 * nodes
            assert peak_of(case) < where.memory_budget_bytes


def test_sizes_are_of_each_split_and_name_the_case_that_holds_most() -> None:
    [first, second] = sizes_of(models.load("nano-dp", ROOT / models.FOLDER), deployment())
    assert (first.microbatches, second.microbatches, first.parameters) == (1, 2, 918_656)
    assert first.largest.startswith("grad_ar/") and first.peak_bytes == 4 * 918_656
    assert first.work is not None and first.work.parameter_bytes == 4 * 918_656


def test_jobs_are_as_many_as_snakemake_plans(tmp_path: Path) -> None:
    arguments = {"problems": "tp_mlp,grad_ar", "models": "nano,nano-dp", "proposer": "command"}
    config = [f"{name}={value}" for name, value in arguments.items()]
    done = snakemake(copy_to(tmp_path), "--profile", "local", "all", "-n", "--config", *config)
    (total,) = set(re.findall(r"^total +(\d+)$", done.stdout + done.stderr, flags=re.MULTILINE))
    run = planned(settings(**arguments))
    assert sum(row.jobs for row in (*run.on_ranks(), run.without_ranks({}))) == int(total) - 1  # `all` itself
