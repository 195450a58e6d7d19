"""Somebody's training script, started as its command says, with our process group in it: no line of it changes."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import polars as pl

import overlayccl_core
from overlayccl_core.configuration.captured import KEPT, is_of
from overlayccl_core.configuration.fields import parsed
from overlayccl_core.configuration.presets import FILE
from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.measuring.statistics import FASTER
from overlayccl_core.observing.compared import Launched, launched
from overlayccl_core.observing.fits import CAPTURED
from overlayccl_core.observing.regions import Region, bundles, cut
from overlayccl_core.problems.captured import calls_of
from overlayccl_core.process_group.parts import FOUND, MODULE, PLAIN, VARIABLES, WAYS, Key, ways_digest
from overlayccl_core.tables.captured import CAPTURED_CALLS
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.deployed import DEPLOYED
from overlayccl_core.tables.published import not_as_confirmed
from overlayccl_core.tables.remake import remake
from overlayccl_core.tables.sidecar import read_unchanged
from overlayccl_core.tables.table import read
from overlayccl_core.tuning.keys import MadeCall, made_call

GROUP = "overlayccl_group"
ENTRY = f"[torch.backends]\noverlayccl = {GROUP}.autoload:autoload\n"
DEPLOYED_FILE = "deployed.parquet"
AGAIN = "`overlayccl run --online CALLS --keep FOLDER` makes it again"


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
        ours = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        environment = {**ours, **named, **variables}
        return subprocess.run(command, env=environment, stdout=output, check=False).returncode
    except OSError as error:
        raise ValueError(f"{command[0]} does not start: {error.strerror}") from None


def timed(
    command: Sequence[str], folder: Path, name: str, variables: dict[str, str], steps: int, of: str
) -> dict[int, Launched]:
    """Run a script for so many training steps; return rank -> what it wrote of them.

    Args:
        folder: Gets the process group, and what the ranks write under this name.
        of: Which mode of the script it is, for an error.
    """
    (folder / name).mkdir()
    code = started(command, folder, {"OVERLAYCCL_STEPS": f"{steps} {folder / name}", **variables}, sys.stderr)
    return launched(folder / name, of, code)


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
class DeployedWays:
    """What a run deployed for the calls of a script, or what a script that tuned itself has kept.

    Attributes:
        module: The deployed module.
        rows: Which calls each Case makes, as in ways.json.
        ranks: How many ranks the captured script had.
        others: What else was chosen, and why no call of the script is made so: a line each.
    """

    module: Path
    rows: list[dict[str, Any]]
    ranks: int
    others: list[str]

    def lay(self, folder: Path) -> None:
        """Lay both files into a folder of proven ways."""
        shutil.copyfile(self.module, folder / MODULE)
        (folder / WAYS).write_text(json.dumps(self.rows, indent=1))


def ways_of(tree: Path) -> DeployedWays:
    """Return what a run deployed.

    A Case whose plain calls stand, or whose other way is not faster beyond noise, has no row.

    Args:
        tree: Results of `snakemake ... --config captured=FILE`, or the folder of `overlayccl run --online --keep`.

    Raises:
        ValueError: It has no deployed module of captured calls, or not the one that was timed, or is of another
            step than the one captured there.
    """
    if (tree / WAYS).is_file():
        return _kept(tree)
    tables = [(DEPLOYED, tree / DEPLOYED_FILE), (CASES, tree / "problems" / CAPTURED / "cases.parquet")]
    module, captured, preset = tree / "deploy" / MODULE, tree / KEPT, tree / FILE
    if not all(path.is_file() for path in (module, captured, preset, *(path for _, path in tables))):
        raise ValueError(
            f"{tree}: no deployed module of captured calls: give the results of `snakemake --profile local all "
            "--config captured=calls.parquet`"
        )
    if any(not_as_confirmed([module.with_suffix(".json")])):
        raise ValueError(
            f"{module}: not the module that was timed. Make it again: {remake(tree / DEPLOYED_FILE)}"
        )
    deployed, cases = (read_unchanged(*table) for table in tables)
    calls = read(CAPTURED_CALLS, captured)
    if not is_of(tree, parsed(preset)):
        raise ValueError(
            f"{tree}: its preset is of other calls than those in {KEPT}: run it again in a new folder"
        )
    found = {row["case"]: row for row in deployed.filter(problem=CAPTURED).iter_rows(named=True)}
    together = [_of_region(region) for region in bundles(calls)]
    rows, others, uncertain = [], [], 0
    for case in cases.iter_rows(named=True):
        chosen, made = found.get(case["case"]), _of_case(case)
        if chosen is None or (chosen["instead"] or chosen["arm"]) == ArmName.DEVELOPER:
            continue
        keys = [one.key._replace(hosts=case["ranks"] // case["ranks_per_node"]) for one in made]
        if _least_gain(chosen) <= FASTER:
            uncertain += 1
        elif len(made) == 1:
            rows.append({"key": keys[0], "case": case["case"]})
        elif made in together:
            rows.append({"bundle": keys, "case": case["case"]})
        else:
            others.append(_by_hand(case["case"], made, calls))
    if uncertain:
        others.append(f"{uncertain} of {cases.height} Cases have another way that is not faster beyond noise")
    return DeployedWays(module=module, rows=rows, ranks=int(calls["world_size"][0]), others=others)


def _kept(folder: Path) -> DeployedWays:
    """Return what a script found about its calls while it trained; the first group that knows decides."""
    if not (folder / MODULE).is_file():
        raise ValueError(f"{folder}: no {MODULE} beside {WAYS}: {AGAIN}")
    with _whole(folder / WAYS):
        keys = {Key(*row["key"]): str(row["case"]) for row in json.loads((folder / WAYS).read_text())}
    digest = ways_digest([(folder / name).read_bytes() for name in (MODULE, WAYS)])
    found: dict[Key, str] = {}
    sizes, done = [], set()
    for file in sorted(folder.glob(FOUND), key=lambda file: int(file.stem.rpartition("-")[2])):
        with _whole(file):
            told = json.loads(file.read_text())
            if told["where"]["ways"] == digest:
                sizes.append(int(told["where"]["world_size"]))
                for one in told["calls"].values():
                    found.setdefault(Key(*one["key"]), str(one["way"]))
                    done |= {Key(*one["key"])} if one.get("done", True) else set()
    if not sizes:
        raise ValueError(
            f"{folder}: nothing was found about these ways yet: let `overlayccl run --online` train longer"
        )
    chosen = [
        {"key": key, "case": case, "way": found[key]}
        for key, case in keys.items()
        if found.get(key, PLAIN) != PLAIN
    ]
    missing = len(keys.keys() - done)
    others = [f"{missing} of {len(keys)} calls had not tried all ways: train longer"] if missing else []
    return DeployedWays(module=folder / MODULE, rows=chosen, ranks=sizes[0], others=others)


@contextmanager
def _whole(file: Path) -> Iterator[None]:
    """Name the file in the error if what is read of it is damaged."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{file} is damaged ({error!r}): remove it, and {AGAIN}") from None


