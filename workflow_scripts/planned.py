"""The jobs that a target has where all files are there, as JSON: nothing is started, whatever its age.

Beside them the rules that have all nodes to themselves, and how many nodes that are.

Reads {"snakefile": path, "config": {key: value}, "target": name} from standard input. Run in the folder that holds
the files; the rules are those of the Snakefile, the configuration is the folder's.
"""

from pathlib import Path
from typing import Any

from snakemake.settings.types import RerunTrigger

from overlayccl_core.archiving.jobs import SCRIPT
from workflow_scripts import dag


def planned(snakefile: Path, config: dict[str, Any], target: str) -> dict[str, Any]:
    """{"jobs": ..., "measuring": rules, "nodes": count}."""
    workflow = dag.planned(config, target, snakefile, [RerunTrigger.MTIME])
    return {
        "jobs": _jobs(workflow),
        "measuring": sorted(rule.name for rule in workflow.rules if dag.ALONE in rule.resources),
        "nodes": workflow.globals["PIPELINE"].deployment.nodes,
    }


def _jobs(workflow: Any) -> list[dict[str, Any]]:
    """One entry for each job: rule, command, inputs, outputs, parameters as recorded, whether it starts ranks.

    plugins: that its code loads by name, besides its script.
    """
    pipeline = workflow.globals["PIPELINE"]
    return [
        {
            "rule": job.rule.name,
            "command": job.shellcmd,
            "inputs": sorted(map(str, job.input)),
            "outputs": sorted(map(str, job.output)),
            "log": sorted(map(str, job.log)),
            "parameters": workflow.persistence._params(job),
            "plugins": pipeline.plugins(_script(job), **_subject(job)),
            "alone": dag.ALONE in job.rule.resources,
        }
        for job in workflow.dag.jobs
        if job.shellcmd
    ]


def _script(job: Any) -> str:
    """Whose code is the rule's: its command's, which other rules may share."""
    found = SCRIPT.match(job.shellcmd)
    return found[1].rpartition(".")[2] if found else ""


def _subject(job: Any) -> dict[str, str | None]:
    """What a rule's code depends on of its wildcards."""
    return {name: job.wildcards.get(name) for name in ("problem", "model", "search")}


def main() -> None:
    """Answer one request."""
    asked = dag.request()
    dag.answered(lambda: planned(Path(asked["snakefile"]), asked["config"], asked["target"]))


if __name__ == "__main__":
    main()
