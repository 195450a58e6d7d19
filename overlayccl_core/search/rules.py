"""The rewrite rules as a search asks for them: which to try, what one does, whether there is one of that name."""

from collections.abc import Iterator

from overlayccl_core.program.program import Program
from overlayccl_core.rewrites import rule as rules_
from overlayccl_core.rewrites.apply import Step, rule_names, steps_at
from overlayccl_core.rewrites.rule import RuleNumerics
from overlayccl_core.search.labels import LABEL_RULES


def structural_rules(*, lossy: bool) -> tuple[str, ...]:
    """The rules that are no labels; those that lose bits only where that is asked for."""
    return tuple(
        name
        for name in rule_names()
        if name not in LABEL_RULES and (lossy or rules_.rule(name).NUMERICS is not RuleNumerics.LOSSY)
    )


def structural_steps(program: Program, *, lossy: bool) -> Iterator[Step]:
    """Every structural rule at every site class of a Program with every knob; some may not apply."""
    return steps_at(program, structural_rules(lossy=lossy))


def rationale(step: Step) -> str:
    """What a step's rule does, in its own words."""
    doc = rules_.rule(step[0]).__doc__ or step[0]
    return doc.strip().splitlines()[0].rstrip(".")


def no_such_rule(step: Step) -> str:
    """Why there is no rule of a step's name; empty where there is one."""
    try:
        rules_.rule(step[0])
    except ValueError as error:
        return str(error)
    return ""
