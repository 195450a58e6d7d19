"""The command to make a table, or a whole run, again: for the profile in use and a tree's deployment and preset."""

import os
from pathlib import Path

from overlayccl_core.configuration.fields import parsed

RESULTS, PRESET = "results", "default"
PROFILE = "OVERLAYCCL_PROFILE"  # variable with the profile in use (rules/common.smk)


def profile_in_use() -> str:
    """Return the profile as typed."""
    return os.environ.get(PROFILE, "local")


def snakemake() -> str:
    """Return the start of the pipeline's command, without targets."""
    return f"snakemake --profile {profile_in_use()}"


def run_command(tree: str | Path, *targets: str | Path, config: tuple[str, ...] = ()) -> str:
    """Return the command for files of `results/<deployment>-<preset>`, or (without targets) for a whole run.

    It omits the deployment and preset if they are the configured ones.

    Args:
        config: More `key=value` for --config.
    """
    named = " ".join(map(str, targets)) or "all"
    return f"{snakemake()} {named}{_options(Path(tree), config)}"


def remake(path: str | Path) -> str:
    """Return the command that makes a table again, even over an existing file."""
    file = Path(path)
    tree = next((folder for folder in file.parents if folder.parent.name == RESULTS), None)
    options = "" if tree is None else _options(tree)
    return f"{snakemake()} {path} --force{options}"


def _options(tree: Path, besides: tuple[str, ...] = ()) -> str:
    """Return ` --config deployment=... preset=...` if the tree is not the configured one's, and other settings."""
    given = (*_of_tree(tree), *besides)
    return f" --config {' '.join(given)}" if given else ""


def _of_tree(tree: Path) -> list[str]:
    config = tree.parent.parent / "config"
    known = (file.stem for file in (config / "deployments").glob("*.yaml"))
    of = max((d for d in known if tree.name == d or tree.name.startswith(f"{d}-")), key=len, default=None)
    if of is None:
        return []
    meant = {"deployment": of, "preset": tree.name.removeprefix(of).removeprefix("-") or PRESET}
    try:
        configured = parsed(config / "config.yaml") | of_profile(tree.parent.parent, profile_in_use())
        return [f"{key}={value}" for key, value in meant.items() if configured[key] != value]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def of_profile(root: Path, profile: str) -> dict[str, str]:
    """Return the `config` of a profile below a root."""
    file = root / "profiles" / profile / "profile.yaml"
    given = parsed(file).get("config", []) if file.exists() else []
    return {key: value for key, _, value in (str(one).partition("=") for one in given)}
