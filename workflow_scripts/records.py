"""What Snakemake recorded of how a results tree was made, and on which machine it was measured."""

import json
import os
import platform
import re
from itertools import chain
from pathlib import Path

from overlayccl_core.configuration.settings import HERE, MACHINE
from overlayccl_core.tables import records
from overlayccl_core.tables.remake import run_command
from workflow_scripts.following import ELSEWHERE

FINGERPRINT = re.compile(r".+ #[0-9a-f]{8}")  # among the parameters of a rule that measures


def measured_on(results: Path, deployment: str, here: str) -> str:
    """The machine (`Backend.fingerprint`) that a tree was measured on, as recorded of its selftest.

    Where that is gone, any other table that was measured tells.

    deployment: what its measurements depend on of it (`Pipeline.ranks_json`). `here` where nothing is recorded, or
    of another deployment: then all is measured anyway.
    """
    first = results / "selftest.parquet"
    others = (table for table in sorted(results.rglob("*.parquet")) if table != first)
    for table in chain([first] if first.exists() else [], others):
        record = records.read(table)
        params = record.parameters if record else ()
        machines = [one for one in params if isinstance(one, str) and FINGERPRINT.fullmatch(one)]
        if machines:
            return machines[0] if deployment in params else here
    return here


def elsewhere(results: Path, machine: str, here: str) -> str:
    """Why nothing is measured in a tree of another machine, and the mend; empty where it is of this one."""
    if machine == here:
        return ""
    return (
        f"{results} was measured on another machine, or with other libraries: {machine}. This is: {here}. The two "
        f"are not mixed: what was measured stays, and nothing is measured. To measure all of it again, here: "
        f"{run_command(results, config=(f'{MACHINE}={HERE}',))}"
    )


def tell_jobs(why: str) -> None:
    """Let jobs know why they may not measure; empty: they may."""
    os.environ[ELSEWHERE] = why


def refuse_unrecorded(results: Path) -> None:
    """ValueError for tables of another host that came without Snakemake's records of them.

    With them it is known of which machine they are; without, what is there counts as made here.
    """
    table = results / "selftest.parquet"
    try:
        host = json.loads(table.with_suffix(".sidecar.json").read_text())["host"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if table.exists() and not records.place_of(table).exists() and host != platform.node():
        raise ValueError(
            f"{results} was measured on {host}, this is {platform.node()}, and nothing here says how its tables "
            f"were made: {records.FOLDER} did not come with them. Move it away to measure this host, or bring "
            f"{records.FOLDER} along"
        )
