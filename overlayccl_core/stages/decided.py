"""What was chosen of each Problem, as the rules that train or time it again read it."""

from overlayccl_core.evidence.decided import Decided
from overlayccl_core.stages.rule_job import RuleJob
from overlayccl_core.tables.choice import CHOICE
from overlayccl_core.tables.finalists import FINALISTS


def decided_of(job: RuleJob) -> dict[str, Decided]:
    """Of each of the option `problems`."""
    return {
        problem: Decided(
            finalists=job.read(FINALISTS, problem),
            choice=job.read(CHOICE, problem),
            module=job.file("chosen", problem).read_text(),
        )
        for problem in job.problems
    }
