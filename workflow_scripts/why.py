"""What a run would do again, and because of what, in words: `make why`, or with a profile and --config of its own.

    python -m workflow_scripts.why --profile local [--config key=value ...] [target]

Nothing is started. What stands behind a table that is made again runs only if that comes out different, or if it
has a cause of its own.
"""

import argparse
import ast
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from snakemake.cli import parse_config

from overlayccl_core.archiving.jobs import CODE_DIGEST, SCRIPT
from overlayccl_core.cli.unread import until_unread
from overlayccl_core.digest import ROOT, closure
from overlayccl_core.tables import records
from workflow_scripts import dag

SHOWN = 4  # files, keys, jobs that are named one by one
VALUE = 40  # characters of a value


def because(workflow: Any) -> tuple[dict[str, list[Any]], list[Any]]:
    """(cause in words -> jobs that run for it; jobs that run only if what they read comes out another)."""
    causes: dict[str, list[Any]] = {}
    behind: list[Any] = []
    for job in sorted(workflow.dag.jobs, key=lambda job: (job.rule.name, str(job))):
        reason = workflow.dag.reason(job)
        if not job.shellcmd or not str(reason):
            continue
        own = list(_causes(job, reason, workflow))
        for cause in own:
            causes.setdefault(cause, []).append(job)
        if not own:
            behind.append(job)
    return causes, behind


def _causes(job: Any, reason: Any, workflow: Any) -> Iterator[str]:
    """Why a job runs, whatever the jobs before it make.

    Of one that stands behind another that runs, Snakemake's reason says no more than that: all else is asked here.
    """
    records_of, pipeline = workflow.persistence, workflow.globals["PIPELINE"]
    if reason.forced:
        yield "it was asked for"
    if missing := {str(file) for file in reason.missing_output} | _gone(job, workflow.dag):
        yield f"not there: {_some(sorted(Path(file).name for file in missing))}"
    if reason.incomplete_output:
        yield "it was cut off"
    if changed := [str(file) for file in reason.updated_input - reason.updated_input_run]:
        yield f"changed since, and not by a run: {_some(sorted(changed))}"
    if not records_of.has_metadata(job):
        return
    if any(records_of.input_changed(job)):
        yield "it reads other files than before"
    if any(records_of.code_changed(job)):
        yield "the text of its command, in rules/, is another"
    if any(records_of.software_stack_changed(job)):
        yield "its software environment is another"
    yield from _parameters(job, records_of.params_changed(job), pipeline)


def _gone(job: Any, dag_: Any) -> set[str]:
    """What others ask of a job, and is not there."""
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
    """What each parameter was and is; of those with fields, the fields."""
    for before, now in zip(old, new, strict=False):
        if isinstance(before, dict) and isinstance(now, dict):
            for key in sorted(before.keys() | now.keys()):
                if before.get(key) != now.get(key):
                    yield from _fields(key, before.get(key), now.get(key))
        else:
            yield _short(before), _short(now)
    for rest, at in ((old[len(new) :], 0), (new[len(old) :], 1)):
        for one in rest:
            yield (_short(one), "nothing") if at == 0 else ("nothing", _short(one))


def _fields(key: str, before: Any, now: Any) -> Iterator[tuple[str, str]]:
    if isinstance(before, dict) and isinstance(now, dict):
        for inner in sorted(before.keys() | now.keys()):
            if before.get(inner) != now.get(inner):
                yield from _fields(f"{key}.{inner}", before.get(inner), now.get(inner))
    else:
        yield f"{key} {_short(before)}", _short(now)


def _edited(job: Any, pipeline: Any) -> str:
    """The files of its code that were written since it ran, where these are few."""
    record = next((r for r in (records.read(Path(str(file))) for file in job.output) if r), None)
    script = SCRIPT.match(job.shellcmd)
    if record is None or script is None:
        return ""
    rule = script[1].rpartition(".")[2]
    subject = {name: job.wildcards.get(name) for name in ("problem", "model", "search")}
    files = closure(rule, *pipeline.plugins(rule, **subject))
    since = [file for file in files if file.stat().st_mtime > record.started]
    if len(since) > SHOWN:  # a clone, or what was unpacked: all is as old as that
        return f". Dates do not tell which file it was: more than {SHOWN} are younger than what it made"
    return f": {', '.join(sorted(_place(file) for file in since))}" if since else ""


def _place(file: Path) -> str:
    return file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else str(file)


def _value(text: str) -> Any:
    """A recorded parameter: what it holds, where it is JSON."""
    try:
        value = ast.literal_eval(text)
        return json.loads(value) if isinstance(value, str) and value[:1] in "{[" else value
    except (ValueError, SyntaxError):
        return text


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return text if len(text) <= VALUE else f"{text[:VALUE]}..."


def _rule(job: Any) -> str:
    return f"{job.rule.name}{'*' if dag.ALONE in job.rule.resources else ''}"


def _name(job: Any) -> str:
    """`seed tp_mlp`."""
    return " ".join(
        [
            job.rule.name,
            *(job.wildcards.get(n) for n in ("problem", "model", "search") if job.wildcards.get(n)),
        ]
    )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _by_rule(jobs: list[Any]) -> str:
    """`bench* (9), probe*`."""
    counts = Counter(map(_rule, jobs))
    return ", ".join(f"{rule} ({count})" if count > 1 else rule for rule, count in counts.items())


def told(causes: dict[str, list[Any]], behind: list[Any]) -> Iterator[str]:
    """Lines for people."""
    if not causes:
        yield "Nothing is to be done."
        return
    for cause, jobs in causes.items():
        yield f"{', '.join(map(_name, jobs)) if len(jobs) <= SHOWN else _by_rule(jobs)}: {cause}"
    if behind:
        yield "Then, if what these make comes out different (*: on the ranks):"
        yield f"  {_by_rule(behind)}"


def main() -> None:
    """Print it."""
    parser = argparse.ArgumentParser(prog="python -m workflow_scripts.why", description=__doc__)
    parser.add_argument("target", nargs="?", default="all")
    parser.add_argument("--profile", default="local", help="as Snakemake's")
    parser.add_argument("--config", nargs="*", default=[], metavar="KEY=VALUE", help="as Snakemake's")
    asked = parser.parse_args()
    if "--profile" not in sys.argv:
        sys.argv += ["--profile", asked.profile]  # the Snakefile looks which profile is in use
    with tempfile.TemporaryFile() as said, _shown_where_it_fails(said):
        workflow = dag.planned(parse_config(asked.config), asked.target)
        causes, behind = because(workflow)
    pipeline = workflow.globals["PIPELINE"]
    print(
        "\n".join(
            filter(None, (pipeline.left_out, pipeline.elsewhere, pipeline.besides, *told(causes, behind)))
        )
    )


@contextmanager
def _shown_where_it_fails(said: BinaryIO) -> Iterator[None]:
    """What Snakemake says of a plan goes into a file, which is shown only where there is none."""
    streams = {number: os.dup(number) for number in (1, 2)}
    for number in streams:
        os.dup2(said.fileno(), number)
    failed = True
    try:
        yield
        failed = False
    finally:
        sys.stdout.flush()
        for number, stream in streams.items():
            os.dup2(stream, number)
        if failed:
            said.seek(0)
            sys.stderr.write(said.read().decode(errors="replace"))


if __name__ == "__main__":
    sys.exit(until_unread(main))
