# Preflight, paths and parameters that the rules share.
#
# A parameter that no command prints is there to be compared: a rule runs again when one of its parameters differs
# from the run before. `code` is the digest of all that the rule's command imports or loads; `machine` tells the host,
# the versions and the environment that the tree's measurements are of: where this machine is another one, what was
# measured stays, and what would measure is refused.
#
# After a checkpoint the plan is made anew, and what reads its tables compares them by content: an equal one starts
# nothing. So a checkpoint is what stands between cheap rules and those that start ranks.

import json
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

from snakemake.logging import logger

# Snakemake puts these first, where a file of yours, queue.py, would be imported in place of Python's. Only a clone that
# the Python of its rules does not have, installed, needs to be there.
HOME = Path(workflow.basedir).resolve()
for folder in (str(workflow.basedir), str(Path(workflow.basedir, "rules"))):
    if folder in sys.path:
        sys.path.remove(folder)
for package in ("overlayccl_core", "run_display", "workflow_scripts"):
    found = find_spec(package)
    here = found and Path(found.origin).resolve().is_relative_to(HOME)
    lacking = not here or workflow.deployment_settings.deployment_method
    if lacking and Path(HOME, package).is_dir() and str(HOME) not in sys.path:
        sys.path.insert(0, str(HOME))

from overlayccl_core import loader
from overlayccl_core.rule import targets
from overlayccl_core.configuration.searches import MENDED
from overlayccl_core.tables.sidecar import sha256_of
from run_display.handler import show
from workflow_scripts import one_run
from workflow_scripts.command_line import (
    import_nothing_from_here,
    lay_captured,
    lay_profile,
    lend,
    name_profile,
    prefer_this_python,
    refuse_braces,
    starts_jobs,
)
from workflow_scripts.pipeline import prepare
from workflow_scripts.quiet import be_quiet
from workflow_scripts.records import tell_jobs
from workflow_scripts.replanning import plan_by_what_is_there

plan_by_what_is_there()
be_quiet()
prefer_this_python()
import_nothing_from_here()
if str(HOME) in sys.path:
    lend(HOME)
name_profile()
loader.use_project(Path())
try:
    refuse_braces(Path(workflow.basedir))
    lay_profile(config, workflow.config_settings)
    keep_captured = lay_captured(config, workflow.config_settings)
    PIPELINE = prepare(
        config,
        overrides=workflow.config_settings.config,
        starts=starts_jobs(workflow.output_settings.dryrun),
        configfiles=workflow.config_settings.configfiles,
    )
    RESULTS = f"results/{PIPELINE.settings.tree}"
    if (
        workflow.is_main_process
    ):  # what the jobs' own Snakemakes are told by their environment
        tell_jobs(PIPELINE.elsewhere)
        if PIPELINE.starts and PIPELINE.unrecorded:
            raise ValueError(PIPELINE.unrecorded)
        if PIPELINE.starts:
            one_run.begin(PIPELINE.settings.tree, logger.warning)
            keep_captured()
            PIPELINE.keep_source()
except (ValueError, OSError) as error:
    sys.exit(
        f"error: {error}"
    )  # Snakemake would add where in this file its own error was raised
show(workflow, PIPELINE.settings)
if workflow.is_main_process:
    for line in filter(
        None,
        (
            PIPELINE.left_out,
            PIPELINE.elsewhere,
            PIPELINE.besides,
            PIPELINE.unrecorded,
        ),
    ):
        logger.warning(line)

# What rules ask for that run ranks: the machine alone; of a cluster, a job on the deployment's nodes.
RANKS = {"machine": 1, **PIPELINE.job_resources}
THREADS = RANKS.pop("threads", workflow.cores)

TREE = "results/{deployment}"
PROBLEM = f"{TREE}/problems/{{problem}}"
LOGS = f"{TREE}/logs"

STAGE = "python -P -m workflow_scripts.stage {params.command} --log {log}"
DEPLOYMENT = {"deployment": PIPELINE.deployment_json}
RANKS_OF = {"deployment": PIPELINE.ranks_json}
MEASURED = {"deployment": PIPELINE.ranks_json, "machine": PIPELINE.machine}


