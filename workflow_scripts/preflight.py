"""Checks of searches, models and libraries before a job starts. ValueError: the fault and the mend."""

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from overlayccl_core.archiving.unpacked import refuse_unnamed
from overlayccl_core.backends.backend import backend_of
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.models import load as load_model
from overlayccl_core.configuration.models import problems_of, why_not_trained
from overlayccl_core.configuration.searches import Search
from overlayccl_core.sandbox import tracing
from overlayccl_core.search.proposer import asks


def check_search(search: Search, typed: Mapping[str, Any], *, starts: bool) -> None:
    """Check, if jobs will start, the language model of a search and the confinement for its sources.

    Args:
        typed: The user's configuration; in an unpacked archive it must name everything to be asked.
    """
    plugin = asks(search.proposer)
    if plugin is not None and starts:
        try:
            refuse_unnamed(search, Path(), typed)
            plugin.check(search)
            tracing.check()
        except ValueError as error:
            raise ValueError(f"search {search.name}: {error}") from None


def check_models(models: Iterable[str]) -> None:
    """Check that each model is one to train."""
    for name in models:
        if why := why_not_trained(load_model(name)):
            raise ValueError(
                f"model {name}: {why}: leave it out of `models`; `overlayccl estimate --models {name}` sizes it"
            )


def check_backend(deployment: Deployment, models: Iterable[str]) -> None:
    """Check a backend's libraries (without importing them), its start of ranks, and training if needed."""
    backend = backend_of(deployment)
    missing = [name for name in backend.REQUIRES if find_spec(name) is None]
    if missing:
        raise ValueError(
            f"deployment {deployment.name}: backend {deployment.backend} needs {', '.join(missing)}, which "
            "this Python does not have: install it there (for the backends of this repository `make env` does)"
        )
    if refused := backend.refuses(deployment):
        raise ValueError(refused)
    if (why := backend.cannot_train(deployment)) and (named := ", ".join(models)):
        raise ValueError(
            f"deployment {deployment.name}: backend {deployment.backend} trains no model ({why}), "
            f"and {named} is configured: choose what is deployed by the bench alone, with `models: []` in the "
            "configuration"
        )


def unsolved(name: str, problems: Iterable[str], deployment: Deployment) -> str:
    """Name the unconfigured Problems at a model's sites; empty if there are none."""
    needed = problems_of(load_model(name), deployment.ranks)
    return ", ".join(one for one in needed if one not in problems)
