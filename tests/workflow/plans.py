"""What would Snakemake run, asked in-process: reads a request from standard input, writes the plans.

Run inside a copy of the repository. {"base": {key: value}, "steps": [step, ...]} gives one {rule: [problem or model
or "", ...]} for each step: what `all` may run after a run as `base` says. A plan holds all that stands behind a
checkpoint; what a run then leaves out is not known before. What a step changes is undone after it:

{"edits": {path: text}, "config": {key: value}, "gone": [path], "machine": {"host": name, "torch": version,
"environment": {name: value}}}
"""

import json
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest import mock

from snakemake.api import SnakemakeApi
from snakemake.settings.types import (
    ConfigSettings,
    DAGSettings,
    OutputSettings,
    Quietness,
    ResourceSettings,
    StorageSettings,
)

CHECKSUM_LIMIT_BYTES = 10**9


def run(config: dict[str, Any], executor: str, *, everything: bool = False) -> Any:
    """Snakemake's DAG of `all` after a dry run or a touch (which records jobs as done)."""
    with SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api:
        flow = api.workflow(
            resource_settings=ResourceSettings(cores=1),
            storage_settings=StorageSettings(),
            snakefile=Path("Snakefile"),
            config_settings=ConfigSettings(config=config),
        )
        settings = DAGSettings(
            targets={"all"}, forceall=everything, max_checksum_file_size=CHECKSUM_LIMIT_BYTES
        )
        flow.dag(settings).execute_workflow(executor=executor)
        return flow._workflow.dag  # private: the Snakemake version is pinned


def finish(base: dict[str, Any] | None = None) -> None:
    """Make the tree look as if `all` had been run as `base` says: every output is there and recorded."""
    for job in run(base or {}, "dryrun").jobs:
        for output in job.output:
            path = Path(str(output))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"made by {job.rule.name}\n")
    run(base or {}, "touch", everything=True)


def plan(config: dict[str, Any]) -> dict[str, list[str]]:
    """Rule -> Problems or models (or an empty text) of the jobs that `all` may run."""
    dag = run(config, "dryrun")
    planned: dict[str, list[str]] = {}
    for job in dag.jobs:
        if job.rule.name != "all" and str(dag.reason(job)):  # bool(reason) is False once a job is finished
            subject = getattr(job.wildcards, "problem", getattr(job.wildcards, "model", ""))
            planned.setdefault(job.rule.name, []).append(subject)
    return {rule: sorted(subjects) for rule, subjects in planned.items()}


@contextmanager
def on(machine: dict[str, Any]) -> Iterator[None]:
    """As if this were another machine, as far as `machine` says."""
    torch, version = machine.get("torch"), metadata.version
    host = machine.get("host", platform.node())
    with (
        mock.patch.object(platform, "node", lambda: host),
        mock.patch.object(metadata, "version", lambda name: (name == "torch" and torch) or version(name)),
        mock.patch.dict(os.environ, machine.get("environment", {})),
    ):
        yield


def main() -> None:
    """Answer one request."""
    request = json.load(sys.stdin)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    base = request.get("base", {})
    finish(base)
    plans = []
    for step in request["steps"]:
        before = {path: Path(path).read_text() for path in step["edits"]}
        for path, text in step["edits"].items():
            Path(path).write_text(text)
        for path in step["gone"]:
            Path(path).rename(f"{path}.gone")
        with on(step["machine"]):
            plans.append(plan(base | step["config"]))
        for path in step["gone"]:
            Path(f"{path}.gone").rename(path)
        for path, text in before.items():
            Path(path).write_text(text)
    json.dump(plans, answers)


if __name__ == "__main__":
    main()
