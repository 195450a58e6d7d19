"""The ways of a step's single calls, and their folder for ranks that find out which is the fastest, or are told."""

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from typing import Any

import polars as pl

from overlayccl_core import catalog
from overlayccl_core.configuration.captured import check_ranks, entries
from overlayccl_core.configuration.cases import cases_of
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.emit.deployed_case import CHOSEN, PLAIN, DeployedCase, Proven, Stamp, Way
from overlayccl_core.evidence.deployment_files import printer_of
from overlayccl_core.launching import fingerprint as fingerprints
from overlayccl_core.observing.fits import CAPTURED
from overlayccl_core.process_group.descent import TunedArm
from overlayccl_core.program.case import Case
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.problem import Direction
from overlayccl_core.rewrites.recipe import Recipe
from overlayccl_core.tuning.keys import key_of
from overlayccl_core.tuning.space import OpenWay, space_of

Space = Mapping[Case, Sequence[OpenWay]]
"""Case of one call -> its ways, the script's own first."""


def spaces(captured: pl.DataFrame, deployment: Deployment, capabilities: Capabilities | None) -> Space:
    """Return the ways of each call of a captured step that has others.

    Raises:
        ValueError: It was captured on another number of ranks, or no call has another way.
    """
    check_ranks(captured, deployment, "--deployment NAME")
    return spaces_of(cases_of_calls(entries(captured), deployment), deployment, capabilities)


def cases_to_tune(settings: Settings, deployment: Deployment) -> list[Case]:
    """Return the Cases of the single calls that are configured: of a captured step, else of `tune.calls`.

    Raises:
        ValueError: There is none.
    """
    calls = settings.cases.get(CAPTURED) or settings.tune.calls
    if not calls:
        raise ValueError(
            "tune.calls names no call: name some there (docs/your-script.md), or a captured step, --config "
            "captured=calls.parquet"
        )
    return cases_of_calls(calls, deployment)


def cases_of_calls(calls: Iterable[Mapping[str, Any]], deployment: Deployment) -> list[Case]:
    """Return the Cases of single calls, out of entries of the Problem `captured`.

    Args:
        calls: Those with several calls are left out: they are regions of a captured step.

    Raises:
        ValueError: An entry is not valid, or there is none.
    """
    single = tuple(entry for entry in calls if len(entry.get("calls", ())) < 2)
    settings = Settings.model_construct(models=(), cases={CAPTURED: single} if single else {})
    return cases_of(settings, deployment, CAPTURED)


def spaces_of(cases: Iterable[Case], deployment: Deployment, capabilities: Capabilities | None) -> Space:
    """Return the ways of each Case that has others than its own."""
    budget = deployment.memory_budget_bytes
    found = {case: space_of(catalog.build(case), capabilities, budget) for case in cases}
    return {case: ways for case, ways in found.items() if len(ways) > 1}


def module_of(space: Space, deployment: Deployment, fingerprint: str = "") -> str:
    """Return the source of the module that has all ways.

    fingerprint: Of the measurement whose versions the module names; default: those that are installed.
    """
    printer = printer_of(deployment)
    told = {
        name: fingerprints.part(fingerprint, name) if fingerprint else _installed(name)
        for name in printer.VERSIONS
    }
    stamp = Stamp(library=deployment.library, versions={name: one for name, one in told.items() if one})
    return printer.deployed(CAPTURED, [_deployed(case, ways) for case, ways in space.items()], stamp)


def rows_of(space: Space) -> str:
    """Return ways.json: which Case makes which call, and its ways, each with name, family and parts."""
    rows = [{"key": key_of(case), "case": case.id, "ways": arms_of(ways)} for case, ways in space.items()]
    return json.dumps(rows, indent=1)


def arms_of(ways: Sequence[OpenWay]) -> list[TunedArm]:
    """Return the ways of a call as its ranks know them: the first is the script's own call."""
    return [TunedArm(way.name if number else PLAIN, way.family, way.parts) for number, way in enumerate(ways)]


def space_of_rows(cases: Iterable[Case], rows: pl.DataFrame) -> Space:
    """Return the ways that were timed. rows: table `timed_ways`; cases: those of `cases_to_tune`."""
    timed = rows.unique(["case", "candidate"], keep="first", maintain_order=True)
    found: dict[Case, list[OpenWay]] = {}
    for case in cases:
        for row in timed.filter(case=case.id).iter_rows(named=True):
            way = OpenWay(
                **{name: row[name] for name in ("family", "parts", "numerics")},
                recipe=Recipe.from_json(json.loads(row["recipe"])),
                program=loads(row["program_json"]),
            )
            found.setdefault(case, []).append(way)
    return found


def _deployed(case: Case, ways: Sequence[OpenWay]) -> DeployedCase:
    own, *others = [(way.name, _way(way)) for way in ways]
    return DeployedCase(
        case_id=case.id, has_backward=False, ways={CHOSEN: own[1], PLAIN: own[1], **dict(others)}
    )


def _way(way: OpenWay) -> Way:
    proven = Proven(candidate=way.name, recipe=way.recipe.dumps(), numerics=way.numerics, program=way.program)
    return {Direction.FORWARD: proven}


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
