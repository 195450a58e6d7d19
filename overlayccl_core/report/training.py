"""Training, the basis of the choice: step times launch by launch, losses, paired differences to developer's."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from overlayccl_core.configuration.models import label
from overlayccl_core.evidence.trained import arms_by_model
from overlayccl_core.gates import training as gate
from overlayccl_core.gates.training import EARLY_STEP, ArmEvidence
from overlayccl_core.measuring.arms import ArmName, arm_label, is_framework, only_problem
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.measuring.statistics import ratio_over_launches
from overlayccl_core.report.blocks import (
    NOTHING,
    Block,
    Figure,
    TableBlock,
    Text,
    count,
    mebibytes,
    missing,
    ms,
    only,
    spread,
    table_of,
    times,
    with_sources,
    worded,
)
from overlayccl_core.report.charts import Ink, by_look, figure, is_narrow, log_ticks, named
from overlayccl_core.report.training_runs import TrainedArm, TrainingRun, runs_of
from overlayccl_core.report.tree import Tree
from overlayccl_core.tables.steps import STAMPS, STEPS

INKS: dict[str, Ink] = {
    ArmName.DEVELOPER: Ink.ORANGE,
    ArmName.SINGLE_GRAPH: Ink.YELLOW,
    ArmName.HAND_BUNDLED: Ink.PURPLE,
    ArmName.BEST_KNOWN_WAY: Ink.GREEN,
    ArmName.FINALIST_1: Ink.BLUE,
    ArmName.FINALIST_2: Ink.SKY,
    ArmName.FINALIST_OVERLAP: Ink.TEXT,
    ArmName.FINALIST_OVERLAP_2: Ink.TEXT,
}
READING = (
    "These launches are those by which was chosen: what was chosen for being the fastest looks faster in "
    "them than it is, so no gain is told from them. Of arms with the same modules the plainest was trained. "
    "An arm half as slow again as the fastest in the first launch is in none of the others. Nor is one that in the "
    "first two was slower beyond noise, or by a fifth in each. Launches differ: arms compare by the column of "
    "ratios, which are of the launches of both. "
    "Own local work is an arm's step with work on its own rank in place of every call. It contains the "
    "copies that the arm makes for its calls, so another arm's may be less. One launch timed it, so it has "
    "no interval."
)
DASHES = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """Losses of every arm trained for them."""

    model: str
    microbatches: int
    arms: Mapping[str, Mapping[int, tuple[float, ...]]]  # arm -> seed -> losses, one a step, mean over ranks
    validation: Mapping[str, Mapping[int, float]]  # arm -> seed -> loss on other text

    @property
    def band(self) -> float | None:
        """Spread of developer's last loss over seeds, as in the training gate."""
        developer = self.arms.get(ArmName.DEVELOPER, {})
        return gate.band({seed: tuple((loss,) for loss in losses) for seed, losses in developer.items()})

    def differences(self, arm: str) -> list[tuple[int, list[float]]]:
        """Return (seed, relative difference to developer's loss at each step) of the common seeds."""
        base = self.arms.get(ArmName.DEVELOPER, {})
        return [
            (seed, [abs(a - b) / abs(b) for a, b in zip(losses, base[seed], strict=False)])
            for seed, losses in self.arms[arm].items()
            if seed in base
        ]


def blocks(tree: Tree) -> list[Block]:
    """Return step times of every run, then losses of every model trained for them."""
    with tree.reading() as steps:
        tables = [tree.table(STEPS, f"train/{model}/steps") for model in tree.models]
        runs = [run for table in tables if table is not None for run in runs_of(table)]
        losses = losses_of(tree)
    if not runs:
        return [missing("No model was trained in this run: no steps and no losses.", "")]
    parts: list[Block] = [Text(text=READING)]
    with tree.reading() as steps_and_stamps:
        seen = _seen(tree)
    for run in runs:
        told = [
            *with_sources(steps, [_steps_figure(run), _steps_table(run)]),
            *with_sources(steps_and_stamps, _whose(run, seen)),
        ]
        parts += only(f"train/{run.model}", told)
    if not losses:
        parts.append(missing("No arm was trained for its losses in this run.", ""))
    for one in losses:
        parts += only(f"train/{one.model}", with_sources(steps, _loss_blocks(one)))
    return parts


