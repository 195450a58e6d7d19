"""A captured training step as configuration: `--config captured=calls.parquet` is a preset of a tree of its own.

Its fields are those of the preset `tune`, and the step's calls as Cases of the Problem `captured`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.deployment import load as load_deployment
from overlayccl_core.configuration.presets import DEFAULT, OwnPreset, is_name
from overlayccl_core.observing.fits import CAPTURED
from overlayccl_core.observing.regions import bundles, cut
from overlayccl_core.tables.atomic import write_bytes, write_text
from overlayccl_core.tables.captured import CAPTURED_CALLS
from overlayccl_core.tables.table import read

FOLDER = Path("config/captured")
SUFFIX = ".parquet"
KEPT = f"{CAPTURED_CALLS.name}{SUFFIX}"
"""The step's table in the tree of its run."""
MEASURED_AS = "tune"
"""The preset that says how much is measured."""


@dataclass(frozen=True, kw_only=True)
class CapturedPreset:
    """The preset of a captured step.

    Attributes:
        own: The preset.
        file: The step's table.
    """

    own: OwnPreset
    file: Path

    def keep(self, root: Path = Path()) -> None:
        """Write both into the tree of the run, where its jobs find them."""
        write_text(root / self.own.path, self.own.text)
        write_bytes(root / self.own.path.parent / KEPT, self.file.read_bytes())


def preset_of(given: str, config: Mapping[str, Any], root: Path = Path()) -> CapturedPreset:
    """Return the preset of a captured step.

    Args:
        given: The path of a table of `overlayccl capture`, or the name of one in config/captured.
        config: The configuration as read.

    Raises:
        ValueError: There is no such table, a preset has its name, it is of another number of ranks than the
            deployment, no call of the step has another way, or another step has its tree.
    """
    file = Path(given) if given.endswith(SUFFIX) else root / FOLDER / f"{given}{SUFFIX}"
    where = f"--config captured={given}"
    if not file.is_file():
        there = ", ".join(sorted(one.stem for one in (root / FOLDER).glob(f"*{SUFFIX}"))) or "none"
        raise ValueError(
            f"{where}: there is no {file} ({FOLDER} has {there}): `overlayccl capture -- COMMAND` writes one"
        )
    name, presets = file.stem, config["presets"]
    if config["preset"] not in (DEFAULT, name) or name in presets or not is_name(name):
        raise ValueError(
            f"{where}: a captured step is a preset of its own: leave `preset` out, and name the file in small "
            f"letters, unlike {', '.join(presets)}"
        )
    if MEASURED_AS not in presets:
        raise ValueError(
            f"{where}: config/config.yaml has no preset `{MEASURED_AS}`, by which it is measured: copy a new "
            "project's (overlayccl init)"
        )
    captured = read(CAPTURED_CALLS, file)
    deployment = load_deployment(root / "config" / "deployments" / f"{config['deployment']}.yaml")
    try:
        check_ranks(captured, deployment, "--config deployment=NAME")
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    fields = {**presets[MEASURED_AS], **fields_of(captured)}
    own = OwnPreset(deployment=deployment.name, name=name, fields=fields)
    tree = root / own.path.parent
    if (tree / KEPT).exists() and not is_of(tree, fields):
        raise ValueError(
            f"{where}: {tree} has the results of another step of that name: give this one a name of its own "
            f"(overlayccl capture --output NAME{SUFFIX}), or remove that folder"
        )
    return CapturedPreset(own=own, file=file)


def check_ranks(captured: pl.DataFrame, deployment: Deployment, option: str) -> None:
    """ValueError if a step was captured on another number of ranks than the deployment's; option: its mend."""
    if (ranks := int(captured["world_size"][0])) != deployment.ranks:
        raise ValueError(
            f"it was captured on {ranks} ranks, and deployment {deployment.name} has {deployment.ranks}: "
            f"name one of {ranks} ({option}), or capture on {deployment.ranks}"
        )


def is_of(tree: Path, fields: Mapping[str, Any]) -> bool:
    """Return whether the preset of a tree asks for the step that is captured there."""
    table = tree / KEPT
    return table.is_file() and fields_of(read(CAPTURED_CALLS, table)).items() <= fields.items()


def fields_of(captured: pl.DataFrame) -> dict[str, Any]:
    """Return the fields of a preset that say which calls it is of."""
    return {"problems": [CAPTURED], "models": [], "cases": {CAPTURED: entries(captured)}}


def entries(captured: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the entries of the Problem `captured`, out of `captured_calls`: single calls first, each entry once.

    Raises:
        ValueError: No call of the step has another way; with the reasons.
    """
    regions, fences = cut(captured)
    if not regions:
        why = ", ".join(dict.fromkeys(fence.why for fence in fences))
        raise ValueError(f"the captured step has no call with another way: {why or 'it makes no call'}")
    single = [
        {**region.placed, "calls": [{"kind": call["kind"], "elements": call["elements"]}]}
        for region in regions
        for call in region.described
    ]
    several = [
        {**region.placed, "calls": [dict(call) for call in region.described]}
        for region in (*regions, *bundles(captured))
        if len(region.described) > 1
    ]
    found: list[dict[str, Any]] = []
    for entry in (*single, *several):
        if entry not in found:
            found.append(entry)
    return found
