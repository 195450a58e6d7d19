"""The manifest of an archive as a Workflow Run RO-Crate: every file with its sha256, every job with its costs.

Of the three profiles of https://www.researchobject.org/workflow-run-crate/ it is a Provenance Run Crate: the run
(Snakemake's), a step for each rule, and each job's inputs, outputs, parameters and costs. All of it follows from
the files of the archive, so a verifier makes it again and compares.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from overlayccl_core.archiving.jobs import JobRecord
from overlayccl_core.archiving.manifest import Manifest

NAME = "ro-crate-metadata.json"
VERSION = "1.1"  # of RO-Crate: that of the profiles
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/ro/wfrun/provenance/0.5": "Provenance Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}
TERMS = {name: f"https://w3id.org/ro/terms/workflow-run#{name}" for name in ("sha256", "resourceUsage")}
SECONDS = "https://qudt.org/vocab/unit/SEC"
LICENSE = "https://spdx.org/licenses/Apache-2.0"
LANGUAGE = "https://w3id.org/workflowhub/workflow-ro-crate#snakemake"
WORKFLOW, RUN = "Snakefile", "#run"
TYPES = {
    ".parquet": "application/vnd.apache.parquet",
    ".json": "application/json",
    ".html": "text/html",
    ".py": "text/x-python",
    ".yaml": "application/yaml",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChecksum:
    """Checksum and size of a file in the archive."""

    sha256: str
    size: int


def held(data: bytes) -> FileChecksum:
    """Return checksum and size of a file's bytes."""
    return FileChecksum(sha256=hashlib.sha256(data).hexdigest(), size=len(data))


def _empty() -> Any:
    """Return a crate without content. ValueError if the library is not installed."""
    try:
        from rocrate.rocrate import ROCrate
    except ModuleNotFoundError:
        raise ValueError(
            "an archive's manifest needs rocrate, which this Python does not have: `make env` installs it, and "
            "so does pip install 'overlayccl[archive]'"
        ) from None
    return ROCrate(version=VERSION)


def crate_of(files: Mapping[str, FileChecksum], jobs: Sequence[JobRecord], said: Manifest) -> bytes:
    """Return the text of `ro-crate-metadata.json`, from the arguments alone."""
    crate = _empty()
    crate.metadata.extra_terms.update(TERMS)
    root = crate.root_dataset
    crate.name = f"OverlayCCL: {said.tree}"
    crate.description = (
        f"What `{said.command}` measured, found, proved, chose and deployed on {said.machine or 'a machine'}, and "
        "the code that did it. `overlayccl verify` checks it, without the machine."
    )
    crate.license = _add(crate, LICENSE, "CreativeWork", name="Apache-2.0")
    crate.datePublished = _time(max(job.ended for job in jobs))
    scripts = {job.script for job in jobs}
    for name, one in sorted(files.items()):
        if name != WORKFLOW:
            tool = (
                {"@type": ["File", "SoftwareSourceCode"], "version": said.version} if name in scripts else {}
            )
            crate.add_file(dest_path=name, properties=_file(name, one) | tool)
    about = {"softwareVersion": said.snakemake, "version": said.snakemake}
    where = "https://snakemake.github.io"
    engine = _add(crate, "#snakemake", "SoftwareApplication", name="Snakemake", url=where, **about)
    workflow = _workflow(crate, files, said)
    root["mainEntity"] = workflow
    root["conformsTo"] = [
        _add(crate, of, "CreativeWork", name=name, version=of.rpartition("/")[2])
        for of, name in PROFILES.items()
    ]
    steps = _steps(crate, workflow, jobs)
    actions = [_action(crate, job, files) for job in jobs]
    results = [file for job in jobs for file in job.outputs if file in files]
    ended = max(job.ended for job in jobs)
    run = _ended(crate, workflow, RUN, results, name=said.command, started=jobs[0].started, ended=ended)
    controls = [
        _add(crate, f"#control/{number}-{job.name}", "ControlAction", name=job.name)
        for number, job in enumerate(jobs)
    ]
    for control, job, action in zip(controls, jobs, actions, strict=True):
        control["instrument"], control["object"] = steps[job.rule], action
    organize = _add(crate, "#organize", "OrganizeAction", name="Snakemake's run")
    organize["instrument"], organize["object"], organize["result"] = engine, controls, run
    root["mentions"] = [run, organize, *actions]
    return (json.dumps(crate.metadata.generate(), indent=1, sort_keys=True) + "\n").encode()


