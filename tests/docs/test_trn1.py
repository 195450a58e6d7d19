"""docs/trn1.md: what it links to and names is there, and it says first what has not run."""

import re
from pathlib import Path

import pytest

from overlayccl_core.cli.main import main
from overlayccl_core.cli.render import console
from overlayccl_core.configuration.profile import load

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs/trn1.md"
TEXT = FILE.read_text()


def test_it_says_first_that_nothing_ran_on_the_hardware() -> None:
    head = TEXT.split("\n## ")[0]
    assert "**What ran on Trainium: nothing.**" in head


def test_its_links_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert links
    assert not [link for link in links if not (FILE.parent / link).exists()]


def test_every_source_is_cited_and_every_citation_has_a_source() -> None:
    text, sources = TEXT.split("\n## Sources\n")
    cited = set(re.findall(r"\[(\d)\]", text))
    assert cited == set(re.findall(r"^(\d)\. ", sources, flags=re.MULTILINE))


def test_the_literal_commands_are_there_and_name_what_the_profile_says() -> None:
    for command in (
        "snakemake --profile trn1 -n all",
        "snakemake --profile trn1 all",
        "overlayccl estimate --profile trn1",
    ):
        assert f"\n{command}" in TEXT
    assert f"results/{load('trn1', ROOT).overrides['deployment']}/report.html" in TEXT


def test_the_estimate_that_it_shows_is_the_one_that_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "170")
    console.cache_clear()
    assert main(["--root", str(ROOT), "estimate", "--profile", "trn1"]) == 0
    console.cache_clear()
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    shown = TEXT[TEXT.index(" rule       jobs") :].partition("```")[0].splitlines()
    assert len(shown) == 6 and all(line.split() in printed for line in shown)
