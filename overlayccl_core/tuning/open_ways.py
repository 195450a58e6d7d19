"""The ways of a captured step's calls, for ranks that find out while they train which is the fastest."""

from collections.abc import Iterator, Mapping, Sequence
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
from overlayccl_core.observing.fits import CAPTURED
from overlayccl_core.program.case import Case
from overlayccl_core.program.problem import Direction
from overlayccl_core.tuning.space import OpenWay, space_of

Space = Mapping[Case, Sequence[OpenWay]]
"""Case of one call -> its ways, the script's own first."""


def spaces(
    captured: pl.DataFrame, settings: Settings, deployment: Deployment, capabilities: Capabilities | None
) -> Space:
    """Return the ways of each call of a captured step that has others.

    Raises:
        ValueError: It was captured on another number of ranks, or no call has another way.
    """
    check_ranks(captured, deployment, "--deployment NAME")
    single = [entry for entry in entries(captured) if len(entry["calls"]) == 1]
    asked = {"problems": [CAPTURED], "models": [], "cases": {CAPTURED: single}}
    cases = cases_of(Settings.from_data(settings.model_dump(mode="json") | asked), deployment, CAPTURED)
    found = {
        case: space_of(catalog.build(case), capabilities, deployment.memory_budget_bytes) for case in cases
    }
    return {case: ways for case, ways in found.items() if len(ways) > 1}


def module_of(space: Space, deployment: Deployment) -> str:
    """Return the source of the module that has all ways."""
    printer = printer_of(deployment)
    here = {name: metadata.version(name) for name in printer.VERSIONS if _is_installed(name)}
    printed = [_deployed(case, ways) for case, ways in space.items()]
    return printer.deployed(CAPTURED, printed, Stamp(library=deployment.library, versions=here))


def arms_of(ways: Sequence[OpenWay]) -> Iterator[list[Any]]:
    """Yield the ways of a call as ways.json has them: name, family, parts."""
    for number, way in enumerate(ways):
        yield [way.name if number else PLAIN, way.family, way.parts]


def _deployed(case: Case, ways: Sequence[OpenWay]) -> DeployedCase:
    own, *others = [(way.name, _way(way)) for way in ways]
    return DeployedCase(
        case_id=case.id, has_backward=False, ways={CHOSEN: own[1], PLAIN: own[1], **dict(others)}
    )


def _way(way: OpenWay) -> Way:
    proven = Proven(candidate=way.name, recipe=way.recipe.dumps(), numerics=way.numerics, program=way.program)
    return {Direction.FORWARD: proven}


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
