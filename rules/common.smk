# Preflight, paths and parameters that the rules share.
#
# A parameter that no command prints is there to be compared: a rule runs again when one of its parameters differs
# from the run before. `code` is the digest of all that the rule's command imports or loads.

import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

if str(workflow.basedir) not in sys.path:
    sys.path.insert(0, str(workflow.basedir))

from snakemake_logger_plugin_overlayccl.expected import watch
from workflow_scripts.pipeline import prefer_this_python, prepare

prefer_this_python()
try:
    PIPELINE = prepare(config, overrides=workflow.config_settings.config)
except ValueError as error:
    raise WorkflowError(str(error)) from None
watch(workflow, PIPELINE.settings)

RESULTS = f"results/{PIPELINE.settings.tree}"
PARTIAL = "results/{deployment}/.partial"
LOGS = "results/{deployment}/logs"


def code(rule):
    """The digest of a rule's code, for the Problem, the model and the search of its wildcards."""
    names = ("problem", "model", "search")
    return lambda wildcards: PIPELINE.code(rule, **{n: wildcards.get(n) for n in names})


def settled(table, of, **subject):
    """A table of the checkpoint `of`: it counts as new only where its content is, so an equal one starts nothing.

    A rule that waits for a checkpoint has no place in the plan before that has run. So the checkpoint is asked for
    only where its table exists already; a fresh tree, which has none, is planned whole. subject: what the wildcards
    of the rule do not say.
    """

    def file(wildcards):
        fields = {**dict(wildcards), **subject}
        path = str(getattr(rules, of).output[table]).format(**fields)
        if not Path(path).exists():
            return path
        return getattr(checkpoints, of).get(**fields).output[table]

    return file


def of_problems(table):
    """A table of every configured Problem."""
    return [
        f"{RESULTS}/problems/{problem}/{table}.parquet"
        for problem in PIPELINE.settings.problems
    ]


def of_searches(table, problems=None):
    """A table of every configured search: of the Problem of a rule's wildcards, or of `problems`."""
    return lambda wildcards: [
        f"results/{wildcards.deployment}/problems/{problem}/search/{search}/{table}.parquet"
        for problem in problems or [wildcards.problem]
        for search in PIPELINE.settings.searches
    ]


def of_models(table):
    """A table of every configured model that has a Problem at a site."""
    return lambda wildcards: [
        f"results/{wildcards.deployment}/train/{model}/{table}.parquet"
        for model in PIPELINE.models_of(wildcards.problem)
    ]


def trained(wildcards):
    """The Cases of a Problem that models train."""
    return PIPELINE.trained_json(wildcards.problem)