def losses_of(tree: Tree) -> list[Losses]:
    """Return the losses in rows of purpose `loss`; of several launches of a seed the first."""
    steps = tree.of_models(STEPS)
    if steps is None:
        return []
    rows = steps.filter((pl.col("purpose") == Purpose.LOSS) & (pl.col("losses").list.len() > 0)).sort(
        "launch"
    )
    by_run: dict[tuple[str, int], dict[str, dict[int, tuple[float, ...]]]] = {}
    validation: dict[tuple[str, int], dict[str, dict[int, float]]] = {}
    for row in rows.iter_rows(named=True):
        key = (row["model"], row["microbatches"])
        arms = by_run.setdefault(key, {})
        if row["validation_loss"] is not None:
            others = validation.setdefault(key, {}).setdefault(row["arm"], {})
            others.setdefault(row["seed"], row["validation_loss"])
        arms.setdefault(row["arm"], {}).setdefault(
            row["seed"], tuple(np.mean(row["losses"], axis=1).tolist())
        )
    return [
        Losses(model=key[0], microbatches=key[1], arms=arms, validation=validation.get(key, {}))
        for key, arms in by_run.items()
    ]


def _colors(arms: Sequence[str], *, lines: bool = True) -> tuple[Any, Any]:
    legend = alt.Legend(symbolType="stroke", symbolSize=300) if lines else alt.Legend()
    inks = {arm_label(arm): INKS.get(arm, Ink.GREY).value for arm in arms}
    dashes = dict(zip(map(arm_label, arms), cycle(DASHES)))  # which never ends
    color = by_look(alt.Color, "arm", inks, legend=legend)
    return color, by_look(alt.StrokeDash, "arm", dashes, legend=legend)


