"""List the jobs of a target with all files present, as JSON; nothing is started, whatever a file's age.

Reads {"snakefile": path, "config": {key: value}, "target": name} from standard input. Run it in the folder of the
files: the rules are the Snakefile's, the configuration is the folder's.
"""

from pathlib import Path
from typing import Any

from snakemake.settings.types import RerunTrigger

from overlayccl_core.tables import published
from workflow_scripts import dag


def planned(snakefile: Path, config: dict[str, Any], target: str) -> list[dict[str, Any]]:
    """Return for each job its rule, command, outputs, log, recorded parameters, and whether it starts ranks."""
    workflow = dag.planned(config, target, snakefile, [RerunTrigger.MTIME])
    return [
        {
            "rule": job.rule.name,
            "command": job.shellcmd,
            "outputs": sorted(map(str, (*job.output, *published.modules(map(Path, job.output))))),
            "log": sorted(map(str, job.log)),
            "parameters": workflow.persistence._params(job),
            "alone": dag.ALONE in job.rule.resources,
        }
        for job in workflow.dag.jobs
        if job.shellcmd
    ]


def main() -> None:
    """Answer one request."""
    asked = dag.request()
    dag.answered(lambda: planned(Path(asked["snakefile"]), asked["config"], asked["target"]))


if __name__ == "__main__":
    main()
