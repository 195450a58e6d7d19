"""`overlayccl losses`: does a script with sums in fewer bytes train as well as it does now? Judged by its losses.

`overlayccl losses --lossy int8 -- torchrun ... train.py --seed {seed}` starts the script with each of several
seeds, as it is and with large sums in fewer bytes (`overlayccl run --lossy`). The final loss is the mean of the
last tenth of the steps. It passes if it is as near to the plain one's of the same seed as plain losses of other
seeds are to each other: within their interquartile range. `--beside HOOK=bf16` judges the script with this
environment variable in the same way.
"""

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
from rich.table import Table

from overlayccl_core.cli.render import NOTHING, console, ms, plain_table, print_line, say, times
from overlayccl_core.cli.script import command_of, timed
from overlayccl_core.gates.training import ArmEvidence, ArmOnTrial, Losses, judge_losses
from overlayccl_core.gates.verdict import Verdict
from overlayccl_core.measuring.figures import figures
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.observing.compared import PLAIN, Launched, rows, step_us
from overlayccl_core.process_group.parts import LossySetting
from overlayccl_core.program.numerics import NumericsClass
from overlayccl_core.tables.script_steps import SCRIPT_STEPS
from overlayccl_core.tables.table import write

LOSSY = "OVERLAYCCL_LOSSY"
SEED = "{seed}"
EXAMPLE = "overlayccl losses --lossy int8 -- torchrun --nproc-per-node 4 train.py --seed {seed}"
FEWEST_SEEDS, FEWEST_STEPS = 5, 200
PARTS = 10
"""A curve of losses has so many values, each a mean; the last is the final loss."""

