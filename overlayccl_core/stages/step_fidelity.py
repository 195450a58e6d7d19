"""step_fidelity: prices of a model's steps against the steps of its trained arms. Needs no ranks."""

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from overlayccl_core.costmodel.fidelity import Scored, fidelity, order_apart
from overlayccl_core.evidence.step_prices import ModelStep, StepPricer, steps_of
from overlayccl_core.measuring import statistics
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.problem import Place
from overlayccl_core.program.program import Program
from overlayccl_core.tables.beside import BESIDE
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.segments import SEGMENTS
from overlayccl_core.tables.step_prices import ARM_PRICES, STEP_FIDELITY
from overlayccl_core.tables.steps import STAMPS, STEPS
from overlayccl_core.tables.theta import THETA

Row = dict[str, Any]


def main(job: RuleJob) -> None:
    """Write the tables arm_prices and step_fidelity of one model."""
    pricer = StepPricer(job.read(SEGMENTS), job.read(THETA), job.read(BESIDE))
    frames = job.read(STEPS), job.read(STAMPS), job.read_all(FINALISTS)
    one_fingerprint({"theta": job.read(THETA), "steps": frames[0]}, "the rules probe and train")
    tables = run(pricer, steps_of(job.option("steps")), *frames, progress=job.say)
    job.write({ARM_PRICES: tables["arm_prices"], STEP_FIDELITY: tables["step_fidelity"]})


def run(
    pricer: StepPricer,
    model_steps: list[ModelStep],
    steps: pl.DataFrame,
    stamps: pl.DataFrame,
    finalists: pl.DataFrame,
    *,
    progress: Callable[[str], None],
) -> dict[str, list[Row]]:
    """Return the rows of `arm_prices` and `step_fidelity`: of arms with a module at every site.

    Args:
        model_steps: Of the model, at each count of microbatches.
        finalists: Of all Problems at the model's sites.
    """
    programs = dict(finalists.select("program", "program_json").iter_rows())
    rows, scored = [], []
    for step in model_steps:
        of_step = {"model": step.model, "microbatches": step.microbatches}
        ran = stamps.filter(pl.col("arm") == pl.col("ran_as"), **of_step)
        for arm, samples in _samples(steps.filter(**of_step)).items():
            at: dict[Place, Program] = {
                (row["case"], row["direction"]): loads(programs[row["program"]])
                for row in ran.filter(arm=arm).iter_rows(named=True)
                if row["program"] in programs
            }
            if not step.places <= set(at):
                continue
            us, measured = pricer.us(step, at), statistics.estimate(samples)
            if us is not None:
                scored.append(Scored(predicted_us=us, samples_us=samples))
            rows.append(
                {
                    **of_step,
                    "arm": arm,
                    "step_us": us,
                    "measured_us": measured.value,
                    "standard_error_us": measured.standard_error,
                    "fingerprint": steps["fingerprint"][0],
                }
            )
    return {"arm_prices": rows, "step_fidelity": _judged(rows, scored, progress)}


def _judged(rows: list[Row], scored: list[Scored], progress: Callable[[str], None]) -> list[Row]:
    if not scored:
        progress("no step has a price")
        return []
    figures, order = fidelity(scored), order_apart(scored)
    text = "unknown" if order is None else f"{order:.2f}"
    progress(
        f"{len(scored)} arms: order of steps {text}, median error {figures.median_rel_error:.1%} (repeat "
        f"{figures.repeat_rel_error:.1%})"
    )
    same = ("n", "pair_accuracy", "pairs", "median_rel_error", "repeat_rel_error")
    head = {name: rows[0][name] for name in ("model", "fingerprint")}
    return [head | {"order_apart": order} | {name: getattr(figures, name) for name in same}]


def _samples(steps: pl.DataFrame) -> Mapping[str, list[float]]:
    """Return arm -> its timed steps in the launches that all arms ran in."""
    timed = steps.filter((pl.col("purpose") == Purpose.TIMED) & (pl.col("steps_us").list.len() > 0))
    arms = timed["arm"].n_unique()
    whole = timed.group_by("launch").agg(pl.col("arm").n_unique()).filter(pl.col("arm") == arms)["launch"]
    common = timed.filter(pl.col("launch").is_in(whole.to_list())).sort("arm", "launch")
    by_arm: dict[str, list[float]] = {}
    for arm, us in common.select("arm", "steps_us").iter_rows():
        by_arm.setdefault(arm, []).extend(us)
    return by_arm
