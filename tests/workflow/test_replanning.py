"""What is left out behind checkpoints that come out equal: by the real Snakemake, of rules that copy letters."""

import shutil
from pathlib import Path

import pytest

from tests.workflow.repository import snakemake

SNAKEFILE = """
from workflow_scripts.replanning import plan_by_what_is_there
plan_by_what_is_there()
MODELS = {{"one": ["a"], "two": ["a", "b"]}}
shell.prefix("set -e; ")
rule all:
    input: expand("steps/{{model}}", model=MODELS), expand("choice/{{problem}}", problem=["a", "b"])
rule price:
    output: "price/{{problem}}"
    params: lambda wildcards: {prices}[wildcards.problem]
    shell: "echo price {{wildcards}} >> ran; echo {{params}} | cut -c 1-3 > {{output}}"
checkpoint shortlist:
    input: "price/{{problem}}"
    output: "shortlist/{{problem}}"
    shell: "echo shortlist {{wildcards}} >> ran; cut -c 1-2 {{input}} > {{output}}"
rule bench:
    input: "shortlist/{{problem}}"
    output: "bench/{{problem}}"
    shell: "echo bench {{wildcards}} >> ran; cp {{input}} {{output}}"
checkpoint finalists:
    input: "shortlist/{{problem}}", "bench/{{problem}}", "price/{{problem}}"
    output: "finalists/{{problem}}"
    shell: "echo finalists {{wildcards}} >> ran; cut -c 1 {{input[0]}} > {{output}}"
rule train:
    input: lambda wildcards: [f"finalists/{{one}}" for one in MODELS[wildcards.model]]
    output: "steps/{{model}}"
    shell: "echo train {{wildcards}} >> ran; cat {{input}} > {{output}}"
checkpoint choose:
    input: "finalists/{{problem}}", expand("steps/{{model}}", model=MODELS)
    output: "choice/{{problem}}"
    shell: "echo choose {{wildcards}} >> ran; cat {{input}} > {{output}}"
"""
PRICED = {"price a", "price b", "shortlist a", "shortlist b"}


def ran(root: Path, **prices: str) -> set[str]:
    """The jobs that run at these prices. A shortlist has two letters of a price, finalists have one."""
    (root / "ran").write_text("")
    (root / "Snakefile").write_text(SNAKEFILE.format(prices=prices))
    done = snakemake(root, "--cores", "1", "all", "--max-checksum-file-size", "1GB")
    assert done.returncode == 0, done.stderr
    return {
        line.replace("problem=", "").replace("model=", "") for line in (root / "ran").read_text().splitlines()
    }


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which all ran once."""
    root = tmp_path_factory.mktemp("before")
    ran(root, a="klm1", b="xyz1")
    return root


@pytest.mark.parametrize(
    ("a", "b", "behind"),
    [
        ("klm2", "xyz2", set[str]()),
        ("klm2", "xyq2", {"finalists b"}),
        ("kqm2", "xqz2", {"bench a", "bench b", "finalists a", "finalists b"}),
        ("klq2", "qyz2", {"finalists a", "bench b", "finalists b", "train two", "choose a", "choose b"}),
    ],
    ids=["prices", "shortlists", "finalists", "one of two finalists is another"],
)
def test_what_stands_behind_tables_that_come_out_equal_is_left_out(
    before: Path, tmp_path: Path, a: str, b: str, behind: set[str]
) -> None:
    """Also two tables behind: `two` is trained on finalists of two Problems."""
    root = Path(shutil.copytree(before, tmp_path / "after"))
    assert ran(root, a=a, b=b) == PRICED | behind
