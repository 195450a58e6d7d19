"""What would Snakemake run, asked in-process: reads a request from standard input, writes the plans.

Run inside a copy of the repository. {"base": {key: value}, "target": name, "steps": [step, ...]} gives one {rule:
[problem or model or "", ...]} of all jobs that the target has, {rule: [rule that it reads from, ...]}, and one of
jobs for each step: what the target (without one: `all`) may run after a run as `base` says. A plan holds all that
stands behind a checkpoint; what a run then leaves out is not known before. What a step changes is undone after it:

{"edits": {path: text}, "config": {key: value}, "gone": [path], "machine": {"host": name,
"kernel": name, "torch": version, "environment": {name: value}}, "by_code": whether no plan is made (`by_code`)}
"""

import asyncio
import os
import platform
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest import mock

from overlayccl_core.digest import Sources
from workflow_scripts import dag


def finish(base: dict[str, Any] | None = None, target: str = "all") -> Any:
    """Make the tree look as if a target had been run as `base` says: every output is there and recorded.

    Gives the workflow.
    """
    jobs = [job for job in dag.planned(base or {}, target).dag.jobs if job.shellcmd]
    for job in jobs:
        for output in job.output:
            path = Path(str(output))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"made by {job.rule.name}\n")
    with mock.patch("workflow_scripts.pipeline.unrecorded", lambda _: ""):  # now they will be
        flow = dag.planned(base or {}, target)
    for job in flow.dag.jobs:
        asyncio.run(flow.persistence.finished(job))
    return flow


def plan(config: dict[str, Any], target: str = "all") -> dict[str, list[str]]:
    """Rule -> Problems or models (or an empty text) of the jobs that a target may run."""
    flow = dag.planned(config, target).dag
    # bool(reason) is False once a job is finished
    return _subjects(job for job in flow.jobs if job.shellcmd and str(flow.reason(job)))


def by_code(flow: Any) -> dict[str, list[str]]:
    """The jobs of a finished workflow whose code is another by now, and all behind them.

    As Snakemake plans it after an edit of the package that changes nothing else, in a fraction of the time.
    """
    sources, pipeline = Sources(), flow.globals["PIPELINE"]

    def code_now(job: Any) -> str:
        rule = shlex.split(job.params.command)[0]  # two rules search
        names = {name: job.wildcards_dict.get(name) for name in ("problem", "model", "search")}
        return sources.digest(rule, *pipeline.plugins(rule, **names))

    found = [job for job in flow.dag.jobs if job.shellcmd and code_now(job) != job.params.code]
    for job in found:  # grows
        found += [one for one in flow.dag.depending[job] if one.shellcmd and one not in found]
    return _subjects(found)


def _subjects(jobs: Iterable[Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for job in jobs:
        subject = getattr(job.wildcards, "problem", getattr(job.wildcards, "model", ""))
        found.setdefault(job.rule.name, []).append(subject)
    return {rule: sorted(subjects) for rule, subjects in found.items()}


@contextmanager
def on(machine: dict[str, Any]) -> Iterator[None]:
    """As if this were another machine, as far as `machine` says."""
    torch, version = machine.get("torch"), metadata.version
    host, kernel = machine.get("host", platform.node()), machine.get("kernel", platform.release())
    with (
        mock.patch.object(platform, "node", lambda: host),
        mock.patch.object(platform, "release", lambda: kernel),
        mock.patch.object(metadata, "version", lambda name: (name == "torch" and torch) or version(name)),
        mock.patch.dict(os.environ, machine.get("environment", {})),
    ):
        yield


def main() -> None:
    """Answer one request."""
    request = dag.request()
    dag.answered(lambda: list(plans(request)))


def plans(request: dict[str, Any]) -> Iterator[dict[str, list[str]]]:
    """All jobs, what their rules read, then the jobs of each step."""
    base, target = request.get("base", {}), request.get("target", "all")
    with mock.patch("workflow_scripts.pipeline.check_backend"):  # nothing starts: ranks need no library
        flow = finish(base, target)
        jobs = [job for job in flow.dag.jobs if job.shellcmd]
        yield _subjects(jobs)
        reads = {(job.rule.name, of.rule.name) for job in jobs for of in flow.dag.dependencies[job]}
        yield {
            rule: sorted(of for one, of in reads if one == rule) for rule in {job.rule.name for job in jobs}
        }
    for step in request["steps"]:
        before = {path: Path(path).read_text() for path in step["edits"]}
        for path, text in step["edits"].items():
            Path(path).write_text(text)
        for path in step["gone"]:
            Path(path).rename(f"{path}.gone")
        with on(step["machine"]):
            planned = by_code(flow) if step["by_code"] else plan(base | step["config"], target)
        for path in step["gone"]:
            Path(f"{path}.gone").rename(path)
        for path, text in before.items():
            Path(path).write_text(text)
        yield planned


if __name__ == "__main__":
    main()
