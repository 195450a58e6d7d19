"""What may run after a change is what depends on it, and nothing else: asked of the real DAG, all outputs made.

A plan is made before anything runs: it holds what stands behind a table that will be made again, though a run
leaves that out where the table comes out equal. What does run is in test_early_cutoff.py.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from overlayccl_core.rule import ALL, rules
from tests.workflow.changes import (
    ASKED,
    BASES,
    CLUSTER,
    CONFIG,
    EVERYWHERE,
    MODELS,
    OF_ASKED,
    OF_CLUSTER,
    OF_TARGETS,
    PROBLEM_OF,
    PROBLEMS,
    ROWS,
    Plan,
    Row,
)
from tests.workflow.repository import ROOT, copy_to, python


def narrowed(text: str) -> str:
    """The configuration with three Problems and two models: what holds for them holds for all."""
    text, problems = re.subn(r"problems:\s+\[[^]]*\]", f"problems: [{', '.join(PROBLEMS)}]", text, count=1)
    text, models = re.subn(r"\nmodels: \[[^]]*\]", f"\nmodels: [{', '.join(MODELS)}]", text, count=1)
    assert problems == models == 1
    return text


def edited(path: str, change: tuple[str, str]) -> str:
    """A file's text after a change; an empty first half appends."""
    text = (ROOT / path).read_text()
    text = narrowed(text) if path == CONFIG else text
    old, new = change
    if not old:
        return text + new
    assert text.count(old) >= 1, f"{path} has no {old!r}"
    return text.replace(old, new, 1)


def planned(
    folder: Path, base: dict[str, object], rows: Sequence[Row], target: str = "all"
) -> tuple[Plan, dict[str, Plan]]:
    """All jobs of a target, and by row those that it plans, after a run as `base` says."""
    root = copy_to(folder)
    (root / CONFIG).write_text(narrowed((root / CONFIG).read_text()))
    steps = [
        {
            "edits": {path: edited(path, change) for path, change in row.edits.items()},
            "config": row.config,
            "gone": list(row.gone),
            "machine": row.machine,
        }
        for row in rows
    ]
    done = python(
        root, "tests/workflow/plans.py", text=json.dumps({"base": base, "target": target, "steps": steps})
    )
    assert done.returncode == 0, done.stderr
    whole, *plans = json.loads(done.stdout)
    return whole, dict(zip([row.name for row in rows], plans, strict=True))


def expected(row: Row, may_run: set[str], whole: Plan) -> Plan:
    """The jobs of some rules that are of the row's Problems, or of none."""

    def concerned(subject: str) -> bool:
        return not subject or row.problems == PROBLEMS or PROBLEM_OF.get(subject, subject) in row.problems

    of_rules = {rule: [one for one in whole[rule] if concerned(one)] for rule in may_run}
    return {rule: subjects for rule, subjects in of_rules.items() if subjects}


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, dict[str, Plan]]:
    """As it is configured."""
    return planned(tmp_path_factory.mktemp("repository"), {}, ROWS)


@pytest.fixture(scope="module", params=BASES)
def others(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Plan, dict[str, Plan]]:
    """A name in BASES, all jobs there, and what rows plan that do not hang on the configuration.

    The rules are the same: those of which something else is expected there, and some of the others, are enough.
    """
    of_base = {OF_CLUSTER: lambda row: row.on_trn1 is not None, OF_ASKED: lambda row: bool(row.asked)}
    differs = of_base.get(request.param, lambda row: False)
    rows = [row for number, row in enumerate(EVERYWHERE) if number % 5 == 0 or differs(row)]
    return request.param, *planned(tmp_path_factory.mktemp("other"), BASES[request.param], rows)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_what_depends_on_a_change_is_planned_and_nothing_else(
    row: Row, plans: tuple[Plan, dict[str, Plan]]
) -> None:
    whole, of_rows = plans
    assert of_rows[row.name] == expected(row, row.may_run, whole)


def test_it_is_the_same_with_other_presets_and_with_several_searches(
    others: tuple[str, Plan, dict[str, Plan]],
) -> None:
    base, whole, plans = others
    asks = BASES[base] == ASKED
    assert not asks or set(rules(ALL)) <= set(whole)  # what is declared is planned
    for row in (row for row in EVERYWHERE if row.name in plans):
        may_run = row.may_run
        if base == "evidence" and "tp_mlp" not in row.problems:
            may_run = set()
        if asks:
            may_run = may_run | row.asked
            may_run = may_run | ({"trial", "mended_search"} if "search" in may_run else set())
        if BASES[base] == CLUSTER:
            may_run = may_run - {"train"} if row.on_trn1 is None else row.on_trn1
        jobs = expected(row, may_run, whole)
        if asks and may_run and not row.may_run:  # of the two searches the one that asks
            jobs["search"] = sorted(set(jobs["search"]))
        assert plans[row.name] == jobs, row.name


@pytest.fixture(scope="module", params=OF_TARGETS)
def of_target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Plan, dict[str, Plan]]:
    """A target besides `all`, all jobs that it has, and what its rows plan."""
    rows = OF_TARGETS[request.param]
    return request.param, *planned(tmp_path_factory.mktemp("target"), ASKED, rows, request.param)


def test_other_targets_run_what_depends_on_a_change_and_nothing_else(
    of_target: tuple[str, Plan, dict[str, Plan]],
) -> None:
    target, whole, plans = of_target
    assert set(rules(target)) <= set(whole)
    for row in OF_TARGETS[target]:
        assert plans[row.name] == expected(row, row.may_run, whole), (target, row.name)
