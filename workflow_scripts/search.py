"""Search cheaper Programs for one Problem from its proven strategies."""

import json
from pathlib import Path
from time import monotonic

from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.searches import Search
from overlayccl_core.evidence.mended import failed_sketches
from overlayccl_core.search.allowance import Asking
from overlayccl_core.search.proposal import FailedSketch
from overlayccl_core.stages import search
from overlayccl_core.tables.calls import CALLS
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.search_ends import SEARCH_ENDS
from overlayccl_core.tables.seeds import SEEDS
from overlayccl_core.tables.sketches import SKETCHES
from overlayccl_core.tables.theta import THETA
from overlayccl_core.tables.trials import TRIALS
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """Tables sketches, candidates, search_ends and calls of one Problem.

    Where the first round's tables are among the inputs it is the second.
    """
    problem = command.option("problem")
    max_usd = json.loads(command.option("max_usd"))
    answers, tree = Path(command.option("answers")), Path(command.option("tree"))
    tables = search.run(
        load(command.option("deployment")),
        Search.from_json(command.option("search")),
        command.read(CASES, problem),
        command.read(SEEDS, problem),
        command.read(THETA),
        command.read(FIDELITY),
        command.read(CAPABILITIES),
        asking=Asking(answers=answers, tree=tree, max_usd=max_usd),
        clock=monotonic,
        progress=command.say,
        failed=_failed(command, problem) if command.has(TRIALS, problem) else None,
    )
    command.write({table: tables[table.name] for table in (SKETCHES, CANDIDATES, SEARCH_ENDS, CALLS)})


def _failed(command: Command, problem: str) -> tuple[FailedSketch, ...]:
    return failed_sketches(*(command.read(table, problem) for table in (TRIALS, CANDIDATES, SKETCHES)))


if __name__ == "__main__":
    run("search", main, "deployment", "problem", "search", "max-usd", "answers", "tree")
