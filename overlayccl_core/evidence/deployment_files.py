"""The source of a Problem's module, with the chosen Programs or their replacements."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import polars as pl

from overlayccl_core import loader
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.emit.deployed_case import CHOSEN, PLAIN, DeployedCase, Proven, Stamp, Way
from overlayccl_core.evidence.choices import ProblemChoice, deployed_rows
from overlayccl_core.evidence.predictions import rows_at
from overlayccl_core.launching import fingerprint as fingerprints
from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.problem import Direction, Place

Row = Mapping[str, Any]


class Printer(Protocol):
    """Names defined by `backends/<name>/deployed.py`: printing a backend's modules for deployment."""

    VERSIONS: tuple[str, ...]
    """Software that a module compares with what it finds where it runs: as far as a measurement's fingerprint tells
    its version, under that name."""

    def deployed(self, problem: str, cases: Sequence[DeployedCase], stamp: Stamp) -> str:
        """Return the source of deploy/<problem>.py, from its arguments alone. ValueError as in `emit.deployed`."""


def printer_of(deployment: Deployment) -> Printer:
    """Return the deployment's printer; ValueError if its backend has none."""
    return loader.plug_in(Printer, "backends", deployment.backend, "deployed")


def file_of(
    problem: str,
    library: str,
    fingerprint: str,
    printer: Printer,
    decided: ProblemChoice,
    placed: Mapping[Place, str],
) -> str | None:
    """Return the source of deploy/<problem>.py: the chosen one, to the byte, if all of it stands.

    placed: as for `deployed_rows`. None if the framework's own is kept at every Case.
    """
    if placed.keys().isdisjoint(decided.choice.select("case", "direction").iter_rows()):
        return decided.module
    rows = deployed_rows(decided, placed)
    return module_of(problem, library, fingerprint, printer, decided.finalists, rows) if rows else None


def module_of(
    problem: str,
    library: str,
    fingerprint: str,
    printer: Printer,
    finalists: pl.DataFrame,
    held: Mapping[Place, Row],
) -> str:
    """Return the source of a module with rows of `finalists` at their Cases and directions.

    It depends on recipes, Programs, library and versions alone; versions are those of the measurement.

    Raises:
        ValueError: The fingerprint has none of the versions that a module compares.
    """
    versions = {name: there for name in printer.VERSIONS if (there := fingerprints.part(fingerprint, name))}
    if not versions:
        wanted = " or ".join(printer.VERSIONS)
        raise ValueError(f"no version of {wanted} in the fingerprint {fingerprint!r}: measure again")
    stamp = Stamp(library=library, versions=versions)
    cases = list(dict.fromkeys(case for case, _ in held))
    return printer.deployed(problem, [_entry(case, finalists, held) for case in cases], stamp)


def _entry(case: str, finalists: pl.DataFrame, held: Mapping[Place, Row]) -> DeployedCase:
    places = [(case, d) for d in Direction if not rows_at(finalists, (case, d)).is_empty()]

    def way(rows: Mapping[Place, Row]) -> Way:
        return {place[1]: _proven(place, finalists, rows) for place in places}

    return DeployedCase(
        case_id=case,
        has_backward=(case, Direction.BACKWARD) in places,
        ways={CHOSEN: way(held), PLAIN: way({})},
    )


def _proven(place: Place, finalists: pl.DataFrame, rows: Mapping[Place, Row]) -> Proven:
    """Return the Program of a row, or the developer's.

    A direction that exchanges nothing has no choice: the developer's Program is all there is.
    """
    developer = rows_at(finalists, place).filter(pl.col("arm") == ArmName.DEVELOPER).row(0, named=True)
    row = rows.get(place, developer)
    said = {name: row[name] for name in ("candidate", "recipe", "numerics")}
    return Proven(program=loads(row["program_json"]), **said)
