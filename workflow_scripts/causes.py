"""Why a job runs, in words: for `why` before a run, and for the display of a run."""

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from overlayccl_core.archiving.jobs import CODE_DIGEST, STAGE
from overlayccl_core.digest import ROOT, closure
from overlayccl_core.tables import records

SHOWN = 4  # files, keys or jobs named one by one
VALUE = 60  # characters of a value

_files_of = cache(closure)


def because(workflow: Any) -> tuple[dict[str, list[Any]], list[Any]]:
    """Return (cause in words -> its jobs; jobs running only if an input comes out different)."""
    causes: dict[str, list[Any]] = {}
    behind: list[Any] = []
    for job in sorted(workflow.dag.jobs, key=lambda job: (job.rule.name, str(job))):
        reason = workflow.dag.reason(job)
        if not job.shellcmd or not str(reason):
            continue
        own = list(own_causes(job, workflow))
        for cause in own:
            causes.setdefault(cause, []).append(job)
        if not own:
            behind.append(job)
    return causes, behind


def again(job: Any, workflow: Any) -> str:
    """Return ` again: ` and the reasons for a job made before; empty for a first run."""
    files = [Path(str(file)) for file in job.output]
    if not any(file.exists() or records.is_incomplete(file) or records.read(file) for file in files):
        return ""
    made = some(sorted(_made_anew(job, workflow.dag)))
    return f" again: {'; '.join(own_causes(job, workflow)) or f'made anew: {made}'}"


def own_causes(job: Any, workflow: Any) -> Iterator[str]:
    """Yield a job's own causes, independent of the jobs before it.

    For a job behind another running one, Snakemake's reason says no more than that, so this checks all else.
    """
    records_of, pipeline = workflow.persistence, workflow.globals["PIPELINE"]
    reason = workflow.dag.reason(job)
    if any(records.is_incomplete(Path(str(file))) for file in job.output):
        yield "it was cut off"
    elif reason.forced:
        yield "it was asked for"
    elif missing := {str(file) for file in reason.missing_output} | _gone(job, workflow.dag):
        there = sorted(file for file in missing if Path(file).exists())  # modules in deploy/ alone
        if gone := sorted(Path(file).name for file in missing.difference(there)):
            yield f"not there: {some(gone)}"
        if there:
            yield f"not what was confirmed: {some(there)}"
    if changed := set(map(str, reason.updated_input)) - _made_anew(job, workflow.dag):
        yield f"changed since, and not by a run: {some(sorted(changed))}"
    if not records_of.has_metadata(job):
        return
    if any(records_of.input_changed(job)):
        yield "it reads other files than before"
    if any(records_of.code_changed(job)):
        yield "the text of its command, in rules/, is another"
    if any(records_of.software_stack_changed(job)):
        yield "its software environment is another"
    yield from _parameters(job, records_of.params_changed(job), pipeline)


def _made_anew(job: Any, dag_: Any) -> set[str]:
    """Inputs of a job made, or yet to be made, by other jobs of this run."""
    reason = dag_.reason(job)
    done = {file for other, files in dag_.dependencies[job].items() if dag_.finished(other) for file in files}
    return set(map(str, reason.updated_input_run | (reason.updated_input & done)))


def _gone(job: Any, dag_: Any) -> set[str]:
    """Missing outputs of a job, needed by other jobs."""
    asked = {str(file) for files in dag_.depending[job].values() for file in files}
    return {file for file in asked if not Path(file).exists()}


def _parameters(job: Any, change: Any, pipeline: Any) -> Iterator[str]:
    old, new = ([_value(text) for text in sorted(texts)] for texts in (change.only_old, change.only_new))
    codes = [
        [one for one in side if isinstance(one, str) and CODE_DIGEST.fullmatch(one)] for side in (old, new)
    ]
    if any(codes):
        yield f"its code is another{_edited(job, pipeline)}"
    told = [[one for one in side if one not in codes[k]] for k, side in enumerate((old, new))]
    for before, now in _pairs(*told):
        yield f"told something else: {before} -> {now}"


def _pairs(old: list[Any], new: list[Any]) -> Iterator[tuple[str, str]]:
    """Yield the old and the new value of each parameter; of parameters with fields, of each changed field."""
    for before, now in zip(old, new, strict=False):
        if isinstance(before, dict) and isinstance(now, dict):
            for key in sorted(before.keys() | now.keys()):
                if before.get(key) != now.get(key):
                    yield from _fields(key, before.get(key), now.get(key))
        else:
            yield _short(_without(before, now)), _short(_without(now, before))
    for rest, at in ((old[len(new) :], 0), (new[len(old) :], 1)):
        for one in rest:
            yield (_short(one), "nothing") if at == 0 else ("nothing", _short(one))


def _without(value: Any, other: Any) -> Any:
    """Drop the parts of a text with commas, such as a machine's, found in the other text too."""
    if not (isinstance(value, str) and isinstance(other, str)):
        return value
    parts, others = (re.split(r", *", text) for text in (value, other))
    return ", ".join(part for part in parts if part not in others) or "nothing"


def _fields(key: str, before: Any, now: Any) -> Iterator[tuple[str, str]]:
    if isinstance(before, dict) and isinstance(now, dict):
        for inner in sorted(before.keys() | now.keys()):
            if before.get(inner) != now.get(inner):
                yield from _fields(f"{key}.{inner}", before.get(inner), now.get(inner))
    else:
        yield f"{key} {_short(before)}", _short(now)


def _edited(job: Any, pipeline: Any) -> str:
    """Name the files of its code written since its last run, if they are few."""
    record = next((r for r in (records.read(Path(str(file))) for file in job.output) if r), None)
    stage = STAGE.match(job.shellcmd)
    if record is None or stage is None:
        return ""
    subject = {name: job.wildcards.get(name) for name in ("problem", "model", "search")}
    files = _files_of(stage[1], *pipeline.plugins(stage[1], **subject))
    since = [file for file in files if file.stat().st_mtime > record.started]
    if len(since) > SHOWN:  # a clone or an unpacked archive: all files are new
        return f". Dates do not tell which file it was: more than {SHOWN} are younger than what it made"
    return f": {', '.join(sorted(_place(file) for file in since))}" if since else ""


def _place(file: Path) -> str:
    return file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else str(file)


def _value(text: str) -> Any:
    """Parse a recorded parameter, with the JSON in it."""
    try:
        value = ast.literal_eval(text)
        return json.loads(value) if isinstance(value, str) and value[:1] in "{[" else value
    except (ValueError, SyntaxError):
        return text


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return text if len(text) <= VALUE else f"{text[:VALUE]}..."


def some(names: list[str]) -> str:
    """Join the first names, and count the others."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
