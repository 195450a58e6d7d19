"""What a run took, and after how many training steps that is saved again, in a sentence."""

from collections.abc import Iterator

from overlayccl_core.cli.render import NOTHING
from overlayccl_core.configuration.models import label
from overlayccl_core.report.arms import Arm, Run
from overlayccl_core.report.payback import Cost, cost_of, deployed_and_developer, payback, rounded
from overlayccl_core.report.tree import Tree


def spent_text(tree: Tree) -> Iterator[str]:
    """Nothing where a job of the run left no duration."""
    cost = cost_of(tree)
    if cost is None or cost.unknown:
        return
    said = f"Measuring, proving and searching took {cost.seconds / 60:.1f} minutes in all"
    paid = [
        f"{label(run.model, run.microbatches)} {rounded(steps)}{_beside(run, chosen, cost)}"
        for run, chosen, developer in deployed_and_developer(tree)
        if (steps := payback(chosen, developer, cost).steps)
    ]
    if paid:
        said += (
            ". Over developer's calls that is saved again, by each model alone, after so many training steps "
            f"(in brackets: over the best other arm; -: not faster beyond noise): {', '.join(paid)}"
        )
    yield said + "."


def _beside(run: Run, chosen: Arm, cost: Cost) -> str:
    """` (13,300 hand_bundled)`."""
    other = run.best_other
    if other is None:
        return ""
    steps = payback(chosen, other, cost).steps
    return f" ({NOTHING if steps is None else rounded(steps)} {other.name})"
