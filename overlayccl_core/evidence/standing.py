"""What stands: whether, by launches that chose nothing, anything takes the place of what was chosen.

What was chosen stands unless these launches show that it is slower, beyond noise, than something that needs no
search and takes no more memory. That then takes its place: deployed if it is a Program, else to be kept as it is.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from overlayccl_core.configuration.models import of_labels
from overlayccl_core.evidence.choices import ProblemChoice, rows_of
from overlayccl_core.evidence.predictions import Place, at
from overlayccl_core.evidence.splits import Split, chosen_as, chosen_split, rivals_of, splits_of
from overlayccl_core.measuring.arms import ArmName, at_case, is_framework
from overlayccl_core.measuring.measurements import Measurement, measurements
from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.program.case import problem_of

Step = tuple[str, int]  # a model and a count of microbatches


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTables:
    """Steps and stamps of all models: of training, by which was chosen, and of the launches after it."""

    steps: pl.DataFrame
    stamps: pl.DataFrame
    confirmed_steps: pl.DataFrame
    confirmed_stamps: pl.DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """A model in the launches that chose nothing: every split, what was chosen, its fastest rival, and what takes
    its place (None: it stands). None, too, for what was not timed."""

    splits: tuple[Split, ...]
    chosen: Split | None
    rival: Split | None
    instead: Split | None

    @property
    def at_counts(self) -> dict[int, str]:
        """Count of microbatches -> the arm that takes the place of what was chosen there, where it does not stand.

        Rivals are those of the same count; of the count that was chosen, those of any. Where the framework's own
        is faster than that, nothing of the model is deployed.
        """
        found = {}
        for one in self.splits:
            if one.arm == ArmName.DEPLOYED and one is not self.chosen:
                same = (r for r in rivals_of(one, self.splits) if r.microbatches == one.microbatches)
                if (better := quicker(one, same)) is not None:
                    found[one.microbatches] = better.arm
        if self.instead is not None and is_framework(self.instead.arm):
            return {one.microbatches: self.instead.arm for one in self.splits}
        return found if self.instead is None else {**found, self.instead.microbatches: self.instead.arm}


def headlines_of(choices: Sequence[pl.DataFrame], steps: StepTables) -> dict[str, Headline]:
    """Of every model that was timed. choices: the table of every Problem."""
    models = steps.confirmed_steps["model"].unique(maintain_order=True)
    return {model: headline_of(model, chosen_as(model, choices), steps) for model in models}


def headline_of(model: str, chosen: Mapping[int, str], tables: StepTables) -> Headline:
    """chosen: of `chosen_as`. Training chose the count of microbatches; all else is of the launches after it."""
    trained = chosen_split(chosen, splits_of(model, tables.steps, tables.stamps))
    splits = splits_of(model, tables.confirmed_steps, tables.confirmed_stamps, plain=tables.stamps)
    here = (trained.microbatches, ArmName.DEPLOYED) if trained else None
    mine = next((one for one in splits if (one.microbatches, one.arm) == here), None)
    rivals = rivals_of(mine, splits) if mine else []
    return Headline(
        splits=tuple(splits),
        chosen=mine,
        rival=min(rivals, key=lambda one: one.us, default=None),
        instead=quicker(mine, rivals) if mine else None,
    )


def quicker(mine: Split, rivals: Iterable[Split]) -> Split | None:
    """The fastest of those than which it is slower beyond noise."""
    faster = [one for one in rivals if (gain := mine.seen.speedup_over(one.seen)) and gain.slower]
    return min(faster, key=lambda one: one.us, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """A Case and direction that was timed alone. file: what was chosen. of_module: time of the module of the same
    Program over the file's. gains: arm -> its time over the file's, of arms with other Programs. instead: the
    fastest of those than which the module is slower."""

    file: Measurement | None
    of_module: Ratio | None
    gains: dict[str, Ratio]
    instead: str | None


def passes_of(confirmed: pl.DataFrame) -> Passes:
    """confirmed: of this Case and direction: what needs no search, the file, and the module of its Program.

    Modules are judged by modules: what a file asks before a call it asks whatever has the place.
    """
    arms = {
        arm: next(iter(measurements(confirmed.filter(pl.col("arm") == arm).iter_rows(named=True)).values()))
        for arm in confirmed["arm"].unique(maintain_order=True)
    }
    file = arms.pop(ArmName.DEPLOYED, None)
    if file is None:
        return Passes(file=None, of_module=None, gains={}, instead=None)
    module = next((one for one in arms.values() if one.program == file.program), file)
    others = {arm: one for arm, one in arms.items() if one.program != file.program}
    behind = {
        arm: ratio for arm, one in others.items() if (ratio := module.speedup_over(one)) and ratio.slower
    }
    return Passes(
        file=file,
        of_module=None if module is file else file.speedup_over(module),
        gains={arm: ratio for arm, one in others.items() if (ratio := file.speedup_over(one))},
        instead=min(behind, key=lambda arm: behind[arm].value, default=None),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Site:
    """A Case and direction. steps: that have it. alone: what its passes put there. programs: of the arms."""

    problem: str
    steps: Sequence[Step]
    alone: str
    programs: Mapping[str, str]

    def program(self, arm: str) -> str:
        """Of the framework's own, which has none here, the name says what it is."""
        return at_case(self.programs, arm, self.problem) or arm