# What rules are made of: one that starts no ranks, and one that has the machine, or a cluster's nodes, to itself.
rule light:
    localrule: True
    conda:
        "../envs/local.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    shell:
        STAGE


rule on_ranks:
    # First: what starts no ranks runs two at a time, and not in between, one by one, while all else waits.
    priority: 1
    conda:
        "../envs/local.yaml"
    threads: THREADS
    resources:
        **RANKS,
    shell:
        STAGE


def launches_below(folder=TREE):
    """Where a rule keeps launches as they come."""
    return lambda wildcards: f"{folder.format(**wildcards)}/.partial"


def code(of):
    """The digest of a rule's code, for the Problem, the model and the search of its wildcards."""
    names = ("problem", "model", "search")
    return lambda wildcards: PIPELINE.code(of, **{n: wildcards.get(n) for n in names})


def stage(of, compared=(), **told):
    """The parameters of a job: the digest of its code, all that its command is told, and `command`, which tells it.

    compared: more of them, which no command reads. The job runs again where one of these differs.
    """

    def command(wildcards, input, output):
        here = {
            name: wildcards[name]
            for name in ("problem", "model")
            if name in wildcards.keys()
        }
        options = {"deployment": PIPELINE.deployment_file, **here}
        if "partial" in told:
            options["code"] = code(of)(wildcards)
        for name, value in told.items():
            options[name] = value(wildcards) if callable(value) else value
        words = [
            of,
            *(
                word
                for name, value in options.items()
                for word in (f"--{name}", str(value))
            ),
        ]
        return shlex.join(
            [*words, "--inputs", *named(input), "--outputs", *named(output)]
        )

    return {"code": code(of), **dict(compared), **told, "command": command}


def named(files):
    """NAME=PATH of what a job reads or writes; a sidecar goes with its table."""
    return [
        f"{name}={path}"
        for name, paths in files.items()
        if not name.endswith("_sidecar")
        for path in ([paths] if isinstance(paths, str) else paths)
    ]


def tables(folder, *names):
    """Tables that a rule writes, each with its sidecar, by their names."""
    return {
        f"{name}{'_sidecar' * sidecar}": f"{folder}/{name}{'.sidecar.json' if sidecar else '.parquet'}"
        for name in names
        for sidecar in (False, True)
    }


def every(path, **values):
    """The files of a path for all values of some wildcards: a list, or a function of Pipeline and the job's wildcards.

    A ValueError of such a function ends Snakemake before any job.
    """

    def files(wildcards):
        try:
            of = {
                name: list(value(wildcards)) if callable(value) else value
                for name, value in values.items()
            }
        except ValueError as error:
            sys.exit(f"error: {error}")
        return expand(path, **{**wildcards, **of})

    return files


def of_problems(name):
    """A file of every configured Problem."""
    return every(f"{PROBLEM}/{name}", problem=PIPELINE.settings.problems)


def of_models(name):
    """A file of every configured model."""
    return every(f"{TREE}/train/{{model}}/{name}", model=PIPELINE.settings.models)


def of_searches(name, **of):
    """A file of every configured search, of the job's Problem or of `problem`."""
    path = f"{PROBLEM}/search/{{search}}/{name}"
    return every(path, **of, search=PIPELINE.searches)


def of_the_model(wildcards):
    """The Problems at the sites of a job's model."""
    return PIPELINE.problems_of_model(wildcards.model)


def together(wildcards):
    """The Problem of a job, and all that are chosen together with it."""
    return PIPELINE.chosen_with(wildcards.problem)


def of_jobs(*names, **wildcards):
    """All that these rules write: of every configured Problem and model, and of other wildcards."""
    values = {
        "deployment": PIPELINE.settings.tree,
        "problem": PIPELINE.settings.problems,
        "model": PIPELINE.settings.models,
        **wildcards,
    }
    return [
        path for name in names for path in expand(getattr(rules, name).output, **values)
    ]


def left_by_others(wildcards):
    """What other targets than `all` have left, by their sidecars."""
    folders = [Path(RESULTS, target) for target in targets()]
    return sorted(
        f"{file} {sha256_of(file)}"
        for folder in folders
        for file in folder.rglob("*.sidecar.json")
    )
