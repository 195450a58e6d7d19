"""`overlayccl tune` without ranks: what is wrong is told before anything starts; a run that fails loses nothing."""

import json
import shlex
from pathlib import Path

import pytest
import yaml

from tests.cli.repository import Call

ENTRY = '{"microbatches": 2, "layers": 2, "shape": [1, 4, 8]}'
ENTRY_SITE = ENTRY[:-1] + ', "site": "entry"}'
ASKED = ("tune", "--problem", "tp_mlp", "--case-json")


@pytest.mark.parametrize(
    ("more", "parts"),
    [
        (("tune", "--problem", "tp_mpl", "--case-json", ENTRY), ("'tp_mpl'", "did you mean 'tp_mlp'")),
        ((*ASKED, "{"), ("--case-json: not readable as JSON",)),
        ((*ASKED, "[]"), ("--case-json: must be a mapping",)),
        ((*ASKED, '{"layer": 2}'), ("--case-json: cases of tp_mlp, entry 1: tp_mlp: layer", "'layers'")),
        ((*ASKED, ENTRY[:-1] + ', "ranks": 3}'), ("entry 1: ranks must divide", "3 and 4", "2, 4")),
        (
            (*ASKED, ENTRY[:-1] + ', "ranks": 4}', "--deployment", "local-2"),
            ("entry 1: ranks", "4 and 2"),
        ),
        ((*ASKED, ENTRY, "--case-json", ENTRY), ("entry 2: tp_mlp/n4-m2-l2-", "there already")),
        ((*ASKED, "{}"), ("--case-json: ", "cases.tp_mlp.0")),
        ((*ASKED, ENTRY, "--output", "sums.txt"), ("--output sums.txt", "import")),
        ((*ASKED, ENTRY, "--output", "my-sums.py"), ("--output my-sums.py", "import")),
        ((*ASKED, ENTRY, "--output", "nowhere/sums.py"), ("--output nowhere/sums.py", "no folder nowhere")),
        ((*ASKED, ENTRY, "--output", __file__), (f"--output {__file__}", "there already")),
    ],
)
def test_what_is_wrong_is_told_before_anything_starts(
    call: Call, bare: Path, more: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    said = call("--root", str(bare), *more).message(2)
    assert all(part in said for part in parts), said
    assert not (bare / "results").exists()


def test_a_run_that_fails_writes_no_file_keeps_its_preset_and_says_how_to_go_on(
    call: Call, bare: Path
) -> None:
    """There is no Snakefile."""
    output = bare / "sums.py"
    done = call("--root", str(bare), *ASKED, ENTRY, "--case-json", ENTRY_SITE, "-o", str(output))
    assert done.code == 1 and not output.exists()
    typed = done.err.strip().splitlines()[-1].partition("goes on from there: ")[2]
    asked = [
        "overlayccl",
        *ASKED,
        ENTRY,
        "--case-json",
        ENTRY_SITE,
        "--output",
        str(output),
        "--root",
        str(bare),
    ]
    assert shlex.split(typed) == asked
    [kept] = (bare / "results").glob("local-tune-tp_mlp-*/preset.yaml")
    fields = yaml.safe_load(kept.read_text())
    assert (
        fields["cases"] == {"tp_mlp": [json.loads(ENTRY), json.loads(ENTRY_SITE)]} and fields["models"] == []
    )
    measured = yaml.safe_load((bare / "config/config.yaml").read_text())["presets"]["tune"]
    assert fields["probe"].items() >= measured["probe"].items()
