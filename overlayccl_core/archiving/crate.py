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
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

from overlayccl_core.archiving.jobs import Job
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
WORKFLOW, RUN = "Snakefile", "#run"
TYPES = {
    ".parquet": "application/vnd.apache.parquet",
    ".json": "application/json",
    ".html": "text/html",
    ".py": "text/x-python",
    ".yaml": "application/yaml",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Checksum and size of a file in the archive."""

    sha256: str
    size: int


def held(data: bytes) -> Held:
    """Return checksum and size of a file's bytes."""
    return Held(sha256=hashlib.sha256(data).hexdigest(), size=len(data))


@cache
def _rocrate() -> SimpleNamespace:
    """Return the classes of the library. ValueError if it is not installed."""
    try:
        from rocrate.model import ComputerLanguage, ContextEntity, SoftwareApplication
        from rocrate.rocrate import ROCrate
    except ModuleNotFoundError:
        raise ValueError(
            "an archive's manifest needs rocrate, which this Python does not have: `make env` installs it, and "
            "so does pip install 'overlayccl[archive]'"
        ) from None
    return SimpleNamespace(
        ROCrate=ROCrate,
        ComputerLanguage=ComputerLanguage,
        ContextEntity=ContextEntity,
        SoftwareApplication=SoftwareApplication,
    )


def crate_of(files: Mapping[str, Held], jobs: Sequence[Job], said: Manifest) -> bytes:
    """Return the text of `ro-crate-metadata.json`, from the arguments alone."""
    crate = _rocrate().ROCrate(version=VERSION)
    crate.metadata.extra_terms.update(TERMS)
    root = crate.root_dataset
    crate.name = f"OverlayCCL: {said.tree}"
    crate.description = (
        f"What `{said.command}` measured, found, proved, chose and deployed on {said.machine or 'a machine'}, and "
        "the code that did it. `overlayccl verify` checks it, without the machine."
    )
    license_ = {"@type": "CreativeWork", "name": "Apache-2.0"}
    crate.license = crate.add(_rocrate().ContextEntity(crate, LICENSE, license_))
    crate.datePublished = _time(max(job.ended for job in jobs))
    scripts = {job.script for job in jobs}
    for name, one in sorted(files.items()):
        if name != WORKFLOW:
            tool = (
                {"@type": ["File", "SoftwareSourceCode"], "version": said.version} if name in scripts else {}
            )
            crate.add_file(dest_path=name, properties=_file(name, one) | tool)
    engine = crate.add(
        _rocrate().SoftwareApplication(
            crate,
            "#snakemake",
            {
                "name": "Snakemake",
                "softwareVersion": said.snakemake,
                "version": said.snakemake,
                "url": "https://snakemake.github.io",
            },
        )
    )
    workflow = _workflow(crate, files, said)
    root["mainEntity"] = workflow
    root["conformsTo"] = [
        crate.add(
            _rocrate().ContextEntity(
                crate, of, {"@type": "CreativeWork", "name": name, "version": of.rpartition("/")[2]}
            )
        )
        for of, name in PROFILES.items()
    ]
    steps = _steps(crate, workflow, jobs)
    actions = [_action(crate, job, files) for job in jobs]
    results = [file for job in jobs for file in job.outputs if file in files]
    run = crate.add_action(
        workflow,
        RUN,
        result=[crate.dereference(_id(name)) for name in results],
        properties={
            "name": said.command,
            "startTime": _time(jobs[0].started),
            "endTime": _time(max(job.ended for job in jobs)),
            "actionStatus": "http://schema.org/CompletedActionStatus",
        },
    )
    controls = [
        crate.add(
            _rocrate().ContextEntity(
                crate, f"#control/{number}-{job.name}", {"@type": "ControlAction", "name": job.name}
            )
        )
        for number, job in enumerate(jobs)
    ]
    for control, job, action in zip(controls, jobs, actions, strict=True):
        control["instrument"], control["object"] = steps[job.rule], action
    organize = crate.add(
        _rocrate().ContextEntity(crate, "#organize", {"@type": "OrganizeAction", "name": "Snakemake's run"})
    )
    organize["instrument"], organize["object"], organize["result"] = engine, controls, run
    root["mentions"] = [run, organize, *actions]
    return (json.dumps(crate.metadata.generate(), indent=1, sort_keys=True) + "\n").encode()


def _workflow(crate: Any, files: Mapping[str, Held], said: Manifest) -> Any:
    language = crate.add(
        _rocrate().ComputerLanguage(
            crate,
            "https://w3id.org/workflowhub/workflow-ro-crate#snakemake",
            {"name": "Snakemake", "identifier": "https://doi.org/10.1093/bioinformatics/bts480"},
        )
    )
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


def _steps(crate: Any, workflow: Any, jobs: Sequence[Job]) -> dict[str, Any]:
    """Return rule -> its step. The tool of a step is the script of its command."""
    steps, tools = {}, {}
    for position, (rule, script) in enumerate({job.rule: job.script for job in jobs}.items()):
        tool = tools[script] = crate.dereference(script)
        step = {"@type": "HowToStep", "name": rule, "position": str(position)}
        steps[rule] = crate.add(_rocrate().ContextEntity(crate, f"#step/{rule}", step))
        steps[rule]["workExample"] = tool
    workflow["hasPart"], workflow["step"] = list(tools.values()), list(steps.values())
    return steps


def _action(crate: Any, job: Job, files: Mapping[str, Held]) -> Any:
    """Add a job. Its node-seconds count the nodes it had to itself, or the one it shared."""
    name = f"#job/{job.outputs[0]}"
    given = [file for file in job.inputs if file in files]
    told = {"code": job.code, "command": job.command, "parameters": json.dumps(job.parameters, default=repr)}
    needed = {"seconds": job.seconds, "node-seconds": job.seconds * max(1, job.nodes)}
    action = crate.add_action(
        crate.dereference(job.script),
        name,
        result=[crate.dereference(_id(file)) for file in job.outputs],
        properties={
            "name": job.name,
            "startTime": _time(job.started),
            "endTime": _time(job.ended),
            "actionStatus": "http://schema.org/CompletedActionStatus",
        },
    )
    values = [_value(crate, f"{name}/{key}", key, value) for key, value in told.items()]
    action["object"] = [*(crate.dereference(_id(file)) for file in given), *values]
    action["resourceUsage"] = [
        _value(crate, f"{name}/{key}", key, f"{value:.3f}", propertyID=key, unitCode=SECONDS)
        for key, value in needed.items()
    ]
    return action


def _value(crate: Any, at: str, name: str, value: str, **more: str) -> Any:
    return crate.add(
        _rocrate().ContextEntity(crate, at, {"@type": "PropertyValue", "name": name, "value": value, **more})
    )


def _file(name: str, one: Held) -> dict[str, str]:
    kind = TYPES.get(Path(name).suffix)
    properties = {"name": name, "sha256": one.sha256, "contentSize": str(one.size)}
    return properties | ({"encodingFormat": kind} if kind else {})


def _id(name: str) -> str:
    """Return a file's id in RO-Crate's notation."""
    return quote(name)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
