"""Snakemake's own plan, asked in-process: nothing is started. Partly private: its version is pinned."""

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

ALONE = "machine"  # the resource of rules that have all nodes to themselves
EVERYTHING = frozenset(RerunTrigger)
CHECKSUM_LIMIT_BYTES = 10**9  # that of the profiles: a table is compared by its content


def planned(
    config: dict[str, Any],
    target: str,
    snakefile: Path = Path("Snakefile"),
    triggers: Iterable[RerunTrigger] = EVERYTHING,
    *,
    configfiles: Iterable[Path] = (),
) -> Any:
    """The workflow with its DAG of a target, of the files in the folder that this process is in.

    configfiles: what they say goes over the Snakefile's own.
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
    """Write what `answer` gives as JSON to standard output, and all that Snakemake says to standard error."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    json.dump(answer(), out)
    out.flush()


def request() -> dict[str, Any]:
    """What was asked on standard input."""
    asked: dict[str, Any] = json.load(sys.stdin)
    return asked
