"""Where a run measured less than its settings ask for, in sentences: from tables and their sidecars."""

from overlayccl_core.evidence.rounds import of_bench, of_probes, too_few_rounds, too_few_steps
from overlayccl_core.report.tree import Tree
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.steps import STEPS


def shortfalls(tree: Tree) -> list[str]:
    """Fewer rounds than the floor, training at the floor of its steps, and what is not known; often nothing."""
    unknown: list[str] = []
    few = []
    probes, asked = tree.table(PROBES, "probes"), tree.settings("probes")
    if probes is not None:
        few += of_probes(probes, asked.probe) if asked else []
        unknown += [] if asked else ["the probes"]
    for problem in tree.problems:
        bench, asked = (
            tree.table(BENCH, f"problems/{problem}/bench"),
            tree.settings(f"problems/{problem}/bench"),
        )
        if bench is not None:
            few += of_bench(problem, bench, asked.bench) if asked else []
            unknown += [] if asked else [f"the bench of {problem}"]
    said = [too_few_rounds(few)]
    for model in tree.models:
        steps, asked = tree.table(STEPS, f"train/{model}/steps"), tree.settings(f"train/{model}/steps")
        if steps is not None:
            said += [too_few_steps(steps, asked.train)] if asked else []
            unknown += [] if asked else [f"the training of {model}"]
    if unknown:
        said.append(
            f"Whether {', '.join(unknown)} got as many rounds and steps as they should is not known: no sidecar "
            "of theirs tells their settings."
        )
    return [one for one in said if one]