def placed(
    problems: Iterable[ProblemChoice], confirmed: pl.DataFrame, headlines: Mapping[str, Headline]
) -> dict[Place, str]:
    """(case, direction) -> the arm that takes the place of what was chosen there.

    A verdict is of a step. Its arm takes the place at all Cases of that step where it has another Program than what
    was chosen, or at none: no step is given a mixture that it never ran. Steps that share a Case must want the same
    Program there. One that does not get what it wants gives up all its Cases, so another may then lack one, too.
    Where no step has the Case, its passes decide.
    """
    verdicts = {(model, m): arm for model, one in headlines.items() for m, arm in one.at_counts.items()}
    sites = {place: site for decided in problems for place, site in _sites_of(decided, confirmed)}
    while True:
        taken = _agreed(sites, verdicts)
        lacking = {
            step
            for place, site in sites.items()
            for step in verdicts.keys() & site.steps
            if site.program(verdicts[step]) != site.program(taken.get(place, ArmName.DEPLOYED))
        }
        if not lacking:
            return taken
        verdicts = {step: arm for step, arm in verdicts.items() if step not in lacking}


def _sites_of(decided: ProblemChoice, confirmed: pl.DataFrame) -> Iterator[tuple[Place, _Site]]:
    programs: dict[Place, dict[str, str]] = {}
    for row in rows_of(decided):
        programs.setdefault((row["case"], row["direction"]), {})[row["arm"]] = row["program"]
    for row in decided.choice.iter_rows(named=True):
        place = (row["case"], row["direction"])
        alone = passes_of(at(confirmed, place)).instead or ArmName.DEPLOYED
        steps, of = of_labels(row["trained_in"]), programs[place]
        yield place, _Site(problem=problem_of(place[0]), steps=steps, alone=alone, programs=of)


def _agreed(sites: Mapping[Place, _Site], verdicts: Mapping[Step, str]) -> dict[Place, str]:
    """What all steps of a place want there. The framework's own in both directions of a Case: a file has both."""
    taken = {}
    for place, site in sites.items():
        arms = [verdicts.get(step, ArmName.DEPLOYED) for step in site.steps] or [site.alone]
        [program, *others] = {site.program(arm) for arm in arms}
        if not others and program != site.program(ArmName.DEPLOYED):
            taken[place] = arms[0]
    return {
        (case, direction): arm
        for (case, direction), arm in taken.items()
        if not is_framework(arm) or all(taken.get(place) == arm for place in sites if place[0] == case)
    }
