"""A captured training step as configuration: `--config captured=calls.parquet` is a preset of a tree of its own.

Its fields are those of the preset `tune`, and the step's calls as Cases of the Problem `captured`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.configuration.deployment import load as load_deployment
from overlayccl_core.configuration.presets import DEFAULT, OwnPreset, is_name, kept
from overlayccl_core.observing.regions import bundles, cut
from overlayccl_core.tables.atomic import write_bytes, write_text
from overlayccl_core.tables.captured import CAPTURED_CALLS
from overlayccl_core.tables.table import read

FOLDER = Path("config/captured")
SUFFIX = ".parquet"
KEPT = f"{CAPTURED_CALLS.name}{SUFFIX}"
"""The step's table in the tree of its run."""
PROBLEM = "captured"
MEASURED_AS = "tune"
"""The preset that says how much is measured."""


def laid(given: str, config: Mapping[str, Any], root: Path = Path()) -> str:
    """Keep the preset of a captured step, and the step's table, in the tree of its run; return the preset's name.

    Args:
        given: The path of a table of `overlayccl capture`, or the name of one in config/captured.
        config: The configuration as read.

    Raises:
        ValueError: There is no such table, a preset has its name, it is of another number of ranks than the
            deployment, or no call of the step has another way.
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
    captured = read(CAPTURED_CALLS, file)
    deployment = load_deployment(root / "config" / "deployments" / f"{config['deployment']}.yaml")
    if (ranks := int(captured["world_size"][0])) != deployment.ranks:
        raise ValueError(
            f"{where}: it was captured on {ranks} ranks, and deployment {deployment.name} has {deployment.ranks}: "
            f"name one of {ranks} (--config deployment=NAME), or capture on {deployment.ranks}"
        )
    asked = fields_of(captured)
    own = OwnPreset(deployment=deployment.name, name=name, fields={**presets[MEASURED_AS], **asked})
    tree = root / own.path.parent
    if not asked.items() <= kept(root, deployment.name, name).get(name, asked).items():
        raise ValueError(
            f"{where}: {tree} has the results of another step of that name: give this one a name of its own "
            f"(overlayccl capture --output NAME{SUFFIX}), or remove that folder"
        )
    write_text(root / own.path, own.text)
    write_bytes(tree / KEPT, file.read_bytes())
    return name


def is_of(tree: Path, fields: Mapping[str, Any]) -> bool:
    """Return whether the preset of a tree asks for the step that is captured there."""
    table = tree / KEPT
    return table.is_file() and fields_of(read(CAPTURED_CALLS, table)).items() <= fields.items()


def fields_of(captured: pl.DataFrame) -> dict[str, Any]:
    """Return the fields of a preset that say which calls it is of."""
    return {"problems": [PROBLEM], "models": [], "cases": {PROBLEM: entries(captured)}}


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
