"""The offline proposer: every rewrite rule at every site class with every knob. Free, and always the same."""

from collections.abc import Iterator, Sequence

from overlayccl_core.program.kinds import COLLECTIVES
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites import rule as rules_
from overlayccl_core.rewrites.apply import Step, rule_names, steps_at
from overlayccl_core.rewrites.classes import site_classes
from overlayccl_core.rewrites.rule import RuleNumerics

DROP_BOUNDARY = "drop_boundary"
EARLY_ISSUE = "early_issue"
LABELS = (DROP_BOUNDARY, EARLY_ISSUE)


def structural_rules(*, lossy: bool) -> tuple[str, ...]:
    """The rules that are no labels; those that lose bits only where that is asked for."""
    return tuple(
        name
        for name in rule_names()
        if name not in LABELS and (lossy or rules_.rule(name).NUMERICS is not RuleNumerics.LOSSY)
    )


def proposals(program: Program, rules: Sequence[str]) -> Iterator[Step]:
    """The steps worth trying at a Program."""
    return steps_at(program, rules)


def without_boundaries(program: Program) -> tuple[Step, ...]:
    """Steps that let all collectives be in one graph."""
    classes = site_classes(program, COLLECTIVES).items()
    return tuple((DROP_BOUNDARY, name, "") for name, sites in classes if any(x.label.graph for x in sites))


def early_issues(program: Program) -> tuple[Step, ...]:
    """Steps that each let a class be in flight together; any of them may be taken."""
    return tuple((EARLY_ISSUE, name, "") for name in site_classes(program, COLLECTIVES))


def rationale(step: Step) -> str:
    """What a step's rule does, in its own words."""
    doc = rules_.rule(step[0]).__doc__ or step[0]
    return doc.strip().splitlines()[0].rstrip(".")
