"""`overlayccl doctor`: what this machine can run, what is missing, and the mends."""

import argparse
import platform

import psutil

from overlayccl_core import project
from overlayccl_core.backends.backend import backend_of
from overlayccl_core.cli.context import Context, context
from overlayccl_core.cli.render import console, plain_table
from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.launching.launcher import DoctorCheck, launcher_of

HEADERS = ("check", "", "detail")
TABLES = ("selftest", "capabilities", "probes", "theta", "summary")


def run(arguments: argparse.Namespace) -> int:
    """Return 0 if nothing needed is missing."""
    where = context(arguments)
    backend = backend_of(where.deployment)
    here = launcher_of(where.deployment).this_host
    checks = [
        DoctorCheck("python", True, platform.python_version()),
        *backend.doctor(where.deployment),
        *launcher_of(where.deployment).doctor(where.deployment, where.profile),
        *([*backend.host(where.deployment), _memory(where)] if here else []),
    ]
    table = plain_table(f"deployment {where.deployment.name}", *HEADERS, fold=HEADERS)
    for check in checks:
        table.add_row(check.name, "ok" if check.ok else "missing", check.detail)
    console().print(table)
    for line in (_rules(where), _results(where)):
        if line:
            console().print(line, highlight=False, soft_wrap=True)
    return 0 if all(check.ok for check in checks) else 1


def _memory(where: Context) -> DoctorCheck:
    on_this_machine = min(where.deployment.ranks, where.deployment.ranks_per_node)
    needed = on_this_machine * where.deployment.memory_budget_bytes
    free = psutil.virtual_memory().available
    detail = f"{bytes_text(free)} free, {bytes_text(needed)} may be used by {on_this_machine} ranks"
    if free < needed:
        detail += ": free some, or lower memory_budget in the deployment's file"
    return DoctorCheck("memory", free >= needed, detail)


def _rules(where: Context) -> str:
    """Tell the differences of a project's rules from the package's; empty without any."""
    files = [file.as_posix() for file in project.other_rules(where.root)]
    if not files:
        return ""
    return (
        f"{', '.join(files)}: not as the installed package has them. Where it was you who changed them, all is "
        "well; else they are of another release: `overlayccl init` in a new folder lays down those of this one"
    )


def _results(where: Context) -> str:
    missing = [name for name in TABLES if not (where.results / f"{name}.parquet").exists()]
    if not missing:
        return (
            f"{where.results}: every table is there (`snakemake -n all` tells whether they are of this code)"
        )
    return f"{where.results}: no {', '.join(missing)} yet. Run: {where.command()}"
