"""docs/claims.md names commands, tables and files that there are."""

import importlib
import re
from pathlib import Path

import pytest

from benchmarks.__main__ import ON_REQUEST, SECTIONS
from overlayccl_core.cli.main import main
from overlayccl_core.gates.verdict import Reason
from overlayccl_core.tables.page import TABLES

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "claims.md").read_text()
ROWS = [line.split(" | ") for line in TEXT.splitlines() if line.startswith("| ")][1:]
QUOTED = re.compile(r"`([^`]+)`")


def test_every_claim_has_a_command_and_a_figure() -> None:
    assert len(ROWS) >= 15 and all(len(row) == 3 and QUOTED.search(row[1]) for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip("| ")[:40])
def test_its_commands_are_there(row: list[str]) -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    rules = (
        "".join(file.read_text() for file in (ROOT / "rules").glob("*.smk"))
        + (ROOT / "Snakefile").read_text()
    )
    for command in QUOTED.findall(row[1]):
        words = command.split()
        match words:
            case ["make", target, *_]:
                assert target in targets
            case ["python", "-m", "benchmarks", section, *_]:
                assert section in (*SECTIONS, *ON_REQUEST)
            case ["snakemake", "--profile", "local", target, *_]:
                assert f"rule {target}:" in rules
            case ["overlayccl", *_]:
                assert (ROOT / "overlayccl_core" / "cli" / f"{words[1]}.py").exists()
        for word in words:
            if "/" in word and not word.startswith((".venv", "results")):
                assert (ROOT / word).exists(), word


COMMANDS = sorted({c for row in ROWS for c in QUOTED.findall(row[1]) if c.startswith("overlayccl ")})


@pytest.mark.parametrize("command", COMMANDS)
def test_its_commands_can_be_typed_as_they_stand(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, name, *words = command.split()
    monkeypatch.chdir(ROOT)
    if name != "prove":  # that needs no run, so it is run
        monkeypatch.setattr(importlib.import_module(f"overlayccl_core.cli.{name}"), "run", lambda _: 0)
    assert main([name, *words]) == 0


def test_the_tables_that_it_names_are_there() -> None:
    named = {table.name for table in TABLES}
    for found in re.findall(r"tables? ((?:`\w+`,? ?)+)", TEXT):
        assert set(QUOTED.findall(found)) <= named, found
    assert "`below_floor`" in TEXT and Reason.BELOW_FLOOR == "below_floor"
