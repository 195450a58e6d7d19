"""What is deployed in a model and what it is worth: tables `deployed` and `splits`, of launches that chose nothing.

The sentences here are the first that a run says, on the screen and in the report.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from overlayccl_core.configuration.models import of_labels
from overlayccl_core.measuring.arms import ArmName, arm_label, least_plain
from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.report.blocks import columns_ratio, count, mebibytes, ms, times, worded
from overlayccl_core.tables.deployed import Part

Row = Mapping[str, Any]
DISTURBED = "Disturbed: others took CPU time in most of these launches. Measure again on a quiet machine."


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A row of `splits`. gain: how many times as fast what is deployed is; None for that itself."""

    microbatches: int
    arm: str
    ran_as: str
    part: Part
    needs_search: bool
    step_us: float
    peak_activation_bytes: int | None
    gain: Ratio | None

    @property
    def name(self) -> str:
        """`hand bundled at M = 1`."""
        return f"{arm_label(self.arm)} at M = {self.microbatches}"

    @property
    def figures(self) -> str:
        """`151 ms, 12.5 MiB`."""
        return f"{ms(self.step_us)}, {mebibytes(self.peak_activation_bytes)}"

    @property
    def timed(self) -> bool:
        """False where a plainer arm with the same modules was timed for it."""
        return self.arm in (self.ran_as, ArmName.DEPLOYED)

    def is_program_of(self, other: "Split") -> bool:
        """Whether both run the same Programs at the same count of microbatches."""
        return (self.microbatches, self.ran_as) == (other.microbatches, other.ran_as)


@dataclass(frozen=True, kw_only=True)
class Worth:
    """A model. splits: fewer microbatches first, then the fastest first.

    candidates: count of microbatches -> what is deployed at its Cases; chosen_as: -> as which arm it was chosen.
    """

    model: str
    splits: tuple[Split, ...]
    candidates: Mapping[int, tuple[str, ...]]
    chosen_as: Mapping[int, str]
    launches: int
    disturbed: bool

    @cached_property
    def deployed(self) -> Split | None:
        """None where nothing that is deployed was timed in steps."""
        return next((s for s in self.splits if s.part is Part.DEPLOYED), None)

    @cached_property
    def rival(self) -> Split | None:
        """The fastest that needs no search at the same or less memory."""
        return next((s for s in self.splits if s.part is Part.RIVAL), None)

    @cached_property
    def developer(self) -> Split | None:
        """The developer's own calls where they are fastest, at whatever count of microbatches."""
        mine = [s for s in self.splits if s.arm == ArmName.DEVELOPER]
        return min(mine, key=lambda s: s.step_us, default=None)

    @property
    def best(self) -> str:
        """What the rival is, in words."""
        other = "" if self.deployed is None or self.deployed.needs_search else " other"
        return f"the best{other} that needs no search at the same or less memory"

    @property
    def generator(self) -> Split | None:
        """The arm as which was chosen what is deployed: its emitted module, not the file."""
        here = self.deployed.microbatches if self.deployed else 0
        return self.at(here, self.chosen_as[here]) if here in self.chosen_as else None

    @property
    def quicker(self) -> tuple[Split, ...]:
        """What is faster beyond noise than what is deployed and could be had instead, without the rival."""
        return tuple(
            one
            for one in self.splits
            if one.part is Part.BESIDE
            and one.arm == one.ran_as
            and (one.arm == ArmName.DEPLOYED or not one.needs_search)
            and (gain := self.gain_over(one))
            and gain.slower
        )

    def at(self, microbatches: int, arm: str) -> Split | None:
        """A row; None where there is none."""
        return next((s for s in self.splits if (s.microbatches, s.arm) == (microbatches, arm)), None)

    def gain_over(self, other: Split | None) -> Ratio | None:
        """How many times as fast what is deployed is; None over its own Programs."""
        mine = self.deployed
        return other.gain if mine and other and not other.is_program_of(mine) else None


def worths_of(splits: pl.DataFrame, deployed: pl.DataFrame) -> tuple[Worth, ...]:
    """One for each model of `splits`, in its order. deployed: the table of that name."""
    candidates: dict[str, dict[int, list[str]]] = {}
    arms: dict[str, dict[int, list[str]]] = {}
    for row in deployed.iter_rows(named=True):
        for model, m in of_labels(row["trained_in"]):
            candidates.setdefault(model, {}).setdefault(m, []).append(row["candidate"])
            arms.setdefault(model, {}).setdefault(m, []).append(row["arm"])
    worths = []
    for (name,), rows in splits.filter(pl.col("step_us").is_not_null()).group_by(
        "model", maintain_order=True
    ):
        model = str(name)
        listed = sorted(map(_split, rows.iter_rows(named=True)), key=lambda s: (s.microbatches, s.step_us))
        worths.append(
            Worth(
                model=model,
                splits=tuple(listed),
                candidates={m: tuple(dict.fromkeys(names)) for m, names in candidates.get(model, {}).items()},
                chosen_as={m: least_plain(names) for m, names in arms.get(model, {}).items()},
                launches=max(rows["launches"]),
                disturbed=bool(rows["disturbed"].any()),
            )
        )
    return tuple(worths)


def _split(row: Row) -> Split:
    same = ("microbatches", "arm", "ran_as", "needs_search", "step_us", "peak_activation_bytes")
    return Split(
        **{name: row[name] for name in same}, part=Part(row["part"]), gain=columns_ratio(row, "slower")
    )


