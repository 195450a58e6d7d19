"""Snakemake's records of a results tree: how it was made, and on which machine."""

import json
import os
import platform
import re
from collections.abc import Mapping
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

from overlayccl_core.configuration.settings import HERE, MACHINE
from overlayccl_core.launching.fingerprint import one_machine
from overlayccl_core.tables import records
from overlayccl_core.tables.page import is_table
from overlayccl_core.tables.remake import run_command
from overlayccl_core.tables.sidecar import environment, path_of
from workflow_scripts.following import ELSEWHERE

CLOCKS_APART_S = 60.0  # allowed difference between clocks of a cluster's hosts
FINGERPRINT = re.compile(r".+ #[0-9a-f]{8}")  # a parameter of rules with ranks


def measured_on(results: Path, deployment: str, here: str) -> str:
    """Return the machine (`Backend.fingerprint`) of a tree's measurements, from the record of its selftest.

    Without that record, any other measured table tells.

    Args:
        deployment: The fields its measurements depend on (`Pipeline.ranks_json`).
        here: The fingerprint of this machine. It is returned if nothing is recorded, or only another deployment
            (then all is measured anyway).
    """
    first = results / "selftest.parquet"
    others = (table for table in sorted(results.rglob("*.parquet")) if table != first)
    for table in chain([first] if first.exists() else [], others):
        record = records.read(table)
        params = record.parameters if record else ()
        machines = [one for one in params if isinstance(one, str) and FINGERPRINT.fullmatch(one)]
        if machines:
            same = deployment not in params or one_machine(machines[0], here)
            return here if same else machines[0]
    return here


def elsewhere(results: Path, machine: str, here: str) -> str:
    """Explain why nothing is measured in another machine's tree, with the mend; empty in a tree of this one."""
    if machine == here:
        return ""
    return (
        f"{results} was measured on another machine, or with other libraries: {machine}. This is: {here}. The two "
        f"are not mixed: what was measured stays, and nothing is measured. To measure all of it again, here: "
        f"{run_command(results, config=(f'{MACHINE}={HERE}',))}"
    )


def besides(results: Path) -> str:
    """List differences between this host and a tree's, none known to change a measurement.

    They are the host's name and the environment variables for libraries. Empty without differences or records.
    """
    told = _sidecar(results)
    there = {"host": told.get("host"), **(told.get("environment") or {})}
    here = {"host": platform.node(), **environment()}
    others = [
        f"{name} {there.get(name, 'unset')} (here {here.get(name, 'unset')})"
        for name in dict.fromkeys((*there, *here))
        if there.get(name) != here.get(name)
    ]
    if "environment" not in told or not others:
        return ""
    return (
        f"{results} was measured with {', '.join(others)}: none of that is known to change what is measured. If it "
        f"does here, name the variable in the deployment's `environment`, or measure all again: "
        f"{run_command(results, config=(f'{MACHINE}={HERE}',))}"
    )


def _sidecar(results: Path) -> Mapping[str, Any]:
    """Return the sidecar of a tree's selftest; empty if it cannot be read."""
    try:
        told = json.loads((results / "selftest.sidecar.json").read_text())
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def tell_jobs(why: str) -> None:
    """Tell jobs why they may not measure; empty: they may."""
    os.environ[ELSEWHERE] = why


def unrecorded(results: Path) -> str:
    """Name tables without Snakemake's records, with the mend; empty: none.

    Snakemake would keep such a table, whatever its origin. A table of an interrupted job is made again. Other files
    in the tree do not count. A table copied over another one does not belong to the record here: its sidecar has
    other times.
    """
    tables = [table for table in sorted(results.rglob("*.parquet")) if is_table(table.relative_to(results))]
    unknown = [table for table in tables if not (records.is_incomplete(table) or _is_of_its_record(table))]
    if not unknown:
        return ""
    more = f" and {len(unknown) - 1} more tables" if len(unknown) > 1 else ""
    return (
        f"nothing here says how {unknown[0]}{more} came about, and so whether to make them again: {records.FOLDER} "
        f"did not come with them. Bring {records.FOLDER} along, or move {results} away"
    )


def _is_of_its_record(table: Path) -> bool:
    """Return whether the recorded job wrote the table, judged by the start time in its sidecar, if any."""
    if not records.record_path(table).exists():
        return False
    record = records.read(table)
    if record is None or record.ended < record.started:
        return True  # a damaged record, or a clock set back, tells nothing
    try:
        began = datetime.fromisoformat(json.loads(path_of(table).read_bytes())["started_utc"]).timestamp()
    except (OSError, ValueError, KeyError, TypeError):
        return True  # no readable sidecar: reading the table will report it
    return record.started - CLOCKS_APART_S <= began <= record.ended + CLOCKS_APART_S
