"""Files of people's own beside the Snakefile: they are not imported in place of Python's modules of that name."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from overlayccl_core import project
from tests.workflow.repository import ROOT

RULE = re.compile(r"^(?:use )?(?:rule|checkpoint) (\w+)[^:\n]*:\n((?:[ ]+.*\n|\n)*)", re.MULTILINE)
SHELL = re.compile(r"^    shell:\n((?:[ ]{8}.*\n)+)", re.MULTILINE)
NAMES = ("queue", "random", "secrets", "statistics", "tempfile")
TABLES = ("results/local-smoke/problems/grad_ar/cases.parquet", "results/local-smoke/selftest.parquet")


def unsafe(rules: str) -> list[str]:
    """Rules that run something in another way than by `python -P -m`, or `python` without -P."""
    stage = re.search(r'^STAGE = "(.*)"', rules, re.MULTILINE)
    found = []
    for name, body in RULE.findall(rules):
        commands = "".join(SHELL.findall(body)).replace("STAGE", f'"{stage[1]}"' if stage else "")
        others = re.search(r"^    (run|script|notebook|wrapper|cwl):", body, re.MULTILINE)
        safe = '"python -P -m ' in commands and not re.search(r"\bpython[\d.]*(?! -P -m )(?=\s)", commands)
        if others or (commands and not safe):
            found.append(name)
    return found


def test_every_rule_runs_python_so_that_nothing_of_the_folder_is_imported() -> None:
    """A rule without -P is found, whichever: also all that run the one command of stages."""
    rules = "".join(
        file.read_text() for file in (ROOT / "Snakefile", *sorted((ROOT / "rules").glob("*.smk")))
    )
    assert len(SHELL.findall(rules)) == rules.count("shell:") > 5
    assert unsafe(rules) == []
    for place in re.finditer(r"python -P", rules):
        assert unsafe(rules[: place.start()] + "python" + rules[place.end() :])


@pytest.mark.ranks
def test_a_file_named_like_a_module_of_python_is_run_by_no_rule_and_no_rank(tmp_path: Path) -> None:
    root = tmp_path / "project"
    project.lay(root, ())
    for name in NAMES:
        (root / f"{name}.py").write_text(f"open({str(tmp_path / name)!r}, 'w')\nraise SystemExit(3)\n")
    command = Path(sys.executable).parent / "snakemake"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [command, "--profile", "local", *TABLES, "--config", "preset=smoke"]
    done = subprocess.run(words, cwd=root, env=environment, capture_output=True, text=True)
    assert not [name for name in NAMES if (tmp_path / name).exists()]
    assert done.returncode == 0, done.stderr
    assert all((root / table).exists() for table in TABLES)
