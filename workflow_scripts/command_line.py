"""Options of a run, from Snakemake's command line and its profile."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from overlayccl_core.configuration import captured
from overlayccl_core.configuration.profile import read as read_profile
from overlayccl_core.loader import SAFE_PATH
from overlayccl_core.tables.remake import PROFILE

CAPTURED = "captured"  # override key
WITHOUT_JOBS = (
    *("lint", "list_target_rules", "list_rules", "print_compilation", "generate_unit_tests", "containerize"),
    *("dag", "rulegraph", "filegraph", "d3dag", "report", "reporter", "summary", "detailed_summary"),
    *("list_changes", "list_input_changes", "list_params_changes", "list_untracked", "list_conda_envs"),
    *("unlock", "archive", "touch", "cleanup_metadata", "cleanup_shadow", "delete_all_output"),
    *("delete_temp_output", "conda_cleanup_envs", "conda_create_envs_only", "container_cleanup_images"),
)  # options in place of a run, named as in Snakemake's parser


def starts_jobs(dryrun: bool) -> bool:
    """Return whether this Snakemake starts jobs: not for a plan, nor with an option in place of a run.

    Snakemake's own parser reads the command line, as options have short forms and abbreviations.
    """
    if dryrun:
        return False
    from snakemake.cli import get_argument_parser

    asked = get_argument_parser().parse_known_args(sys.argv[1:])[0]
    if asked.report_after_run:
        return True
    return not any(getattr(asked, name) for name in WITHOUT_JOBS)


def prefer_this_python() -> None:
    """Make `python` in rules' commands the Python of this Snakemake, activated or not.

    With --sdm conda a rule runs in the environment of envs/local.yaml, with its own `python` first.
    """
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()])


def import_nothing_from_here() -> None:
    """Set PYTHONSAFEPATH: a cluster's jobs begin as `python -m snakemake` in the project's folder."""
    os.environ[SAFE_PATH] = "1"


def lend(clone: Path) -> None:
    """Let the `python` of rules import the package of a clone without installing it."""
    named = filter(None, [str(clone), os.environ.get("PYTHONPATH")])
    os.environ["PYTHONPATH"] = os.pathsep.join(named)


def refuse_braces(folder: Path) -> None:
    """Raise ValueError for braces in a folder's path: Snakemake formats paths below its rules."""
    if set("{}") & set(str(folder)):
        raise ValueError(
            f"{folder}: braces in a path mean something to Snakemake: give the folder another name"
        )


def name_profile() -> None:
    """Record the profile for messages: of the command line, or in a cluster's job of its submitter."""
    if names := _profiles():
        os.environ[PROFILE] = names[-1]


def lay_profile(config: dict[str, Any], given: Any) -> None:
    """Put the profiles' configuration below the keys of --config, here and for jobs on a cluster.

    Snakemake takes one or the other: --config models=nano would drop the profile's deployment.

    Args:
        config: The configuration, merged by Snakemake.
        given: Its ConfigSettings.

    Raises:
        ValueError: Names the file, the field and the mend.
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


def lay_captured(config: dict[str, Any], given: Any) -> Callable[[], None]:
    """Replace `--config captured=FILE` by the preset that the file becomes, here and for jobs on a cluster.

    Returns what writes it into the run's tree, before any job starts.

    Args:
        config: The configuration, merged by Snakemake.
        given: Its ConfigSettings.

    Raises:
        ValueError: Names the file and the mend.
    """
    if CAPTURED not in given.config:
        return lambda: None
    found = captured.preset_of(str(config.pop(CAPTURED)), config)
    preset = config["preset"] = found.own.name
    config["presets"] = {**config["presets"], preset: dict(found.own.fields)}
    given.config = {**{k: v for k, v in given.config.items() if k != CAPTURED}, "preset": preset}
    others = [word for word in given.config_args if not word.startswith((f"{CAPTURED}=", "preset="))]
    given.config_args = [*others, f"preset={preset}"]
    return found.keep


def _profiles() -> list[str]:
    """Return this command's profiles, read as Snakemake does; none in a job, as it gets all by --config."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--profile", action="append", default=[])
    named: list[str] = parser.parse_known_args(sys.argv[1:])[0].profile
    return [name for name in named or [os.environ.get("SNAKEMAKE_PROFILE", "none")] if name != "none"]
