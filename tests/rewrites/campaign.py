"""Every rewrite rule on random small Programs; on thousands: `python -m tests.rewrites.campaign [PROGRAMS]`.

A result must be a legal Program, equal to the one before in every element, no worse in rounding than its rule
declares, keep what the rule promises (promises.py), and come out the same twice.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from random import Random

from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.program import Program
from overlayccl_core.program.segments import IllegalOrder, walk
from overlayccl_core.rewrites import rule as rules_
from overlayccl_core.rewrites.apply import DoesNotApply, Step, apply, rule_names, steps_at
from overlayccl_core.rewrites.classes import site_classes
from overlayccl_core.rewrites.rule import RuleNumerics
from tests.rewrites.generator import random_program
from tests.rewrites.judge import Rounding, differs, loses
from tests.rewrites.promises import Applied, promises

PROGRAMS = 2600
ENOUGH = 500  # applications of a rule: all mutants are caught before
LARGEST_IN_A_ROW = 256  # elements of a value after many steps
KNOBS = {  # besides those that a rule calls worth trying: it must do right, or refuse
    "ring": ("handed_on",),
    "merge": ("1/2", "1/3", "1/4"),
    "split": ("3", "5"),
    "two_tiers": ("", "reduce", "scatter"),
    "wire_dtype": ("float16",),
}
TWICE_EVERY = 8  # applications, of which one is repeated


class Wrong(AssertionError):
    """A rule broke a Program; names seed, step and what is wrong."""


@dataclass(slots=True)
class Tally:
    """What a rule did: Programs seen, Programs it applied at, knobs it applied with."""

    rule: str
    programs: int = 0
    applied: int = 0
    seconds: float = 0.0
    knobs: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        knobs = ", ".join(f"{k} {n}" for k, n in sorted(self.knobs.items()) if k)
        return f"{self.rule:28}{self.programs:>10}{self.applied:>10}{self.seconds:>8.1f}  {knobs}"


HEADER = f"{'rule':28}{'Programs':>10}{'applied':>10}{'seconds':>8}  knobs"

program_of = lru_cache(maxsize=None)(random_program)


def run(rule: str, seeds: Iterable[int] = range(PROGRAMS), enough: int = ENOUGH) -> Tally:
    """One application at each Program where the rule applies, at a random class and knob. Raises Wrong."""
    tally, start = Tally(rule), time.perf_counter()
    for seed in seeds:
        if tally.applied == enough:
            break
        tally.programs += 1
        program = program_of(seed)
        for step in _in_random_order(program, rule, seed):
            if judged(program, step, twice=tally.applied % TWICE_EVERY == 0, seed=seed) is not None:
                tally.applied += 1
                tally.knobs[step[2]] += 1
                break
    tally.seconds += time.perf_counter() - start
    return tally


def _in_random_order(program: Program, rule: str, seed: int) -> list[Step]:
    classes = site_classes(program, rules_.rule(rule).KINDS)
    more = [(rule, c, knob) for c in classes for knob in KNOBS.get(rule, ())]
    steps = list(dict.fromkeys([*steps_at(program, (rule,)), *more]))
    Random(f"{seed} {rule}").shuffle(steps)
    return steps


def judged(
    program: Program, step: Step, *, seed: int, twice: bool = True, after: Sequence[Step] = ()
) -> Program | None:
    """The result of a step, None where it does not apply. Raises Wrong."""
    where = f"seed {seed}, {step}" + (f" after {list(after)}" if after else "")
    try:
        result = apply(program, step)
        wrong = fault(program, step, result) or (twice and _differs_from_itself(program, step, result))
    except DoesNotApply as error:
        if isinstance(error.__cause__, Rejected):  # the rule said yes, and no Program came of it
            raise Wrong(f"{where}: {error}") from error
        return None
    except Exception as error:
        raise Wrong(f"{where}: {type(error).__name__}: {error}") from error
    if wrong:
        raise Wrong(f"{where}: {wrong}")
    return result


def fault(program: Program, step: Step, result: Program) -> str:
    """What is wrong with the result of a step; empty if nothing."""
    name, site_class, knob = step
    rule = rules_.rule(name)
    try:
        walk(result)
    except IllegalOrder as error:
        return str(error)
    if nothing := [x for x in result.nodes if x.size < 1]:
        return f"{nothing} hold no elements"
    if where := differs(result, program):
        return f"differs at {where}"
    if rule.NUMERICS is RuleNumerics.SAME and (where := differs(result, program, Rounding)):
        return f"rounds otherwise at {where}, declared {rule.NUMERICS}"
    if rule.NUMERICS is not RuleNumerics.LOSSY and loses(result) and not loses(program):
        return f"computes in 16 bits, declared {rule.NUMERICS}"
    sites = site_classes(program, rule.KINDS)[site_class]
    applied = Applied(rule=name, program=program, sites=sites, knob=knob, result=result)
    return next((wrong for promise in promises(name) if (wrong := promise(applied))), "")


def _differs_from_itself(program: Program, step: Step, result: Program) -> str:
    again = apply(Program(program.problem, program.events), step)
    return "" if again.digest == result.digest else "comes out otherwise when done again"


def in_a_row(seed: int, length: int) -> list[Step]:
    """Random steps one after another from the Program of a seed, each judged; those that applied."""
    random, program, done = Random(seed), program_of(seed), list[Step]()
    while len(done) < length:
        for step in _some(random, program):
            result = judged(program, step, twice=False, seed=seed, after=done)
            if result is not None and max(x.size for x in result.nodes) <= LARGEST_IN_A_ROW:
                program = result
                done.append(step)
                break
        else:
            break
    return done


def _some(random: Random, program: Program) -> Iterator[Step]:
    """Up to 12 steps, so that common rules do not crowd out the others: a rule first, then a step of it."""
    rules = list(rule_names())
    random.shuffle(rules)
    steps_of = (list(steps_at(program, (name,))) for name in rules)
    return (random.choice(steps) for steps in islice(filter(None, steps_of), 12))


def main() -> int:
    """Print the table; 1 if a rule is wrong or was applied too seldom."""
    programs = int(sys.argv[1]) if len(sys.argv) > 1 else PROGRAMS
    bad = 0
    print(HEADER)
    for rule in rule_names():
        try:
            tally = run(rule, range(programs), enough=programs)
            print(tally, "" if tally.applied >= ENOUGH else "TOO FEW")
            bad += tally.applied < ENOUGH
        except Wrong as wrong:
            print(f"{rule:28}{wrong}")
            bad += 1
    return min(bad, 1)


if __name__ == "__main__":
    raise SystemExit(main())
