"""The deployed arm of each model and its gains: tables `deployed` and `splits`, of launches after the choice."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from overlayccl_core.configuration.models import of_labels
from overlayccl_core.measuring.arms import ArmName, arm_label, least_plain, use_text
from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.report.blocks import columns_ratio, mebibytes, ms
from overlayccl_core.tables.deployed import Part

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRow:
    """A row of `splits`. deployed_speedup: of the deployed arm over this one; None for that arm itself."""

    microbatches: int
    arm: str
    ran_as: str
    part: Part
    needs_search: bool
    step_us: float
    peak_memory_bytes: int | None
    deployed_speedup: Ratio | None

    @property
    def name(self) -> str:
        """Name for people: `hand bundled at M = 1`."""
        return f"{arm_label(self.arm)} at M = {self.microbatches}"

    @property
    def figures(self) -> str:
        """Step time and memory: `151 ms, 12.5 MiB`."""
        return f"{ms(self.step_us)}, {mebibytes(self.peak_memory_bytes)}"

    @property
    def timed(self) -> bool:
        """Whether it was timed itself, not by a plainer arm with the same modules."""
        return self.arm in (self.ran_as, ArmName.DEPLOYED)

    def is_program_of(self, other: "SplitRow") -> bool:
        """Return whether both run the same Programs at the same count of microbatches."""
        return (self.microbatches, self.ran_as) == (other.microbatches, other.ran_as)


@dataclass(frozen=True, kw_only=True)
class Worth:
    """A model's arms and gains."""

    model: str
    splits: tuple[SplitRow, ...]  # fewer microbatches first, then the fastest first
    candidates: Mapping[int, tuple[str, ...]]  # count of microbatches -> candidates chosen at its Cases
    chosen_as: Mapping[int, str]  # count of microbatches -> arm of the choice
    replaced: Mapping[int, str]  # count of microbatches -> arm in place of the choice
    launches: int
    disturbed: bool

    @cached_property
    def deployed(self) -> SplitRow | None:
        """The chosen arm as the file runs it; None if it was not timed in steps."""
        return next((s for s in self.splits if s.part is Part.DEPLOYED), None)

    @cached_property
    def rival(self) -> SplitRow | None:
        """The fastest arm that needs no search, at the same or less memory."""
        return next((s for s in self.splits if s.part is Part.RIVAL), self.instead)

    @cached_property
    def instead(self) -> SplitRow | None:
        """The arm in place of a choice that is slower beyond noise; None: the choice stands."""
        return next((s for s in self.splits if s.part is Part.INSTEAD), None)

    @cached_property
    def fastest(self) -> SplitRow | None:
        """The fastest arm that needs no search, at any memory, except the choice."""
        mine = self.deployed
        others = [
            s
            for s in self.splits
            if s.arm == s.ran_as and not s.needs_search and not (mine and s.is_program_of(mine))
        ]
        return min(others, key=lambda s: s.step_us, default=None)

    @property
    def known(self) -> bool:
        """Whether the choice needs no search: a gain over another known way is then not this project's."""
        return self.deployed is not None and not self.deployed.needs_search

    @property
    def is_developers(self) -> bool:
        """Whether what stands makes the developer's own calls, so that nothing is to be changed."""
        stands = self.instead or self.deployed
        return stands is not None and stands.ran_as == ArmName.DEVELOPER

    def needs_no_search(self, other: SplitRow | None) -> bool:
        """Whether a known way stands, and measured no slower than another: no ratio of the two is told."""
        speedup = self.speedup_over(other)
        return self.known and self.instead is None and (speedup is None or speedup.value >= 1)

    @property
    def use(self) -> str:
        """The action in place of the choice: `keep torch DDP (25 MiB)`; empty: the choice stands."""
        return "" if self.instead is None else use_text(self.instead.arm)

    @cached_property
    def developer(self) -> SplitRow | None:
        """The developer's own calls at their fastest count of microbatches."""
        mine = [s for s in self.splits if s.arm == ArmName.DEVELOPER]
        return min(mine, key=lambda s: s.step_us, default=None)

    @property
    def best(self) -> str:
        """The rival in words."""
        return f"the best{self._other} that needs no search at the same or less memory"

    @property
    def best_of_all(self) -> str:
        """The fastest arm in words."""
        return f"the fastest{self._other} that needs no search at any memory"

    @property
    def _other(self) -> str:
        return " other" if self.known else ""

    @property
    def generator(self) -> SplitRow | None:
        """The chosen arm as its emitted module, not as the file."""
        here = self.deployed.microbatches if self.deployed else 0
        return self.split_at(here, self.chosen_as[here]) if here in self.chosen_as else None

    @property
    def quicker(self) -> tuple[SplitRow, ...]:
        """Usable arms that are faster than the choice beyond noise, without the rival.

        If an arm takes the place of the choice, only those count that measured faster than it, with more memory
        than the choice: the others are rivals.
        """
        held, instead = (self.deployed and self.deployed.peak_memory_bytes) or 0, self.instead
        return tuple(
            one
            for one in self.splits
            if one.part is Part.BESIDE
            and (instead is None or ((one.peak_memory_bytes or 0) > held and one.step_us < instead.step_us))
            and one.arm == one.ran_as
            and (one.arm == ArmName.DEPLOYED or not one.needs_search)
            and (speedup := self.speedup_over(one))
            and speedup.slower
        )

    def split_at(self, microbatches: int, arm: str) -> SplitRow | None:
        """Return a row, or None."""
        return next((s for s in self.splits if (s.microbatches, s.arm) == (microbatches, arm)), None)

    def speedup_over(self, other: SplitRow | None) -> Ratio | None:
        """Return how many times as fast the deployed arm is; None over its own Programs."""
        mine = self.deployed
        return other.deployed_speedup if mine and other and not other.is_program_of(mine) else None


def candidate_name(row: Row) -> str:
    """Return the candidate of a row of `deployed`: `flat`, `found-aee88b50 (send_receive, early issue)`."""
    return row["candidate"] if row["way"] == row["candidate"] else f"{row['candidate']} ({row['way']})"


def worths_of(splits: pl.DataFrame, deployed: pl.DataFrame) -> tuple[Worth, ...]:
    """Return one Worth for each model of `splits`, in its order. deployed: the table of that name."""
    candidates: dict[str, dict[int, list[str]]] = {}
    arms: dict[str, dict[int, list[str]]] = {}
    replaced: dict[str, dict[int, str]] = {}
    for row in deployed.iter_rows(named=True):
        for model, m in of_labels(row["trained_in"]):
            candidates.setdefault(model, {}).setdefault(m, []).append(candidate_name(row))
            arms.setdefault(model, {}).setdefault(m, []).append(row["arm"])
            if row["instead"]:
                replaced.setdefault(model, {})[m] = row["instead"]
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
                replaced=replaced.get(model, {}),
                launches=max(rows["launches"]),
                disturbed=bool(rows["disturbed"].any()),
            )
        )
    return tuple(worths)


def _split(row: Row) -> SplitRow:
    same = ("microbatches", "arm", "ran_as", "needs_search", "step_us", "peak_memory_bytes")
    return SplitRow(
        **{name: row[name] for name in same},
        part=Part(row["part"]),
        deployed_speedup=columns_ratio(row, "deployed_speedup"),
    )
