"""The rewrite rules of a search: names, steps, descriptions."""

from collections.abc import Iterator

from overlayccl_core.program.program import Program
from overlayccl_core.rewrites import rule as rules_
from overlayccl_core.rewrites.apply import Step, rule_names, steps_at
from overlayccl_core.rewrites.rule import RuleNumerics
from overlayccl_core.search.labels import LABEL_RULES


def structural_rules(*, lossy: bool) -> tuple[str, ...]:
    """Return all rules except label rules; lossy ones only on request."""
    return tuple(
        name
        for name in rule_names()
        if name not in LABEL_RULES and (lossy or rules_.rule(name).NUMERICS is not RuleNumerics.LOSSY)
    )


def structural_steps(program: Program, *, lossy: bool) -> Iterator[Step]:
    """Yield each structural rule at each site class of a Program with each knob; some may not apply."""
    return steps_at(program, structural_rules(lossy=lossy))


def rationale(step: Step) -> str:
    """Return the first line of the docstring of a step's rule. ValueError: there is no such rule."""
    doc = rules_.rule(step[0]).__doc__ or step[0]
    return doc.strip().splitlines()[0].rstrip(".")
