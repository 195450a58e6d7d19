"""The final decision: launches after the choice either confirm each chosen Program or replace it.

A chosen Program stands unless it is slower there, beyond noise, than an arm that needs no search and takes no more
memory. That arm then replaces it: a Program is deployed, the framework's own way is kept as it is.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from overlayccl_core.configuration.models import of_labels
from overlayccl_core.evidence.choices import ProblemChoice, rows_of
from overlayccl_core.evidence.predictions import place_of, rows_at
from overlayccl_core.evidence.splits import Split, chosen_as, chosen_split, rivals_of, splits_of
from overlayccl_core.measuring.arms import ArmName, at_case, is_framework
from overlayccl_core.measuring.measurements import Measurement, measurements
from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.program.case import problem_of
from overlayccl_core.program.problem import Place

Step = tuple[str, int]  # a model and a count of microbatches


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTables:
    """Steps and stamps of all models: from training, the basis of the choice, and from the launches after it."""

    steps: pl.DataFrame
    stamps: pl.DataFrame
    confirmed_steps: pl.DataFrame
    confirmed_stamps: pl.DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """A model in the launches after the choice."""

    splits: tuple[Split, ...]  # all timed arms
    chosen: Split | None  # the chosen arm; None if it was not timed
    rival: Split | None  # its fastest rival, or None
    instead: Split | None  # the arm in its place; None: it stands

    @property
    def at_counts(self) -> dict[int, str]:
        """Count of microbatches -> the arm in place of the chosen one, for choices that do not stand.

        At the chosen count, rivals of all counts compete; at another count, only its own. If the framework's
        own arm wins at the chosen count, nothing of the model is deployed.
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
    """Return the Headline of every timed model. choices: the table `choice` of every Problem."""
    models = steps.confirmed_steps["model"].unique(maintain_order=True)
    return {model: headline_of(model, chosen_as(model, choices), steps) for model in models}


def headline_of(model: str, chosen: Mapping[int, str], tables: StepTables) -> Headline:
    """Return a model's Headline; chosen: from `chosen_as`.

    Training chose the count of microbatches; all else is of the launches after it.
    """
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
    """Return the fastest rival that beats `mine` beyond noise, or None."""
    faster = [one for one in rivals if (speedup := mine.seen.speedup_over(one.seen)) and speedup.slower]
    return min(faster, key=lambda one: one.us, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """Timings of a Case and direction alone, outside a training step."""

    file: Measurement | None  # the chosen Program in its deployed file
    of_module: Ratio | None  # time of the module with the same Program over the file's
    gains: dict[str, Ratio]  # arm -> its time over the file's, for arms with other Programs
    instead: str | None  # the fastest arm that beats the module beyond noise, or None


def passes_of(confirmed: pl.DataFrame) -> Passes:
    """Return the timings of one Case and direction, from its rows of `confirmed`.

    These are of the arms without a search, the file, and the module of its Program. Modules compete with modules: a
    file's checks before a call cost every Program the same.
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
    """A Case and direction. steps: those with it. alone: the choice of its passes. programs: by arm."""

    problem: str
    steps: Sequence[Step]
    alone: str
    programs: Mapping[str, str]

    def program(self, arm: str) -> str:
        """Return an arm's Program, or the arm's name for the framework's own, which has no Program here."""
        return at_case(self.programs, arm, self.problem) or arm


def placed(
    problems: Iterable[ProblemChoice], confirmed: pl.DataFrame, headlines: Mapping[str, Headline]
) -> dict[Place, str]:
    """Return (case, direction) -> the arm in place of the chosen one there.

    An arm takes the place at all Cases of a step or at none, because a mixture was never timed. Steps with a
    shared Case must agree on its Program: a step without its Program at one Case gives up its other Cases, too,
    which may cost further steps theirs. A Case outside all steps follows its own passes.
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
        programs.setdefault(place_of(row), {})[row["arm"]] = row["program"]
    for row in decided.choice.iter_rows(named=True):
        place = place_of(row)
        alone = passes_of(rows_at(confirmed, place)).instead or ArmName.DEPLOYED
        steps, of = of_labels(row["trained_in"]), programs[place]
        yield place, _Site(problem=problem_of(place[0]), steps=steps, alone=alone, programs=of)


def _agreed(sites: Mapping[Place, _Site], verdicts: Mapping[Step, str]) -> dict[Place, str]:
    """Return the arms wanted by all steps of a place; the framework's own in both directions only, like a file."""
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
