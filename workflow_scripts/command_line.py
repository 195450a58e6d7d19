"""What the command line of Snakemake, and the profile that it names, say of a run."""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from overlayccl_core.configuration.profile import read as read_profile
from overlayccl_core.loader import SAFE_PATH
from overlayccl_core.tables.remake import PROFILE

WITHOUT_JOBS = (
    *("lint", "list_target_rules", "list_rules", "print_compilation", "generate_unit_tests", "containerize"),
    *("dag", "rulegraph", "filegraph", "d3dag", "report", "reporter", "summary", "detailed_summary"),
    *("list_changes", "list_input_changes", "list_params_changes", "list_untracked", "list_conda_envs"),
    *("unlock", "archive", "touch", "cleanup_metadata", "cleanup_shadow", "delete_all_output"),
    *("delete_temp_output", "conda_cleanup_envs", "conda_create_envs_only", "container_cleanup_images"),
)  # what Snakemake is asked for in place of a run, as its parser names it


def starts_jobs(dryrun: bool) -> bool:
    """Whether this Snakemake is to start jobs: not where it plans, or does something with what there is.

    Its own parser reads the command line: options have short forms, and are abbreviated.
    """
    if dryrun:
        return False
    from snakemake.cli import get_argument_parser

    asked = get_argument_parser().parse_known_args(sys.argv[1:])[0]
    if asked.report_after_run:
        return True
    return not any(getattr(asked, name) for name in WITHOUT_JOBS)


def prefer_this_python() -> None:
    """Let `python` in a rule's command be the one that Snakemake runs in, activated or not.

    With --sdm conda a rule runs in the environment of envs/local.yaml, whose `python` then comes first.
    """
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()])


def import_nothing_from_here() -> None:
    """For the jobs of a cluster: each begins as `python -m snakemake` in the project's folder."""
    os.environ[SAFE_PATH] = "1"


def lend(clone: Path) -> None:
    """Let the `python` of rules find the package of a clone that is not installed there."""
    named = filter(None, [str(clone), os.environ.get("PYTHONPATH")])
    os.environ["PYTHONPATH"] = os.pathsep.join(named)


def refuse_braces(folder: Path) -> None:
    """ValueError for a folder that Snakemake would take for a pattern: it formats paths below its rules."""
    if set("{}") & set(str(folder)):
        raise ValueError(
            f"{folder}: braces in a path mean something to Snakemake: give the folder another name"
        )


def name_profile() -> None:
    """Let messages name the profile in use: that of the command line, or (in a cluster's job) of who submitted
    it."""
    if names := _profiles():
        os.environ[PROFILE] = names[-1]


def lay_profile(config: dict[str, Any], given: Any) -> None:
    """Put what the profiles in use configure below the keys of --config, here and for jobs on a cluster.

    Snakemake takes the one or the other: --config models=nano would make it forget the profile's deployment.
    config: as Snakemake merged it; given: its ConfigSettings. ValueError: file, field and mend.
    """
    from snakemake.cli import get_profile_dir, parse_config

    laid: dict[str, str] = {}
    for name in _profiles():
        if (found := get_profile_dir(name)) is not None:
            laid |= read_profile(found[1], name).overrides
    below = [f"{key}={value}" for key, value in laid.items() if key not in given.config]
    config |= parse_config(below)
    given.config = {**parse_config(below), **given.config}
    given.config_args = [*below, *given.config_args]  # private: the Snakemake version is pinned


def _profiles() -> list[str]:
    """Of this command, as Snakemake reads it; none in a job, which gets all by --config."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--profile", action="append", default=[])
    named: list[str] = parser.parse_known_args(sys.argv[1:])[0].profile
    return [name for name in named or [os.environ.get("SNAKEMAKE_PROFILE", "none")] if name != "none"]