def _least_gain(row: Mapping[str, Any]) -> float:
    """Return the low end of how many times as fast as the script's own calls a deployed Program is.

    Of an arm in place of the chosen one: the chosen one's gain over the script's calls, by that over this arm.
    """
    over = 1.0 if row["arm"] == ArmName.DEVELOPER else row["speedup_low"] or 0.0
    if not row["instead"]:
        return float(over)
    known = row["instead"] == row["best_other"] and row["gain_high"]
    return float(over / row["gain_high"]) if known else 0.0


def _by_hand(case: str, made: list[MadeCall], calls: pl.DataFrame) -> str:
    """Say what only an edit of the script brings: the calls of this Case are made one after the other."""
    run = next(region.runs[0] for region in cut(calls)[0] if _of_region(region) == made)
    followed = calls.filter(pl.col("depends_on").is_not_null(), pl.col("call").is_in(run))
    lines = ", ".join(Path(line).name for line in followed["line"].unique(maintain_order=True))
    return (
        f'faster together, if you edit the script (docs/deploying.md): connect("{case}") of '
        f"deploy/{MODULE} for the calls at {lines}"
    )


def _of_case(case: Mapping[str, Any]) -> list[MadeCall]:
    stride = case["groups"] if case["strided"] else 1
    return [made_call(one, case, stride) for one in calls_of(json.loads(case["parameters"]))]


def _of_region(region: Region) -> list[MadeCall]:
    stride = len(region.groups) if region.placed.get("strided") else 1
    return [made_call(one, region.placed, stride) for one in region.described]
