"""`overlayccl doctor`: what this machine can run, what is missing, and the mends.

What this machine can run, what is missing, and the mends. With a profile of Slurm's, a job also looks at a node.
"""

import argparse
import platform

from overlayccl_core import project
from overlayccl_core.backends.backend import backend_of
from overlayccl_core.cli.context import Context, context
from overlayccl_core.cli.render import console, plain_table
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.launching.launcher import DoctorCheck, launcher_of

HEADERS = ("check", "", "detail")
TABLES = ("selftest", "capabilities", "probes", "theta", "summary")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
    parser.add_argument(
        "--mend",
        action="store_true",
        help="make the link in the root by which `snakemake --profile NAME` finds profiles/NAME",
    )


def run(arguments: argparse.Namespace) -> int:
    """Return 0 if nothing needed is missing."""
    where = context(arguments)
    backend = backend_of(where.deployment)
    here = launcher_of(where.deployment).this_host
    checks = [
        DoctorCheck("python", True, platform.python_version()),
        *_profile(where, mend=arguments.mend),
        *backend.doctor(where.deployment),
        *launcher_of(where.deployment).doctor(where.deployment, where.profile),
        *(backend.host(_on_one_host(where.deployment)) if here else []),
    ]
    table = plain_table(f"deployment {where.deployment.name}", *HEADERS, fold=HEADERS)
    for place, check in enumerate(checks):
        if not check.ok and any(check.detail in before.detail for before in checks[:place]):
            continue  # a lack is told once
        table.add_row(check.name, "ok" if check.ok else "missing", check.detail)
    console().print(table)
    for line in (_rules(where), _results(where)):
        if line:
            console().print(line, highlight=False, soft_wrap=True)
    return 0 if all(check.ok for check in checks) else 1


def _on_one_host(deployment: Deployment) -> Deployment:
    """Return the deployment with all ranks on one node: its nodes share the cores and the memory of this host."""
    return deployment.changed(ranks_per_node=deployment.ranks)


def _profile(where: Context, *, mend: bool) -> list[DoctorCheck]:
    """Check that Snakemake finds the profile from the root. ValueError if it cannot be mended."""
    name = where.profile.name if where.profile else project.UNLINKED
    if name == project.UNLINKED:
        if mend:
            raise ValueError("--mend makes the link of a profile of yours: name it with --profile")
        return []
    if mend:
        project.link(where.root, name)
    if project.is_linked(where.root, name):
        return [DoctorCheck("profile", True, name)]
    missing = f"`snakemake --profile {name}` does not find {project.PROFILES}/{name}"
    linked = f"`overlayccl doctor --profile {name} --mend` makes the link in the root that it needs"
    return [DoctorCheck("profile", False, f"{missing}: {linked}")]


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
