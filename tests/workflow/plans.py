"""What would Snakemake run, asked in-process: reads a request from standard input, writes the plans.

Run inside a copy of the repository. {"base": {key: value}, "steps": [step, ...]} gives one {rule: [problem or model
or "", ...]} for each step: what `all` may run after a run as `base` says. A plan holds all that stands behind a
checkpoint; what a run then leaves out is not known before. What a step changes is undone after it:

{"edits": {path: text}, "config": {key: value}, "gone": [path], "machine": {"host": name, "torch": version,
"environment": {name: value}}}
"""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest import mock

from workflow_scripts import dag


def finish(base: dict[str, Any] | None = None) -> None:
    """Make the tree look as if `all` had been run as `base` says: every output is there and recorded."""
    for job in dag.planned(base or {}, "all").dag.jobs:
        for output in job.output:
            path = Path(str(output))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"made by {job.rule.name}\n")
    dag.planned(base or {}, "all", touched=True)


def plan(config: dict[str, Any]) -> dict[str, list[str]]:
    """Rule -> Problems or models (or an empty text) of the jobs that `all` may run."""
    flow = dag.planned(config, "all").dag
    planned: dict[str, list[str]] = {}
    for job in flow.jobs:
        if job.rule.name != "all" and str(flow.reason(job)):  # bool(reason) is False once a job is finished
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
    request = dag.request()
    dag.answered(lambda: list(plans(request)))


def plans(request: dict[str, Any]) -> Iterator[dict[str, list[str]]]:
    """One for each step."""
    base = request.get("base", {})
    with mock.patch("workflow_scripts.pipeline.check_backend"):  # nothing starts: ranks need no library
        finish(base)
    for step in request["steps"]:
        before = {path: Path(path).read_text() for path in step["edits"]}
        for path, text in step["edits"].items():
            Path(path).write_text(text)
        for path in step["gone"]:
            Path(path).rename(f"{path}.gone")
        with on(step["machine"]):
            planned = plan(base | step["config"])
        for path in step["gone"]:
            Path(f"{path}.gone").rename(path)
        for path, text in before.items():
            Path(path).write_text(text)
        yield planned


if __name__ == "__main__":
    main()
