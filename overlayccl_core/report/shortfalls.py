"""Sentences on runs with fewer rounds or training steps than their settings ask for."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from overlayccl_core.configuration.sections import BenchSection, ConfirmSection, ProbeSection, TrainSection
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.measuring.job_status import JobStatus
from overlayccl_core.measuring.measurements import mostly
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.measuring.statistics import BETWEEN_LAUNCHES, FEWEST_LAUNCHES
from overlayccl_core.report.blocks import count
from overlayccl_core.report.tree import Tree
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.confirmed import CONFIRMED
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.steps import CONFIRMED_STEPS, STEPS
from overlayccl_core.tables.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class TooFew:
    """A measurement of Programs with fewer rounds than their floor. setting: the setting to raise."""

    of: str
    rounds: int
    floor: int
    setting: str


def of_probes(probes: pl.DataFrame, asked: ProbeSection) -> list[TooFew]:
    """Check the held-out Programs, and the fitted ones with their own floor of at most rounds_of_fitted."""
    held_out = pl.col("role") == "heldout"
    fitted_floor = min(asked.minimum_rounds, asked.rounds_of_fitted)
    return [
        *_too_few("probe", _rounds(probes.filter(held_out)), asked.minimum_rounds, "probe.seconds"),
        *_too_few("probes of the fit", _rounds(probes.filter(~held_out)), fitted_floor, "probe.seconds"),
    ]


def of_bench(problem: str, bench: pl.DataFrame, asked: BenchSection) -> list[TooFew]:
    """Check the leader at each Case and direction of a Problem: slow ones leave early (`backends.race`)."""
    timed = bench.filter(pl.col("status") == JobStatus.TIMED)
    each = timed.group_by("case", "direction", "program").agg(pl.col("rounds").sum())
    most = each.group_by("case", "direction").agg(pl.col("rounds").max())
    return _too_few(f"bench of {problem}", most["rounds"].to_list(), asked.minimum_rounds, "bench.seconds")


def of_confirmed(confirmed: pl.DataFrame, asked: ConfirmSection) -> list[TooFew]:
    """Check the passes that confirm the choice: every launch has its own floor."""
    rounds = confirmed["rounds"].to_list()
    return _too_few("a launch that confirms", rounds, asked.minimum_rounds, "confirm.seconds")


def too_few_launches(launches: int) -> str:
    """Return a sentence on too few launches for intervals over launches; empty if enough, or none."""
    if not launches or launches >= FEWEST_LAUNCHES:
        return ""
    return (
        f"What is deployed was timed again in {count(launches, 'launch', 'launches')} only, so intervals "
        f"allow for {BETWEEN_LAUNCHES:.0%} between launches. From {FEWEST_LAUNCHES} on (confirm.launches) they "
        "need not."
    )


def _rounds(timed: pl.DataFrame) -> list[int]:
    """Return the rounds of every Program, of all launches together."""
    return timed.group_by("program").agg(pl.col("rounds").sum())["rounds"].to_list()


def _too_few(of: str, rounds: Sequence[int], floor: int, setting: str) -> list[TooFew]:
    fewest = min(rounds, default=floor)
    return [TooFew(of=of, rounds=fewest, floor=floor, setting=setting)] if fewest < floor else []


def too_few_rounds(short: Sequence[TooFew]) -> str:
    """Return a sentence on measurements with fewer rounds than their floor, or ""."""
    if not short:
        return ""
    told = ", ".join(f"{one.of} {one.rounds} of {one.floor}" for one in short)
    settings = " and ".join(dict.fromkeys(one.setting for one in short))
    return (
        f"Fewer rounds than there should be: {told}. Give more {settings} before you rely on these figures."
    )


def too_few_steps(steps: pl.DataFrame, asked: TrainSection | ConfirmSection) -> str:
    """Return a sentence if most launches of a model timed only the fewest steps allowed, for lack of time.

    Args:
        steps: Rows of one model.

    Returns:
        Empty: most launches had time for more than minimum_steps, or no more were wanted.
    """
    if isinstance(asked, ConfirmSection):
        setting, seconds = "confirm.step_seconds", asked.step_seconds
    else:
        setting, seconds = "train.seconds", asked.seconds
    timed = steps.filter((pl.col("purpose") == Purpose.TIMED) & (pl.col("status") == JobStatus.TRAINED))
    by_launch = timed.group_by("launch").agg(pl.col("steps_us").list.len().max())["steps_us"].to_list()
    short = [n for n in by_launch if n <= asked.minimum_steps < asked.maximum_steps]
    if not mostly(short, by_launch):
        return ""
    return (
        f"{timed['model'][0]} trained {min(short)} steps even of fast arms in {len(short)} of {len(by_launch)} "
        f"launches, the fewest allowed, where up to {asked.maximum_steps} were wanted: {setting} "
        f"({seconds:g} a launch) left no time for more. More seconds make narrower intervals."
    )


def shortfalls(tree: Tree) -> list[str]:
    """Return sentences on rounds below the floor, training at its fewest steps, unknown settings; often none."""
    unknown: list[str] = []

    def asked_of(table: Table, name: str, what: str = "") -> tuple[pl.DataFrame, Settings] | None:
        """Return a table and its settings; None without them: `what` is then unknown if there is a table."""
        rows, asked = tree.table(table, name), tree.settings(table, name)
        if rows is not None and asked is None and what:
            unknown.append(what)
        return None if rows is None or asked is None else (rows, asked)

    few: list[TooFew] = []
    if found := asked_of(PROBES, "probes", "the probes"):
        few += of_probes(found[0], found[1].probe)
    for problem in tree.problems:
        if found := asked_of(BENCH, f"problems/{problem}/bench", f"the bench of {problem}"):
            few += of_bench(problem, found[0], found[1].bench)
    if found := asked_of(CONFIRMED, "confirmed", "what confirms the choice"):
        few += of_confirmed(found[0], found[1].confirm)
    said = [too_few_rounds(few)]
    if (confirmed := tree.table(CONFIRMED, "confirmed")) is not None:
        said.append(too_few_launches(confirmed["launch"].n_unique()))
    for model in tree.models:
        if found := asked_of(STEPS, f"train/{model}/steps", f"the training of {model}"):
            said.append(too_few_steps(found[0], found[1].train))
    if found := asked_of(CONFIRMED_STEPS, "confirmed_steps"):
        models = found[0].partition_by("model", maintain_order=True)
        said += [too_few_steps(rows, found[1].confirm) for rows in models]
    if unknown:
        said.append(
            f"It is not known whether {', '.join(unknown)} got as many rounds and steps as they should: no sidecar "
            "tells their settings."
        )
    return [one for one in said if one]
