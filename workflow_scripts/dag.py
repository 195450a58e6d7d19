"""Snakemake's plan, made in-process without starting anything. Partly private: its version is pinned."""

import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from snakemake.api import SnakemakeApi
from snakemake.settings.types import (
    ConfigSettings,
    DAGSettings,
    OutputSettings,
    Quietness,
    RerunTrigger,
    ResourceSettings,
    StorageSettings,
)

ALONE = "machine"  # the resource of rules with all nodes to themselves
EVERYTHING = frozenset(RerunTrigger)
CHECKSUM_LIMIT_BYTES = 10**9  # as in the profiles: tables are compared by content


def planned(
    config: dict[str, Any],
    target: str,
    snakefile: Path = Path("Snakefile"),
    triggers: Iterable[RerunTrigger] = EVERYTHING,
    *,
    configfiles: Iterable[Path] = (),
) -> Any:
    """Return the workflow with its DAG of a target, for the files in the current folder.

    Args:
        configfiles: Files of configuration laid over the Snakefile's own.
    """
    with SnakemakeApi(OutputSettings(dryrun=True, quiet={Quietness.ALL})) as api:
        flow = api.workflow(
            resource_settings=ResourceSettings(cores=1),
            storage_settings=StorageSettings(),
            snakefile=snakefile,
            config_settings=ConfigSettings(config=config, configfiles=list(configfiles)),
        )
        settings = DAGSettings(
            targets={target},
            force_incomplete=True,
            rerun_triggers=frozenset(triggers),
            max_checksum_file_size=CHECKSUM_LIMIT_BYTES,
        )
        flow.dag(settings).execute_workflow(executor="dryrun")
        return flow._workflow


def answered(answer: Callable[[], Any]) -> None:
    """Write the result of `answer` as JSON to standard output, and Snakemake's messages to standard error."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    json.dump(answer(), out)
    out.flush()


def request() -> dict[str, Any]:
    """Read a request from standard input."""
    asked: dict[str, Any] = json.load(sys.stdin)
    return asked