def _steps_figure(run: TrainingRun) -> Figure:
    framework = sorted(filter(is_framework, run.arms), key=lambda name: _us(run.arms[name]))
    arms = [name for name in run.arms if name not in framework[1:]]
    rows: list[dict[str, Any]] = [
        {"arm": arm_label(arm.name), "step": step + 1, "ms": us / 1e3, "launch": f"launch {launch + 1}"}
        for arm in map(run.arms.__getitem__, arms)
        for (_, launch), steps in arm.timed.items()
        for step, us in enumerate(steps)
    ]
    ends = [min(row["ms"] for row in rows) / 1.15, max(row["ms"] for row in rows) * 1.15]
    panels = max(len({row["launch"] for row in rows}), 1)

    def build(width: int) -> Any:
        columns = min(panels, 2 if is_narrow(width) else 5)
        color, dash = _colors(arms)
        return (
            alt.Chart(named("rows"))
            .mark_line(strokeWidth=1.8, point=alt.OverlayMarkDef(size=14))
            .encode(
                x=alt.X("step:Q", title="timed step", axis=alt.Axis(tickCount=3, format="d")),
                y=alt.Y(
                    "ms:Q",
                    title="ms (log)",
                    scale=alt.Scale(type="log", domain=ends),
                    axis=alt.Axis(values=log_ticks(*ends)),
                ),
                color=color,
                strokeDash=dash,
            )
            .properties(width=(width - 62) // columns - 20, height=130)
            .facet(facet=alt.Facet("launch:N", title=None), columns=columns)
        )

    return figure(
        f"{run.name}: step times over steps, launch by launch",
        f"{count(run.launches, 'launch', 'launches')} of the ranks. Within a launch all arms take turns step by "
        "step, so what disturbs one disturbs all. ms of the slowest rank, optimizer included. Only the fastest "
        "size of torch DDP is drawn.",
        build,
        {"rows": rows},
    )


def _us(arm: TrainedArm) -> float:
    return arm.us.value if arm.us else float("inf")


def _steps_table(run: TrainingRun) -> TableBlock:
    stayed = max((len(arm.timed) for arm in run.arms.values()), default=0)
    fastest = min((arm for arm in run.arms.values() if len(arm.timed) == stayed), key=_us)

    def over_fastest(arm: TrainedArm) -> str:
        return NOTHING if arm is fastest else times(ratio_over_launches(arm.timed, fastest.timed))

    return table_of(
        f"{run.name}: every arm in training, by which was chosen",
        run.arms.values(),
        {
            "arm": lambda arm: arm_label(arm.name),
            "launches": lambda arm: str(len(arm.timed)),
            "step time (95% interval)": lambda arm: spread(arm.us),
            f"step over that of {arm_label(fastest.name)}": over_fastest,
            "own local work (one launch)": lambda arm: ms(arm.quiet_us),
            "library calls a step, each rank": lambda arm: (
                NOTHING if arm.collectives is None else str(arm.collectives)
            ),
            "peak memory, a rank": lambda arm: mebibytes(arm.peak_memory_bytes),
        },
        numeric=frozenset(range(1, 7)),
        folded=True,
    )


def _seen(tree: Tree) -> Mapping[str, Mapping[str, ArmEvidence]]:
    """Return `nano m8` -> arm -> evidence, also of arms trained as another."""
    steps, stamps = tree.of_models(STEPS), tree.of_models(STAMPS)
    return arms_by_model(steps, stamps) if steps is not None and stamps is not None else {}


def _whose(run: TrainingRun, seen: Mapping[str, Mapping[str, ArmEvidence]]) -> Iterator[TableBlock]:
    """Yield a table of each Problem's part of the gain, for steps with several."""
    arms = seen.get(label(run.model, run.microbatches), {})
    developer = arms.get(ArmName.DEVELOPER)
    alone = [arm for arm in arms if only_problem(arm) is not None]
    if developer is None or not alone:
        return
    together = [ArmName.FINALIST_1] if ArmName.FINALIST_1 in arms else []
    yield TableBlock(
        title=f"{run.name}: whose the gain is, by the launches by which was chosen",
        headers=("the first finalist in place of developer's calls", "times as fast as developer"),
        rows=tuple(
            (
                f"where {only_problem(arm)} occurs" if arm in alone else "everywhere",
                worded(arms[arm].speedup_over(developer)),
            )
            for arm in (*sorted(alone), *together)
        ),
        numeric=frozenset({1}),
    )


def _loss_blocks(trained: Losses) -> list[Block]:
    name = f"{trained.model}, {count(trained.microbatches, 'microbatch', 'microbatches')}"
    if ArmName.DEVELOPER not in trained.arms:
        return [missing(f"{name}:", "developer's arm has no losses to compare with.")]
    others = [arm for arm in trained.arms if arm != ArmName.DEVELOPER]
    parts: list[Block] = [_loss_figure(name, trained)]
    apart = [d for arm in others for _, steps in trained.differences(arm) for d in steps if d > 0]
    if apart:
        parts.append(_difference_figure(name, trained, others))
    elif others:
        parts.append(
            Text(text=f"{name}: every arm has exactly developer's losses, step by step.", tone="good")
        )
    if others:
        parts.append(_loss_table(name, trained, others))
    return parts


def _loss_figure(name: str, trained: Losses) -> Figure:
    rows: list[dict[str, Any]] = [
        {"arm": arm_label(arm), "step": step + 1, "loss": loss, "seed": f"{arm} {seed}"}
        for arm, seeds in trained.arms.items()
        for seed, losses in seeds.items()
        for step, loss in enumerate(losses)
    ]

    def build(width: int) -> Any:
        color, dash = _colors(list(trained.arms))
        return (
            alt.Chart(named("rows"))
            .mark_line(strokeWidth=1.6, opacity=0.75)
            .encode(
                x=alt.X("step:Q", title="step"),
                y=alt.Y("loss:Q", title="loss", scale=alt.Scale(zero=False)),
                color=color,
                strokeDash=dash,
                detail="seed:N",
            )
            .properties(height=220)
        )

    seeds = count(len(trained.arms[ArmName.DEVELOPER]), "seed")
    return figure(
        f"{name}: loss over steps",
        f"The model's loss, mean over all ranks; {seeds}, one line an arm and seed. "
        "Arms of one seed see the same parameters and batches, so their lines should lie on each other.",
        build,
        {"rows": rows},
    )


def _difference_figure(name: str, trained: Losses, arms: Sequence[str]) -> Figure:
    rows: list[dict[str, Any]] = [
        {"arm": arm_label(arm), "step": step + 1, "difference": d, "seed": f"{arm} {seed}"}
        for arm in arms
        for seed, steps in trained.differences(arm)
        for step, d in enumerate(steps)
        if d > 0
    ]

    ends = [min(row["difference"] for row in rows) / 2, max(row["difference"] for row in rows) * 2]

    def build(width: int) -> Any:
        color, _ = _colors(arms, lines=False)
        return (
            alt.Chart(named("rows"))
            .mark_point(filled=True, size=22, opacity=0.8)
            .encode(
                x=alt.X("step:Q", title="step"),
                y=alt.Y(
                    "difference:Q",
                    title="|difference| / developer's loss (log)",
                    scale=alt.Scale(type="log", domain=ends),
                    axis=alt.Axis(format=".0e", values=log_ticks(*ends)),
                ),
                color=color,
                detail="seed:N",
            )
            .properties(height=180)
        )

    return figure(
        f"{name}: how far an arm's loss is from developer's at the same seed",
        "Relative, step by step; steps without any difference are not drawn. Float sums in another order differ in "
        "the last digits, and training lets that grow.",
        build,
        {"rows": rows},
    )


def _validation(trained: Losses, arm: str) -> str:
    base, mine = trained.validation.get(ArmName.DEVELOPER, {}), trained.validation.get(arm, {})
    apart = [mine[seed] - base[seed] for seed in mine if seed in base]
    return f"{float(np.median(apart)):+.1e}" if apart else NOTHING


def _loss_table(name: str, trained: Losses, arms: Sequence[str]) -> TableBlock:
    band, developers = trained.band, trained.arms[ArmName.DEVELOPER]
    pairs = {arm: trained.differences(arm) for arm in arms}

    def early(arm: str) -> str:
        found = [steps[EARLY_STEP] for _, steps in pairs[arm] if len(steps) > EARLY_STEP]
        return f"{max(found):.1e}" if found else NOTHING

    def last(arm: str) -> str:
        found = [trained.arms[arm][seed][-1] - developers[seed][-1] for seed, _ in pairs[arm]]
        return f"{max(found, key=abs):+.1e}" if found else NOTHING

    return table_of(
        f"{name}: losses against developer's, seed by seed",
        arms,
        {
            "arm": arm_label,
            "seeds": lambda arm: str(len(pairs[arm])),
            f"largest relative difference at step {EARLY_STEP}": early,
            "largest relative difference of any step": lambda arm: (
                f"{max((max(steps) for _, steps in pairs[arm] if steps), default=0):.1e}"
            ),
            "last loss, largest difference": last,
            "spread of developer's last loss over seeds (interquartile)": lambda _: (
                f"{band:.1e}" if band is not None else "needs 2 seeds"
            ),
            "loss on data that was not trained on, difference to developer's (median over seeds)": lambda arm: (
                _validation(trained, arm)
            ),
        },
        numeric=frozenset(range(1, 7)),
    )
