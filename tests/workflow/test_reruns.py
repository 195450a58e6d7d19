"""What may run after a change is what depends on it, and nothing else: asked of the real DAG, all outputs made.

A plan is made before anything runs: it holds what stands behind a table that will be made again, though a run
leaves that out where the table comes out equal. What does run is in test_early_cutoff.py.
"""

import json
from collections.abc import Sequence, Set
from pathlib import Path

import pytest

from overlayccl_core.rule import ALL, rules
from tests.workflow.changes import (
    ASKED,
    BASES,
    CONFIG,
    EVERYWHERE,
    OF_ASKED,
    OF_CLUSTER,
    PROBLEM_OF,
    PROBLEMS,
    ROWS,
    Plan,
    Row,
    narrowed,
)
from tests.workflow.changes_of_targets import OF_TARGETS
from tests.workflow.graph import READS, WHERE_ASKED
from tests.workflow.repository import ROOT, copy_to, python


def edited(path: str, changes: Sequence[tuple[str, str]]) -> str:
    """A file's text after changes; an empty first half appends."""
    text = (ROOT / path).read_text()
    text = narrowed(text) if path == CONFIG else text
    for old, new in changes:
        assert old in text, f"{path} has no {old!r}"
        text = text.replace(old, new, 1) if old else text + new
    return text


def step(*rows: Row, by_code: bool = False) -> dict[str, object]:
    """What is asked of plans.py for the changes of some rows at once."""
    changes: dict[str, list[tuple[str, str]]] = {}
    for path, change in (one for row in rows for one in row.edits.items()):
        changes.setdefault(path, []).append(change)
    return {
        "edits": {path: edited(path, of_path) for path, of_path in changes.items()},
        "config": {key: value for row in rows for key, value in row.config.items()},
        "gone": [path for row in rows for path in row.gone],
        "machine": {key: value for row in rows for key, value in row.machine.items()},
        "by_code": by_code,
    }


def planned(
    folder: Path, base: dict[str, object], steps: Sequence[dict[str, object]], target: str = "all"
) -> list[Plan]:
    """All jobs of a target, what each rule reads, and the jobs of each step after a run as `base` says."""
    root = copy_to(folder)
    (root / CONFIG).write_text(narrowed((root / CONFIG).read_text()))
    request = {"base": base, "target": target, "steps": steps}
    done = python(root, "tests/workflow/plans.py", text=json.dumps(request))
    assert done.returncode == 0, done.stderr
    plans: list[Plan] = json.loads(done.stdout)
    return plans


def expected(row: Row, may_run: Set[str], whole: Plan) -> Plan:
    """The jobs of some rules that are of the row's Problems, or of none; a rule may have no job here."""

    def concerned(subject: str) -> bool:
        return not subject or row.problems == PROBLEMS or PROBLEM_OF.get(subject, subject) in row.problems

    of_rules = {rule: [one for one in whole.get(rule, ()) if concerned(one)] for rule in may_run}
    return {rule: subjects for rule, subjects in of_rules.items() if subjects}


NOTHING = [row for row in ROWS if not (row.may_run or row.machine or row.asked or row.on_trn1)]
SOMETHING = [row for row in ROWS if row not in NOTHING]
PLANNED_TOO = next(
    row for row in SOMETHING if row.name == "the step driver"
)  # of the rows of code, by a plan


def written_down(jobs: Set[str]) -> Plan:
    """What READS tells of the rules that have jobs."""
    return {rule: sorted(READS.get(rule, set()) & jobs) for rule in jobs}


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, dict[str, Plan]]:
    """As it is configured. The name of PLANNED_TOO stands for its plan by Snakemake, an empty one for NOTHING.

    READS stands for what the rules read.
    """
    steps = [step(row, by_code=row.of_code) for row in SOMETHING]
    whole, reads, nothing, *more = planned(
        tmp_path_factory.mktemp("repository"), {}, [step(*NOTHING), *steps, step(PLANNED_TOO)]
    )
    names = [row.name for row in SOMETHING]
    return whole, {
        "": nothing,
        "READS": reads,
        **dict(zip([*names, f"{PLANNED_TOO.name}, planned"], more, strict=True)),
    }


def test_every_rule_reads_what_is_written_down(plans: tuple[Plan, dict[str, Plan]]) -> None:
    """If this fails, so do those below: a new rule, or a new input of one, belongs into READS of graph.py."""
    whole, of_rows = plans
    assert of_rows["READS"] == written_down(set(whole))
    assert set(whole) == READS.keys() - WHERE_ASKED


@pytest.mark.parametrize("row", SOMETHING, ids=lambda row: row.name)
def test_what_depends_on_a_change_is_planned_and_nothing_else(
    row: Row, plans: tuple[Plan, dict[str, Plan]]
) -> None:
    whole, of_rows = plans
    assert of_rows[row.name] == expected(row, row.may_run, whole)


def test_changes_that_mean_nothing_plan_nothing_all_at_once(plans: tuple[Plan, dict[str, Plan]]) -> None:
    assert plans[1][""] == {}, [row.name for row in NOTHING]


def test_jobs_of_other_code_are_those_that_snakemake_plans(plans: tuple[Plan, dict[str, Plan]]) -> None:
    whole, of_rows = plans
    assert of_rows[f"{PLANNED_TOO.name}, planned"] == expected(PLANNED_TOO, PLANNED_TOO.may_run, whole)


def on_base(base: str, row: Row) -> Set[str]:
    """The rules that may run there."""
    if base == OF_CLUSTER:
        return row.may_run if row.on_trn1 is None else row.on_trn1
    if base == OF_ASKED:
        return row.may_run | row.asked
    return set() if base == "evidence" and "tp_mlp" not in row.problems else row.may_run


@pytest.mark.parametrize("base", BASES)
def test_it_is_the_same_with_other_presets_and_with_several_searches(
    base: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Of what does not hang on the configuration; what means nothing there is planned by Snakemake, all at once.

    The rules are the same: rows of which something else is expected there, and some of the others, are enough.
    """
    nothing = [row for row in EVERYWHERE if not on_base(base, row)]
    differs = {OF_CLUSTER: lambda row: row.on_trn1, OF_ASKED: lambda row: row.asked}.get(
        base, lambda row: False
    )
    rows = [row for n, row in enumerate(EVERYWHERE) if row not in nothing and (n % 5 == 0 or differs(row))]
    steps = [step(row, by_code=row.of_code) for row in rows]
    whole, reads, none, *plans = planned(
        tmp_path_factory.mktemp("other"), BASES[base], [step(*nothing), *steps]
    )
    assert none == {}, [row.name for row in nothing]
    assert reads == written_down(set(whole))
    assert base != OF_ASKED or set(rules(ALL)) == set(whole) == set(READS)  # and no other target's
    for row, plan in zip(rows, plans, strict=True):
        jobs = expected(row, on_base(base, row), whole)
        if base == OF_ASKED and not row.may_run:  # of the two searches the one that asks
            jobs["search"] = sorted(set(jobs["search"]))
        assert plan == jobs, row.name


@pytest.mark.parametrize("target", OF_TARGETS)
def test_other_targets_run_what_depends_on_a_change_and_nothing_else(
    target: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = OF_TARGETS[target]
    steps = [step(row, by_code=row.of_code) for row in rows]
    whole, _, *plans = planned(tmp_path_factory.mktemp("target"), ASKED, steps, target)
    assert set(rules(target)) <= set(whole)
    for row, plan in zip(rows, plans, strict=True):
        assert plan == expected(row, row.may_run, whole), (target, row.name)
