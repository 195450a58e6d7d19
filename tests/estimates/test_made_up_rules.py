"""A rule that nothing knows but its declaration: estimate, break-even, page and comparison count its jobs."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from overlayccl_core import loader
from overlayccl_core.configuration.searches import MENDED
from overlayccl_core.estimates import actual
from overlayccl_core.report.payback import cost_of
from overlayccl_core.report.tree import Tree
from overlayccl_core.rule import ALL, FOLDER, Budget, Programs, Rule, Subjects, rules
from overlayccl_core.tables.cases import CASES
from tests.estimates.test_actual import ran
from tests.estimates.test_plan import ON_RANKS, planned, settings
from tests.took import took

NAME = "made_up"
ASKED = "command"  # a search that asks, beside `offline`
PROBLEMS, MODELS, SEARCHES = ("tp_mlp", "grad_ar"), ("nano", "nano-dp"), ("offline", ASKED, ASKED + MENDED)
BOTH = [f"{problem}-{search}" for problem in PROBLEMS for search in SEARCHES]
SEARCH = "problems/{}/search/{}/"
# wildcards -> folder of its table, and that of its last job; subjects of its jobs, and one that this run has not
OF: dict[tuple[str, ...], tuple[str, str, list[str], str]] = {
    (): ("", "", [""], "gone"),
    ("problem",): ("problems/<problem>/", "problems/grad_ar/", ["tp_mlp", "grad_ar"], "uniform_a2a"),
    ("model",): ("train/<model>/", "train/nano-dp/", ["nano", "nano-dp"], "nano-m8"),
    ("problem", "search"): (
        *(SEARCH.format("<problem>", "<search>"), SEARCH.format("grad_ar", ASKED + MENDED)),
        *(BOTH, "tp_mlp-other"),
    ),
}
# Jobs without ranks of the others, and their seconds: 5 of the run, 6 of each Problem, 3 searches of each, one of
# each model
OTHERS = (5 + 12 + 6 + 2, 43.0 + 60.0 + 120.0 + 10.0)
LIGHT = Rule(place=8, budget=Budget(start_s=70.0))
MEASURING = Rule(
    place=8,
    measures=True,
    programs=Programs.SHORTLISTS,
    budget=lambda given, models: Budget(launches=2, measuring_s=given.probe.seconds, start_s=models),
)
KINDS = [
    *(replace(rule, of=of) for rule in (LIGHT, MEASURING) for of in OF),
    *(replace(rule, of=("problem", "search"), second_round=MENDED) for rule in (LIGHT, MEASURING)),
]


def described(rule: Rule) -> str:
    return " ".join(("measuring" if rule.measures else "light", *rule.of, "asking" * bool(rule.second_round)))


@pytest.fixture(params=KINDS, ids=described)
def made_up(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rule]:
    """One more rule among those that are declared, with its table."""
    rule: Rule = request.param
    names, load = loader.names, loader.load

    def with_it(folder: str, name: str, part: str = "") -> Any:
        return SimpleNamespace(RULE=rule) if (folder, name) == (FOLDER, NAME) else load(folder, name, part)

    monkeypatch.setattr(loader, "names", lambda of: (*names(of), NAME) if of == FOLDER else names(of))
    monkeypatch.setattr(loader, "load", with_it)
    table = replace(CASES, name=NAME, rule=NAME, folder=OF[rule.of][0])
    monkeypatch.setattr(actual, "TABLES", (*actual.TABLES, table))
    rules.cache_clear()
    yield rule
    rules.cache_clear()


@pytest.fixture
def run(tmp_path: Path) -> Tree:
    """Two Problems, two models, two searches, of which one asks: of the tables only that there are some."""
    logs = tmp_path / "local/logs"
    logs.mkdir(parents=True)
    for problem in PROBLEMS:
        for search in SEARCHES:
            some(tmp_path / "local" / SEARCH.format(problem, search) / "candidates.parquet")
    for model in MODELS:
        some(tmp_path / "local/train" / model / "steps.parquet")
    subjects = Subjects(problems=PROBLEMS, models=MODELS, searches=dict.fromkeys(PROBLEMS, SEARCHES))
    for job in (job for name in rules(ALL) if name != NAME for job in subjects.jobs(name)):
        took(logs / f"{job}.log", 1.0)
    return Tree(path=tmp_path / "local")


def some(path: Path) -> None:
    """Let there be a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def jobs_of(rule: Rule) -> list[str]:
    """The names of its jobs, by hand."""
    subjects = OF[rule.of][2]
    if rule.second_round:
        subjects = [one for one in subjects if one.endswith(ASKED)]
    return ["-".join(filter(None, (NAME, one))) for one in subjects]


def test_the_estimate_counts_its_jobs_and_their_seconds(made_up: Rule) -> None:
    given = settings(problems="tp_mlp,grad_ar", models="nano,nano-dp").changed(searches=("offline", ASKED))
    jobs, run = jobs_of(made_up), planned(given)
    rows = {row.rule: row for row in run.on_ranks()}
    light, known = run.without_ranks({}), run.without_ranks({jobs[0]: 100.0})
    if made_up.measures:
        mine = rows.pop(NAME)
        assert (mine.jobs, mine.launches) == (len(jobs), 2 * len(jobs))
        assert (mine.measuring_s, mine.start_s) == (len(jobs) * given.probe.seconds, len(jobs) * 2.0)
        assert mine.programs == rows["bench"].programs
        assert (light.jobs, light.start_s) == OTHERS and light == known
    else:
        assert (light.jobs, light.start_s) == (OTHERS[0] + len(jobs), OTHERS[1] + 70.0 * len(jobs))
        assert known.start_s == light.start_s + 30.0
    assert rows.keys() == {*ON_RANKS, "trial"}


def test_page_and_break_even_count_its_durations_and_none_of_what_is_not_of_the_run(
    made_up: Rule, run: Tree
) -> None:
    jobs, before = jobs_of(made_up), cost_of(run)
    assert before is not None and sorted(before.unknown) == sorted(jobs)
    for job in (*jobs, f"{NAME}-{OF[made_up.of][3]}"):
        took(run.path / "logs" / f"{job}.log", 1000.0)
    tree = Tree(path=run.path)
    assert {phase.name for phase in tree.phases if phase.rule == NAME} == set(jobs)
    cost = cost_of(tree)
    assert cost is not None and not cost.unknown
    assert cost.seconds == pytest.approx(before.seconds + 1000.0 * len(jobs))


def test_a_finished_run_tells_what_its_settings_gave_it(made_up: Rule, run: Tree) -> None:
    job, given = jobs_of(made_up)[-1], settings()
    home = OF[made_up.of][1].replace(MENDED, "" if made_up.second_round else MENDED)
    took(run.path / "logs" / f"{job}.log", 1000.0)
    (run.path / home / f"{NAME}.parquet").touch()
    ran(run, f"{home}{NAME}", "--settings", given.part("probe"))
    tree = Tree(path=run.path)
    told = [row for row in actual.compared(tree, actual.cost_of_tree(tree)) if row.job.startswith(NAME)]
    assert [(row.job, row.expected_s, row.actual_s) for row in told] == (
        [(job.replace("-", " ", 1), given.probe.seconds + 2, 1000.0)] if made_up.measures else []
    )
