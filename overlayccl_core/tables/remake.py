"""The command that makes a table, or a whole run, again: in the profile in use, with what its tree is of."""

import os
from pathlib import Path

from overlayccl_core.configuration.fields import parsed

RESULTS, PRESET = "results", "default"
PROFILE = "OVERLAYCCL_PROFILE"  # the variable that tells the profile in use (rules/common.smk)


def profile_in_use() -> str:
    """As it was typed."""
    return os.environ.get(PROFILE, "local")


def snakemake() -> str:
    """The pipeline's command as it is typed, up to what is asked of it."""
    return f"snakemake --profile {profile_in_use()}"


def run_command(tree: str | Path, *targets: str | Path, config: tuple[str, ...] = ()) -> str:
    """What makes files of `results/<deployment>-<preset>`, or (without targets) all of a run, as it is typed.

    The configured deployment and preset need not be named. config: `key=value` besides.
    """
    named = " ".join(map(str, targets)) or "all"
    return f"{snakemake()} {named}{_options(Path(tree), config)}"


def remake(path: str | Path) -> str:
    """The command that makes a table again, whatever stands there now."""
    file = Path(path)
    tree = next((folder for folder in file.parents if folder.parent.name == RESULTS), None)
    options = "" if tree is None else _options(tree)
    return f"{snakemake()} {path} --force{options}"


def _options(tree: Path, besides: tuple[str, ...] = ()) -> str:
    """` --config deployment=... preset=...` where the tree is not the configured one's, and what else is said."""
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
    """What a profile of a folder configures."""
    file = root / "profiles" / profile / "profile.yaml"
    given = parsed(file).get("config", []) if file.exists() else []
    return {key: value for key, _, value in (str(one).partition("=") for one in given)}