def _workflow(crate: Any, files: Mapping[str, FileChecksum], said: Manifest) -> Any:
    paper = "https://doi.org/10.1093/bioinformatics/bts480"
    language = _add(crate, LANGUAGE, "ComputerLanguage", name="Snakemake", identifier=paper)
    workflow = crate.add_file(
        dest_path=WORKFLOW,
        properties={
            **_file(WORKFLOW, files[WORKFLOW]),
            "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"],
            "name": f"OverlayCCL {said.version}",
            "version": said.commit or said.version,
            "description": "clean" if said.clean else "with changes that were not committed",
        },
    )
    workflow["programmingLanguage"] = language
    return workflow


def _steps(crate: Any, workflow: Any, jobs: Sequence[JobRecord]) -> dict[str, Any]:
    """Return rule -> its step. The tool of a step is the script of its command."""
    steps, tools = {}, {}
    for position, (rule, script) in enumerate({job.rule: job.script for job in jobs}.items()):
        tool = tools[script] = crate.dereference(script)
        steps[rule] = _add(crate, f"#step/{rule}", "HowToStep", name=rule, position=str(position))
        steps[rule]["workExample"] = tool
    workflow["hasPart"], workflow["step"] = list(tools.values()), list(steps.values())
    return steps


def _action(crate: Any, job: JobRecord, files: Mapping[str, FileChecksum]) -> Any:
    """Add a job. Its node-seconds count the nodes it had to itself, or the one it shared."""
    name = f"#job/{job.outputs[0]}"
    given = [file for file in job.inputs if file in files]
    told = {"code": job.code, "command": job.command, "parameters": json.dumps(job.parameters, default=repr)}
    needed = {"seconds": job.seconds, "node-seconds": job.seconds * max(1, job.nodes)}
    tool, took = crate.dereference(job.script), {"started": job.started, "ended": job.ended}
    action = _ended(crate, tool, name, job.outputs, name=job.name, **took)
    values = [
        _add(crate, f"{name}/{key}", "PropertyValue", name=key, value=value) for key, value in told.items()
    ]
    action["object"] = [*(crate.dereference(quote(file)) for file in given), *values]
    action["resourceUsage"] = [
        _add(
            crate,
            f"{name}/{key}",
            "PropertyValue",
            **{"name": key, "value": f"{value:.3f}", "propertyID": key, "unitCode": SECONDS},
        )
        for key, value in needed.items()
    ]
    return action


def _ended(
    crate: Any, tool: Any, at: str, results: Sequence[str], *, name: str, started: float, ended: float
) -> Any:
    """Add an action that came to its end."""
    return crate.add_action(
        tool,
        at,
        result=[crate.dereference(quote(file)) for file in results],
        properties={
            "name": name,
            "startTime": _time(started),
            "endTime": _time(ended),
            "actionStatus": "http://schema.org/CompletedActionStatus",
        },
    )


def _add(crate: Any, at: str, kind: str, **properties: str) -> Any:
    """Add what is no file."""
    return crate.add_jsonld({"@id": at, "@type": kind, **properties})


def _file(name: str, one: FileChecksum) -> dict[str, str]:
    kind = TYPES.get(Path(name).suffix)
    properties = {"name": name, "sha256": one.sha256, "contentSize": str(one.size)}
    return properties | ({"encodingFormat": kind} if kind else {})


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
