"""One step of a recipe: a rule at a class of a Program, with a setting of its knob."""

from collections.abc import Iterator, Sequence

from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.program import Program
from overlayccl_core.program.schedule import schedule
from overlayccl_core.program.substitution import substitute
from overlayccl_core.rewrites import rule as rules_
from overlayccl_core.rewrites.classes import site_classes
from overlayccl_core.rewrites.rule import DoesNotApply, RewriteRule, rule_names

__all__ = ["DoesNotApply", "Step", "apply", "rule_names", "steps_at"]

Step = tuple[str, str, str]
"""(rule, site class, knob): an entry of `Recipe.steps`; no part depends on a size."""


def apply(program: Program, step: Step) -> Program:
    """Return the rewritten Program, its events rebuilt by `schedule`.

    Raises:
        DoesNotApply: There is no such site, the rule refuses all sites, nothing would change, or the result is no
            legal Program. The message names rule and class.
        ValueError: There is no such rule.
    """
    name, site_class, knob = step
    rule = rules_.rule(name)
    classes = site_classes(program, rule.KINDS)
    where = f"rule {name} at {site_class}" + (f" with {knob}" if knob else "")
    if site_class not in classes:
        there = ", ".join(classes) or f"no {' or '.join(k.value for k in rule.KINDS)}"
        raise DoesNotApply(f"{where}: no such collectives in this Program (there is {there})")
    sites = classes[site_class]
    if knob and rule.knobs is rules_.no_knobs:
        raise DoesNotApply(f"{where}: the rule has no knob, leave it empty")
    try:
        return _rewritten(program, rule, sites, knob)
    except (DoesNotApply, Rejected) as error:
        raise DoesNotApply(f"{where}: {error}") from error


def _rewritten(program: Program, rule: RewriteRule, sites: Sequence[Node], knob: str) -> Program:
    replacements = rule.rewrite(program, sites, knob)
    if not replacements:
        raise DoesNotApply("none of these collectives meets its side conditions")
    outputs = substitute(program.outputs, replacements)
    if all(outputs[port] is x for port, x in program.outputs.items()):
        raise DoesNotApply("nothing would change")
    return schedule(program.problem, outputs)


def steps_at(program: Program, rules: Sequence[str] | None = None) -> Iterator[Step]:
    """Yield every step worth trying here: rules (None: all) x classes x knobs; some may not apply."""
    for name in rule_names() if rules is None else rules:
        rule = rules_.rule(name)
        for site_class, sites in site_classes(program, rule.KINDS).items():
            for knob in rule.knobs(program, sites):
                yield name, site_class, knob
