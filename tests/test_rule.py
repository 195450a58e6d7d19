"""Every rule of the DAG is declared, and the declaration is of the rule that Snakemake has."""

import re

import pytest

from overlayccl_core import loader
from overlayccl_core.rule import ALL, rules, targets
from tests.workflow.repository import ROOT, outputs_of_rules

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
def test_what_measures_has_the_ranks(name: str) -> None:
    of = rf"use rule on_ranks as {name} with:|checkpoint {name}:\n(    .*\n)*    threads: THREADS"
    assert bool(re.search(of, TEXT)) is rules()[name].measures


def test_every_rule_has_its_stage() -> None:
    again = {"mended_search", "ablation_search"}  # are searches, too
    assert set(rules()) - again <= set(loader.names("stages"))
