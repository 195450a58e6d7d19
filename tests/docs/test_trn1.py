"""docs/trn1.md: what it links to and names is there, and it says first what has not run."""

import re
from pathlib import Path

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