Launches = dict[str, dict[int, dict[int, Launched]]]
"""Mode -> seed -> rank -> what it wrote."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
    parser.add_argument(
        "--lossy", required=True, metavar="HOW[:GROUPS]", help="bf16 or int8, as of `overlayccl run`"
    )
    parser.add_argument(
        "--beside",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="judge the script with this environment variable, too, such as one that chooses a hook of DDP",
    )
    parser.add_argument("--seeds", type=int, default=FEWEST_SEEDS, help="how many (default: %(default)s)")
    parser.add_argument(
        "--steps", type=int, default=FEWEST_STEPS, help="training steps of a launch (default: %(default)s)"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("losses.parquet"),
        metavar="FILE",
        help="the table of all steps (default: %(default)s)",
    )
    parser.add_argument(
        "script",
        nargs=argparse.REMAINDER,
        metavar="-- COMMAND",
        help="how the script is started, with {seed} where its seed stands: env SEED={seed} torchrun ...",
    )


def run(arguments: argparse.Namespace) -> int:
    """Return 0 if the script with sums in fewer bytes passes, 1 if it is refused."""
    command = command_of(arguments.script, EXAMPLE)
    LossySetting.of(arguments.lossy)
    if not any(SEED in word for word in command):
        raise ValueError(
            f"no {SEED} in the command: give the script its seed there, as in `train.py --seed {SEED}` or "
            f"`env SEED={SEED} torchrun ...`"
        )
    if arguments.seeds < FEWEST_SEEDS or arguments.steps < FEWEST_STEPS:
        raise ValueError(f"a verdict takes at least {FEWEST_SEEDS} --seeds and {FEWEST_STEPS} --steps")
    modes = {PLAIN: {}, arguments.lossy: {LOSSY: arguments.lossy}}
    for beside in arguments.beside:
        name, is_one, value = beside.partition("=")
        if not name or not is_one or beside in modes:
            raise ValueError(f"--beside {beside}: give NAME=VALUE, each once")
        modes[beside] = {name: value}
    found, table = launches(command, modes, arguments.seeds, arguments.steps, arguments.output)
    arms = {mode: evidence(mode, of, table) for mode, of in found.items()}
    verdicts = judged(arms)
    print_line(sentence(arguments.lossy, verdicts[arguments.lossy], arguments.seeds))
    console().print(_table(arms, verdicts), highlight=False, markup=False)
    made = found[arguments.lossy][0]
    for what, calls in made[min(made)].made.items():
        print_line(f"{calls / arguments.steps:.1f} calls a step by {what}")
    return int(verdicts[arguments.lossy].outcome is not Outcome.PASS)


def launches(
    command: list[str], modes: Mapping[str, dict[str, str]], seeds: int, steps: int, output: Path
) -> tuple[Launches, pl.DataFrame]:
    """Start a script in all modes with each seed; return what its ranks wrote, and the table `script_steps`.

    Args:
        command: With {seed} in it.
        modes: Mode -> its environment variables.
        output: Gets the table.

    Raises:
        ValueError: A launch says nothing: no losses, none that depend on the seed, or no sum in fewer bytes.
    """
    found: Launches = {mode: {} for mode in modes}
    with tempfile.TemporaryDirectory(prefix=".overlayccl-", dir=Path()) as name:
        folder = Path(name).resolve()
        for seed in range(seeds):
            words = [word.replace(SEED, str(seed)) for word in command]
            for number, mode in list(enumerate(modes))[:: 1 if seed % 2 == 0 else -1]:
                ranks = timed(words, folder, f"{seed}-{number}", modes[mode], steps, mode)
                found[mode][seed] = ranks
                setting = modes[mode].get(LOSSY)
                if setting and not any(one.made for one in ranks.values()):
                    raise ValueError(f"no sum was compressed: {LossySetting.of(setting).needs}")
                say(f"seed {seed}, {mode}: final loss {curve(ranks)[-1][0]:.4g}")
            if seed == 1 and curve(found[PLAIN][0]) == curve(found[PLAIN][1]):
                raise ValueError(f"seeds 0 and 1 gave the same losses: the script takes no seed from {SEED}")
    steps_of = (
        row for mode, of in found.items() for seed, ranks in of.items() for row in rows(seed, mode, ranks)
    )
    return found, write(SCRIPT_STEPS, list(steps_of), output)


def curve(ranks: Mapping[int, Launched]) -> Losses:
    """Return the mean loss of each tenth of the steps, over ranks: [10][1].

    Raises:
        ValueError: A tenth has no loss.
    """
    steps = list(zip(*(one.losses for one in ranks.values()), strict=True))  # step -> rank -> losses
    parts = [
        [loss for step in part for of_rank in steps[step] for loss in of_rank]
        for part in np.array_split(range(len(steps)), PARTS)
    ]
    if not all(parts):
        raise ValueError("the script has no losses: no backward pass began at one number")
    return tuple((float(np.mean(part)),) for part in parts)


def evidence(mode: str, launched: Mapping[int, Mapping[int, Launched]], table: pl.DataFrame) -> ArmEvidence:
    """Return what the launches of a mode (seed -> rank -> what it wrote) say: losses and times."""
    return ArmEvidence(
        arm=mode,
        steps_us={seed: tuple(of) for seed, of in step_us(table, mode).items()},
        losses={seed: curve(ranks) for seed, ranks in launched.items()},
        timed_losses={},
        gradient_rel_error=None,
        matmuls=frozenset(),
    )


def judged(arms: Mapping[str, ArmEvidence]) -> dict[str, Verdict]:
    """Return the verdict on each mode, beside the plain one.

    Raises:
        ValueError: The plain script's loss is no number.
    """
    plain = arms[PLAIN]
    if not np.isfinite([losses[-1] for losses in plain.losses.values()]).all():
        raise ValueError("the final loss of the plain script is no number: there is nothing to compare with")
    lossy = NumericsClass.LOSSY
    return {
        mode: judge_losses(ArmOnTrial(arm=arm, developer=plain, numerics=lossy))
        for mode, arm in arms.items()
        if mode != PLAIN
    }


def sentence(mode: str, verdict: Verdict, seeds: int) -> str:
    """Return the verdict in a sentence."""
    figures = dict(verdict.evidence)
    return (
        f"{_word(verdict)}: with {mode} the final loss is at most {figures['final_difference']:.2g} away from the "
        f"plain one of the same seed; the spread of plain losses over {seeds} seeds allows {figures['band']:.2g}"
    )


def _word(verdict: Verdict) -> str:
    return "passed" if verdict.outcome is Outcome.PASS else "refused"


def _table(arms: Mapping[str, ArmEvidence], verdicts: Mapping[str, Verdict]) -> Table:
    """Return a row for each mode; the seeds themselves are in the table `script_steps`."""
    plain = arms[PLAIN]
    headers = (">final loss", ">off by", ">ms a step", ">times as fast", "verdict")
    table = plain_table(None, "mode", *headers, fold=("mode",))
    for mode, arm in arms.items():
        final = figures(float(np.median([losses[-1] for losses in arm.losses.values()])))
        off = NOTHING if mode == PLAIN else f"{dict(verdicts[mode].evidence)['final_difference']:.1e}"
        took = ms(float(np.median([np.median(of) for of in arm.steps_us.values()])))
        faster = times(None if mode == PLAIN else arm.speedup_over(plain))
        table.add_row(mode, final, off, took, faster, "" if mode == PLAIN else _word(verdicts[mode]))
    return table
