"""Every rule of the DAG is declared, and the declaration is of the rule that Snakemake has."""

import re
from pathlib import Path

import pytest

from overlayccl_core import loader
from overlayccl_core.configuration.searches import MENDED
from overlayccl_core.rule import ALL, Budget, Rule, rules, targets
from overlayccl_core.tables.page import TABLES
from overlayccl_core.tables.table import Table
from tests.workflow.repository import ROOT, inputs_of_rules, logs_of_rules, outputs_of_rules

TEMPLATES = ("light", "on_ranks")
TEXT = "".join(file.read_text() for file in (ROOT / "Snakefile", *sorted((ROOT / "rules").glob("*.smk"))))


def test_every_rule_is_declared_and_nothing_else() -> None:
    assert set(rules()) == set(outputs_of_rules()) - {ALL, *targets(), *TEMPLATES}


@pytest.mark.parametrize("name", rules())
def test_its_jobs_are_of_what_is_declared(name: str) -> None:
    """By the wildcards of its outputs; a target besides `all` has a folder of its own."""
    files, rule = outputs_of_rules()[name], rules()[name]
    wildcards = {found for file in files for found in re.findall(r"{(\w+)", file)} - {"deployment"}
    assert wildcards == set(rule.of)
    assert all((f"/{rule.target}/" in file) is (rule.target in targets()) for file in files)


@pytest.mark.parametrize("name", rules())
def test_its_jobs_have_the_names_of_their_logs(name: str) -> None:
    """Estimates and pages look up by that name what a job took; what searches again is a search of another name."""
    rule, file = rules()[name], Path(logs_of_rules()[name])
    if not rule.packs:
        assert file.stem.removesuffix(MENDED) == "-".join((rule.like or name, *map("{{{}}}".format, rule.of)))


@pytest.mark.parametrize("stage", sorted({rule.like or name for name, rule in rules().items()}))
def test_every_table_of_a_stage_is_an_input_or_output_of_its_rules(stage: str) -> None:
    """By name: a stage has no rows of an input under another name."""
    named = [name for name, rule in rules().items() if (rule.like or name) == stage]
    there = {Path(file).stem for name in named for file in outputs_of_rules()[name]}
    there |= {given for name in named for given in inputs_of_rules()[name]}
    tables = {one.name for one in vars(loader.load("stages", stage)).values() if isinstance(one, Table)}
    assert tables <= there


@pytest.mark.parametrize("name", rules())
def test_what_measures_has_the_ranks(name: str) -> None:
    of = rf"use rule on_ranks as {name} with:|checkpoint {name}:\n(    .*\n)*    threads: THREADS"
    assert bool(re.search(of, TEXT)) is rules()[name].measures


@pytest.mark.parametrize("name", rules(ALL))
def test_what_takes_its_time_from_settings_measures_and_a_table_tells_them(name: str) -> None:
    """A finished run tells of its measuring rules alone what their settings gave them."""
    rule = rules()[name]
    assert isinstance(rule.budget, Budget) or (rule.measures and name in {table.rule for table in TABLES})


def test_a_measuring_rule_of_all_says_what_it_times() -> None:
    """Else the estimate would count no Program of it, and no second of compiling."""
    with pytest.raises(ValueError, match="programs=Programs"):
        Rule(place=1, measures=True)
    assert Rule(place=1, measures=True, target="longrun").programs is None


def test_every_rule_has_its_stage() -> None:
    assert {rule.like or name for name, rule in rules().items()} <= set(loader.names("stages"))
