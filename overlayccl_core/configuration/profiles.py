"""What a Snakemake profile says of the configuration: its `config`, which stands for --config."""

from collections.abc import Mapping
from pathlib import Path

from overlayccl_core.configuration.fields import hint, parsed

FOLDER = Path("profiles")


def overrides_of(name: str, root: Path) -> dict[str, str]:
    """Key to value of the profile's `config`; empty where it has none. ValueError: file, field and mend."""
    file = root / FOLDER / name / "profile.yaml"
    if not file.is_file():
        known = sorted(path.parent.name for path in (root / FOLDER).glob("*/profile.yaml"))
        raise ValueError(f"no profile {name!r}: {file} does not exist: {hint(name, known or ['none'])}")
    try:
        return _overrides(parsed(file))
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def _overrides(profile: object) -> dict[str, str]:
    if not isinstance(profile, Mapping):
        raise ValueError(f"must be a mapping of Snakemake's options (got {type(profile).__name__})")
    config = profile.get("config", [])
    if isinstance(config, Mapping):
        return {str(key): str(value) for key, value in config.items()}
    if not isinstance(config, list) or not all(isinstance(item, str) and "=" in item for item in config):
        raise ValueError(f"config: must be a list of key=value, such as [deployment=local] (got {config!r})")
    return {key.strip(): value.strip() for key, _, value in (item.partition("=") for item in config)}
