"""What `choose` deploys: the source of a module."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import polars as pl

from overlayccl_core import loader
from overlayccl_core.backends import fingerprint as fingerprints
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.emit.deployed_case import DeployedCase, Stamp
from overlayccl_core.evidence.predictions import Place, at
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.library import Role
from overlayccl_core.program.problem import Direction
from overlayccl_core.program.program import Program

Row = Mapping[str, Any]


class Printer(Protocol):
    """What `backends/<name>/deployed.py` defines: how a backend's modules are deployed."""

    VERSIONS: tuple[str, ...]
    """Software that a module compares with what it finds where it runs: as far as a measurement's fingerprint tells
    its version, under that name."""

    def deployed(self, problem: str, cases: Sequence[DeployedCase], stamp: Stamp) -> str:
        """The source of deploy/<problem>.py, a function of its arguments alone. ValueError as `emit.deployed`."""


def printer_of(deployment: Deployment) -> Printer:
    """The deployment's; ValueError where its backend has none."""
    return loader.plug_in(Printer, "backends", deployment.backend, "deployed")


def module_of(
    problem: str,
    library: str,
    fingerprint: str,
    printer: Printer,
    seeds: pl.DataFrame,
    shortlist: pl.DataFrame,
    choices: Sequence[Row],
) -> str:
    """The source of deploy/<problem>.py.

    A function of recipes, Programs, library and versions alone, as `fingerprint` tells them: those of the
    measurement. ValueError for a measurement that tells no version that a module is to compare.
    """
    versions = {name: there for name in printer.VERSIONS if (there := fingerprints.part(fingerprint, name))}
    if not versions:
        wanted = " or ".join(printer.VERSIONS)
        raise ValueError(f"no version of {wanted} in the fingerprint {fingerprint!r}: measure again")
    stamp = Stamp(library=library, versions=versions)
    cases = list(dict.fromkeys(choice["case"] for choice in choices))
    return printer.deployed(problem, [_entry(case, seeds, shortlist, choices) for case in cases], stamp)


def _entry(case: str, seeds: pl.DataFrame, shortlist: pl.DataFrame, choices: Iterable[Row]) -> DeployedCase:
    chosen = {choice["direction"]: choice for choice in choices if choice["case"] == case}
    name, recipe, numerics, forward, plain = _side((case, Direction.FORWARD), seeds, shortlist, chosen)
    backward: dict[str, Any] = {}
    if not at(seeds, (case, Direction.BACKWARD)).is_empty():
        names = ("backward_candidate", "backward_recipe", "backward_numerics", "backward", "plain_backward")
        backward = dict(zip(names, _side((case, Direction.BACKWARD), seeds, shortlist, chosen), strict=True))
    return DeployedCase(
        case_id=case,
        candidate=name,
        recipe=recipe,
        numerics=numerics,
        forward=forward,
        plain_forward=plain,
        has_backward=bool(backward),
        **backward,
    )


def _side(
    place: Place, seeds: pl.DataFrame, shortlist: pl.DataFrame, chosen: Mapping[str, Row]
) -> tuple[str, str, str, Program, Program]:
    """(candidate, recipe, numerics, Program, the developer's Program) of one direction.

    Where nothing is exchanged and so nothing was chosen, the developer's Program is all there is.
    """
    developer = at(seeds, place).filter(pl.col("role") == Role.DEVELOPER).row(0, named=True)
    if place[1] in chosen:
        digest = chosen[place[1]]["program"]
        row = at(shortlist, place).filter(pl.col("program") == digest).row(0, named=True)
        name = row["candidate"]
    else:
        row, name = developer, developer["strategy"]
    plain = loads(developer["program_json"])
    return name, row["recipe"], row["numerics"], loads(row["program_json"]), plain
