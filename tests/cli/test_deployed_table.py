"""What a run ends with: what is deployed, what it is worth over whom, in at most 100 columns."""

import io
from typing import Any

import polars as pl
from rich.console import Console

from overlayccl_core.cli.deployed_table import deployed_parts
from overlayccl_core.report.arms import Arm, Run
from overlayccl_core.tables.choice import CHOICE

STEP = {
    **{"step_speedup": 6.213, "step_speedup_low": 5.9, "step_speedup_high": 6.5},
    **{"step_gain": 1.214, "step_gain_low": 1.16, "step_gain_high": 1.3, "best_other": "hand_bundled"},
}
BENCH = {"speedup": 10.5, "speedup_low": 9.25, "speedup_high": 11.75}


def shown(
    *rows: dict[str, Any],
    role: str = "found",
    runs: tuple[Run, ...] = (),
    disturbed: tuple[tuple[str, str], ...] = (),
) -> str:
    fixed = {"case": "tp_mlp/n4-m8-l8-256KiB-f32", "direction": "forward", "arm": "finalist_1"}
    fixed |= {"candidate": "all_to_all_of_copies", "reason": "passes"}
    whole = [{**{c.name: None for c in CHOICE.columns}, **fixed, **row} for row in rows]
    console = Console(width=100, file=io.StringIO())
    roles = [{**{n: row[n] for n in ("case", "direction", "candidate")}, "role": role} for row in whole]
    summary = pl.DataFrame(roles).with_columns(chosen=True)
    choices = {"tp_mlp": pl.DataFrame(whole, schema=CHOICE.schema)}
    for part in deployed_parts(choices, summary, runs, disturbed):
        console.print(part, highlight=False)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_gains_over_developer_and_over_the_best_other_arm_have_intervals() -> None:
    text = shown(STEP | BENCH)
    assert "6.21 (5.90..6.50)" in text and "1.21 (1.16..1.30)" in text and "hand_bundled" in text
    assert "10.50" not in text  # where there are steps, they are what counts


def test_without_a_model_the_bench_is_shown_and_named() -> None:
    text = shown(BENCH)
    assert "bench" in text and "10.50 (9.25..11.75)" in text


def test_a_figure_of_mostly_disturbed_launches_is_marked() -> None:
    here = ("tp_mlp/n4-m8-l8-256KiB-f32", "forward")
    for figures in (STEP, BENCH):
        table = shown(figures, disturbed=(here,)).partition("x developer, x best")[0]
        assert "disturbed" in table
        assert (
            "disturbed"
            not in shown(figures, disturbed=((here[0], "backward"),)).partition("x developer, x")[0]
        )


def test_the_reason_is_told_where_no_first_finalist_is_deployed() -> None:
    assert "passes" not in shown(STEP)
    text = shown(STEP, {"arm": "developer", "reason": "nothing beats the baseline", "direction": "backward"})
    assert "n4-m8-l8-256KiB-f32 backward: nothing beats the baseline" in text


def test_long_names_stay_inside_100_columns_and_are_whole() -> None:
    long = {"case": "tp_mlp/n4-m8-l8-256KiB-entry-f32", "candidate": "simplified_transpose_of_permute_ring"}
    text = shown({**long, **STEP, "best_other": "single_graph", "direction": "backward"})
    assert max(map(len, text.splitlines())) <= 100
    cells = [line[:60] for line in text.splitlines()]
    assert "simplified_transpose_o" in text and any("f_permute_ring" in cell for cell in cells)


def test_what_is_a_persons_own_program_is_called_by_its_arm() -> None:
    assert "= hand_bundled\n" not in shown(STEP).replace(" ", "").replace("=", "= ")
    text = shown({**STEP, "best_other": "ddp_25"}, role="hand_bundled")
    assert "= hand_bundled" in text.partition("x developer, x best")[0]
    assert "itself" not in text and "hand_bundled: itself" in shown(STEP, role="hand_bundled")


def test_a_faster_arm_of_the_framework_is_said_with_what_its_interval_says() -> None:
    slower = {**STEP, "best_other": "ddp_25", "step_gain": 0.88, "step_gain_low": 0.8}
    text = " ".join(shown({**slower, "step_gain_high": 1.05}).split())
    assert (
        "ddp_25 was faster: what is deployed is 0.88 (0.80..1.05) as fast, an interval that holds 1" in text
    )
    text = " ".join(shown({**slower, "step_gain_high": 0.95}).split())
    assert "ddp_25 was faster: what is deployed is 0.88 (0.80..0.95) as fast, slower beyond noise" in text
    text = " ".join(shown({**slower, "step_gain_high": 0.99}).split())
    assert "0.88 (0.80..0.99) as fast, an interval that ends within 2% of 1" in text
    assert "was faster" not in shown(STEP)


def run_of(microbatches: int, **us: float) -> Run:
    arms = {
        name: Arm(name=name, timed={(0, 0): (t, t)}, quiet={}, collectives=None, peak_activation_bytes=None)
        for name, t in us.items()
    }
    return Run(
        model="nano", microbatches=microbatches, arms=arms, deployed=("finalist_1",), launches=1, disturbed=0
    )


def test_every_size_of_the_framework_that_is_faster_beyond_noise_is_told_once_with_its_model() -> None:
    runs = (run_of(2, finalist_1=100, ddp_1=50, ddp_4=200, ddp_25=80), run_of(8, finalist_1=100, ddp_4=90))
    row = {**STEP, "best_other": "ddp_25", "step_gain": 0.8, "step_gain_low": 0.8, "step_gain_high": 0.8}
    text = " ".join(shown({**row, "trained_in": "nano m2, nano m8"}, runs=runs).split())
    for said in (
        "ddp_1 was faster in nano m2",
        "ddp_25 was faster in nano m2",
        "ddp_4 was faster in nano m8",
    ):
        assert text.count(said) == 1
    assert text.count("was faster") == text.count("slower beyond noise") == 3
    assert "is 0.50 (0.50..0.50) as fast" in text
    assert (
        shown({**row, "trained_in": "nano m8"}, runs=runs).count("was faster") == 2
    )  # the best other, ddp_4
    assert "was faster" not in shown({**STEP, "trained_in": "nano-dp m2"}, runs=runs)
