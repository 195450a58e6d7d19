"""Somebody's training script, started as its command says, with our process group in it: no line of it changes."""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import polars as pl

import overlayccl_core
from overlayccl_core.configuration.captured import KEPT, PROBLEM, is_of
from overlayccl_core.configuration.fields import parsed
from overlayccl_core.configuration.presets import FILE
from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.observing.regions import KINDS as CALLS
from overlayccl_core.observing.regions import Region, bundles, cut
from overlayccl_core.problems.captured import KINDS
from overlayccl_core.tables.captured import CAPTURED_CALLS
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.deployed import DEPLOYED
from overlayccl_core.tables.sidecar import read_unchanged
from overlayccl_core.tables.table import read

GROUP = "overlayccl_group"
ENTRY = f"[torch.backends]\noverlayccl = {GROUP}.autoload:autoload\n"
OF_KIND = {name: call for call, name in CALLS.items()}
MODULE, WAYS = f"{PROBLEM}.py", "ways.json"  # as in process_group/tuned.py


def command_of(words: Sequence[str], example: str) -> list[str]:
    """Return the script's command, the words after `--`. ValueError if there is none."""
    command = list(words[words[:1] == ["--"] :])
    if not command:
        raise ValueError(f"no command: {example}")
    return command


def started(
    command: Sequence[str], folder: Path, variables: dict[str, str], output: TextIO | None = None
) -> int:
    """Run a script to its end with our process group; return its exit code.

    Args:
        folder: Gets the process group; each rank must see it.
        variables: What the process group is to do (`process_group/autoload.py`).
        output: Where the script's output goes; default: where ours does.
    """
    lay_group(folder)
    path = os.pathsep.join(filter(None, (str(folder.resolve()), os.environ.get("PYTHONPATH"))))
    named = {"PYTHONPATH": path, "TORCH_DEVICE_BACKEND_AUTOLOAD": "1"}
    try:
        environment = {**os.environ, **named, **variables}
        return subprocess.run(command, env=environment, stdout=output, check=False).returncode
    except OSError as error:
        raise ValueError(f"{command[0]} does not start: {error.strerror}") from None


def lay_group(folder: Path) -> None:
    """Lay the process group into a folder for PYTHONPATH, as if it were installed: it needs torch alone."""
    source = Path(overlayccl_core.__path__[0], "process_group")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(source, folder / GROUP, dirs_exist_ok=True, ignore=ignored)
    entry = folder / f"{GROUP}-0.dist-info"
    entry.mkdir(exist_ok=True)
    (entry / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {GROUP}\nVersion: 0\n")
    (entry / "entry_points.txt").write_text(ENTRY)


@dataclass(frozen=True, kw_only=True)
class LaidWays:
    """What a run deployed for the calls of a script.

    Attributes:
        rows: Which calls each Case makes, as in ways.json.
        ranks: How many ranks the captured script had.
        others: What else was chosen, and why no call of the script is made so: a line each.
    """

    rows: list[dict[str, Any]]
    ranks: int
    others: list[str]


def lay_ways(tree: Path, folder: Path) -> LaidWays:
    """Lay the module that a run deployed, and which call each of its Cases makes.

    A Case whose plain calls stand, or whose other way is not faster beyond noise, has no row.

    Args:
        tree: Results of `snakemake ... --config captured=FILE`.

    Raises:
        ValueError: It has no deployed module of captured calls, or is of another step than the one captured there.
    """
    tables = [(DEPLOYED, tree / "deployed.parquet"), (CASES, tree / "problems" / PROBLEM / "cases.parquet")]
    module, captured, preset = tree / "deploy" / MODULE, tree / KEPT, tree / FILE
    if not all(path.is_file() for path in (module, captured, preset, *(path for _, path in tables))):
        raise ValueError(
            f"{tree}: no deployed module of captured calls: give the results of `snakemake --profile local all "
            "--config captured=calls.parquet`"
        )
    deployed, cases = (read_unchanged(*table) for table in tables)
    calls = read(CAPTURED_CALLS, captured)
    if not is_of(tree, parsed(preset)):
        raise ValueError(
            f"{tree}: its preset is of other calls than those in {KEPT}: run it again in a new folder"
        )
    found = {row["case"]: row for row in deployed.filter(problem=PROBLEM).iter_rows(named=True)}
    together = [_keys(region) for region in bundles(calls)]
    rows, others, uncertain = [], [], 0
    for case in cases.iter_rows(named=True):
        chosen, keys = found.get(case["case"]), _keys_of(case)
        if chosen is None or (chosen["instead"] or chosen["arm"]) == ArmName.DEVELOPER:
            continue
        if not chosen["instead"] and (chosen["speedup_low"] or 0.0) <= 1.0:
            uncertain += 1
        elif len(keys) == 1:
            rows.append({"key": keys[0], "case": case["case"]})
        elif keys in together and not any(json.loads(case["parameters"])["after"]):
            rows.append({"bundle": keys, "case": case["case"]})
        else:
            others.append(_by_hand(case["case"], keys, calls))
    if uncertain:
        others.append(f"{uncertain} of {cases.height} Cases have another way that is not faster beyond noise")
    shutil.copyfile(module, folder / MODULE)
    (folder / WAYS).write_text(json.dumps(rows, indent=1))
    return LaidWays(rows=rows, ranks=int(calls["world_size"][0]), others=others)


def _by_hand(case: str, keys: list[list[Any]], calls: pl.DataFrame) -> str:
    """Say what only an edit of the script brings: the calls of this Case are made one after the other."""
    run = next(region.runs[0] for region in cut(calls)[0] if _keys(region) == keys)
    followed = calls.filter(pl.col("depends_on").is_not_null(), pl.col("call").is_in(run))
    lines = ", ".join(Path(line).name for line in followed["line"].unique(maintain_order=True))
    return (
        f'faster together, if you edit the script (docs/deploying.md): connect("{case}") of '
        f"deploy/{MODULE} for the calls at {lines}"
    )


def _keys_of(case: dict[str, Any]) -> list[list[Any]]:
    parameters = json.loads(case["parameters"])
    kinds = [KINDS[kind] for kind in parameters["kinds"]]
    return [_key(kind, size, case) for kind, size in zip(kinds, parameters["sizes"], strict=True)]


def _key(kind: str, elements: int, case: dict[str, Any]) -> list[Any]:
    """The fields of `process_group/tuned.py::Key`."""
    name, reduction = OF_KIND[kind]
    stride = case["groups"] if case["strided"] else 1
    return [name, reduction, case["dtype"], elements, case["ranks"], stride]


def _keys(region: Region) -> list[list[Any]]:
    at = {"groups": len(region.groups), "strided": False, **region.placed}
    return [_key(call["kind"], call["elements"], at) for call in region.described]
