"""docs/trn1.md: what it links to and names is there, and it says first what has not run."""

import ast
import re
from pathlib import Path

import pytest

from overlayccl_core.cli.main import main
from overlayccl_core.cli.render import console
from overlayccl_core.configuration.cases import cases_of
from overlayccl_core.configuration.deployment import load as load_deployment
from overlayccl_core.configuration.profile import load
from overlayccl_core.configuration.settings import FILE as SETTINGS
from overlayccl_core.configuration.settings import read

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
    cited = set(re.findall(r"\[(\d+)\]", text))
    assert cited == set(re.findall(r"^(\d+)\. ", sources, flags=re.MULTILINE))


def test_the_literal_commands_are_there_and_name_what_the_profile_says() -> None:
    for command in (
        "snakemake --profile trn1 -n all",
        "snakemake --profile trn1 all",
        "overlayccl estimate --profile trn1",
    ):
        assert f"\n{command}" in TEXT
    assert f"results/{load('trn1', ROOT).overrides['deployment']}/report.html" in TEXT


def test_the_module_in_a_script_is_connected_as_modules_are() -> None:
    before, after = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    assert max(len(one.strip().splitlines()) for one in (before, after)) <= 11
    steps = [ast.unparse(ast.parse(one)).splitlines()[-2:] for one in (before, after)]
    assert steps[0] == steps[1]
    (call,) = [
        node
        for node in ast.walk(ast.parse(after))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "grad_ar.connect"
    ]
    api = ast.parse((ROOT / "overlayccl_core/emit/runtime/api.py").read_text())
    (connect,) = [one for one in api.body if isinstance(one, ast.FunctionDef) and one.name == "connect"]
    assert {word.arg for word in call.keywords} <= {argument.arg for argument in connect.args.args}
    settings, trn1 = (
        read(ROOT / SETTINGS, {}, usual="cluster"),
        load_deployment(ROOT / "config/deployments/trn1.yaml"),
    )
    cases = [case.id for case in cases_of(settings, trn1, "grad_ar", ROOT)]
    assert [ast.literal_eval(one) for one in call.args] == cases


def test_the_estimate_that_it_shows_is_the_one_that_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "170")
    console.cache_clear()
    assert main(["--root", str(ROOT), "estimate", "--profile", "trn1"]) == 0
    console.cache_clear()
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    shown = TEXT[TEXT.index(" rule       jobs") :].partition("```")[0].splitlines()
    assert len(shown) >= 6 and all(line.split() in printed for line in shown)