# ---------------------------------------------------------------------------------------------------------- words
def warnings(worth: Worth) -> list[str]:
    """What has to be read before any gain: what is faster or may be, and that the search added nothing."""
    mine = worth.deployed
    if mine is None:
        return ["Nothing that is deployed was timed in its steps, so no gain is told."]
    said = [*_rival_first(worth), *_whole_batch(worth)]
    if not mine.needs_search:
        said.append(
            f"The search added nothing here: what is deployed is {arm_label(mine.ran_as)}, which people write."
        )
    for one in worth.quicker:
        more = (one.peak_activation_bytes or 0) > (mine.peak_activation_bytes or 0)
        memory = f" with more memory ({mebibytes(one.peak_activation_bytes)})" if more else ""
        said.append(
            f"{_first_up(one.name)} is faster{memory}: what is deployed is {times(one.gain)} as fast."
        )
    return [*said, *([DISTURBED] if worth.disturbed else [])]


def facts(worth: Worth, *, rival: bool = True) -> list[str]:
    """What is deployed, its gains over the rival and over developer, and what being a file costs it.

    rival: False where the gain over it is told already.
    """
    mine = worth.deployed
    if mine is None:
        return []
    return [
        f"Deployed: {_split_into(mine.microbatches)}, {_candidates(worth, mine)}: {ms(mine.step_us)} a step, "
        f"{mebibytes(mine.peak_activation_bytes)} of memory.",
        *([_over_rival(worth)] if rival else []),
        *_over_developer(worth, mine),
        *_overhead(worth),
        f"Measured in {count(worth.launches, 'launch', 'launches')} that chose nothing.",
    ]


def place_of(row: Row) -> str:
    """`tp_mlp/n4-m8-l8-32KiB-f32, forward` of a row of `deployed`."""
    return f"{row['case']}, {row['direction']}"


def case_warnings(row: Row) -> Iterator[str]:
    """What has to be said of a row of `deployed` before its gains. Of a trained Case, the step says it."""
    if row["trained_in"]:
        return
    gain = columns_ratio(row, "gain")
    if row["measured_us"] is None:
        yield f"{place_of(row)}: what is deployed was not timed again, so no gain is told."
    elif gain is not None and gain.slower:
        other = f"{arm_label(row['best_other'])}, which needs no search, is faster"
        yield f"{place_of(row)}: {other}: what is deployed is {times(gain)} as fast."
    elif gain is not None and gain.word == "undecided":
        other = f"{arm_label(row['best_other'])}, which needs no search"
        yield f"{place_of(row)}: it is undecided whether what is deployed is faster than {other}: {times(gain)}."


def _rival_first(worth: Worth) -> Iterator[str]:
    rival = worth.rival
    gain = worth.gain_over(rival)
    if rival is None or gain is None:
        return
    if gain.slower:
        yield (
            f"{_first_up(rival.name)}, which needs no search, is faster at the same or less memory: what is "
            f"deployed is {times(gain)} as fast."
        )
    elif gain.word == "undecided":
        yield (
            f"It is undecided whether what is deployed is faster than {rival.name}, which needs no search: "
            f"{times(gain)}."
        )


def _whole_batch(worth: Worth) -> Iterator[str]:
    mine, rival = worth.deployed, worth.rival
    if mine is None:
        return
    if mine.microbatches == 1:
        split = [one for one in worth.splits if one.microbatches != 1]
        gain = worth.gain_over(min(split, key=lambda one: one.step_us, default=None))
        if gain and not gain.slower:
            wins = "wins" if gain.beyond_noise else "may win"
            yield f"Not splitting the batch {wins}: what is deployed computes it whole (M = 1)."
        return
    gain = worth.gain_over(rival)
    if rival is not None and rival.microbatches == 1 and gain and gain.value < 1:
        wins = "wins" if gain.slower else "may win"
        yield f"Not splitting the batch (M = 1) {wins}: what is deployed splits it into {mine.microbatches}."


def _over_rival(worth: Worth) -> str:
    rival = worth.rival
    if rival is None or not (gain := worth.gain_over(rival)):
        return f"There is no rival: nothing beside it is {worth.best}."
    return f"Over {worth.best}, {rival.name} ({rival.figures}): {worded(gain)}."


def _over_developer(worth: Worth, mine: Split) -> Iterator[str]:
    """At the same count of microbatches, and where developer alone is fastest; not where that is the rival."""
    alone, here = worth.developer, worth.at(mine.microbatches, ArmName.DEVELOPER)
    if here is not worth.rival and (gain := worth.gain_over(here)):
        also = ", where developer alone is fastest" if here is alone else ""
        yield f"Over developer at M = {mine.microbatches}{also}: {worded(gain)}."
    if alone is not None and alone not in (here, worth.rival) and (gain := worth.gain_over(alone)):
        yield f"Over developer at M = {alone.microbatches}, where developer alone is fastest: {worded(gain)}."


def _overhead(worth: Worth) -> Iterator[str]:
    """The file's step over that of the module that was chosen: what being a file costs, its groups left out."""
    module = worth.generator
    if module is not None and (gain := module.gain) is not None:
        low, high = (None if end is None else 1 / end for end in (gain.high, gain.low))
        ratio = Ratio(value=1 / gain.value, low=low, high=high)
        name = arm_label(module.arm)
        yield f"The deployed file's step is {times(ratio)} that of the module that was chosen ({name})."


def _split_into(microbatches: int) -> str:
    return f"the batch {'whole' if microbatches == 1 else f'in {microbatches} microbatches'} (M = {microbatches})"


def _candidates(worth: Worth, mine: Split) -> str:
    return " and ".join(worth.candidates.get(mine.microbatches, ()))


def _first_up(text: str) -> str:
    return text[:1].upper() + text[1:]
