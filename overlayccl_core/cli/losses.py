"""`overlayccl losses`: does a script with sums in fewer bytes train as well as it does now? Judged by its losses.

`overlayccl losses --lossy int8 -- torchrun ... train.py --seed {seed}` starts the script with each of several
seeds, as it is and with large sums in fewer bytes (`overlayccl run --lossy`). The final loss is the mean of the
last tenth of the steps. It passes if it is as near to the plain one's of the same seed as plain losses of other
seeds are to each other: within their interquartile range. Where plain training changes the loss by less than
several such ranges, this is no evidence: the verdict is undecided. `--beside HOOK=bf16` judges the script with
this environment variable in the same way.
"""

import argparse
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
from rich.table import Table

from overlayccl_core.cli.render import NOTHING, console, ms, plain_table, print_line, say, times
from overlayccl_core.cli.script import command_of, timed
from overlayccl_core.gates.training import ArmEvidence, ArmOnTrial, Losses, judge_losses
from overlayccl_core.gates.verdict import Reason, Verdict
from overlayccl_core.locks import ALONE, opened, taken
from overlayccl_core.measuring.figures import figures
from overlayccl_core.measuring.outcomes import Gate, Outcome
from overlayccl_core.observing.compared import PLAIN, Launched, launched, rows, step_us
from overlayccl_core.process_group.parts import LossySetting
from overlayccl_core.program.numerics import NumericsClass
from overlayccl_core.tables.script_steps import SCRIPT_STEPS
from overlayccl_core.tables.sidecar import path_of, sha256_of, write_sidecar
from overlayccl_core.tables.table import write
from overlayccl_core.timing.partial import key

LOSSY = "OVERLAYCCL_LOSSY"
AT_WORK = "at-work"
SEED = "{seed}"
EXAMPLE = "overlayccl losses --lossy int8 -- torchrun --nproc-per-node 4 train.py --seed {seed}"
FEWEST_SEEDS, FEWEST_STEPS = 5, 200
PARTS = 10
"""A curve of losses has so many values, each a mean; the last is the final loss."""
SEVERAL_BANDS = 3
"""Training lowers the loss by more than so many ranges of seeds, or gradients that never arrive could pass."""
WORDS = {Outcome.PASS: "passed", Outcome.FAIL: "refused", Outcome.UNPROVEN: "undecided"}

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
    """Return 0 if the script with sums in fewer bytes passes, 1 if it is refused or that is undecided."""
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
    asked = LossTrial(command, modes, arguments.seeds, arguments.steps)
    found, table = launches(asked, arguments.output)
    arms = {mode: evidence(mode, of, table) for mode, of in found.items()}
    verdicts = judged(arms)
    print_line(sentence(arguments.lossy, verdicts[arguments.lossy], arguments.seeds, arguments.steps))
    console().print(_table(arms, verdicts), highlight=False, markup=False)
    made = found[arguments.lossy][0]
    for what, calls in made[min(made)].made.items():
        print_line(f"{calls / arguments.steps:.1f} calls a step by {what}")
    return int(verdicts[arguments.lossy].outcome is not Outcome.PASS)


class SaysNothingError(ValueError):
    """The launches of a script are no evidence: nothing of them is kept."""


@dataclass(frozen=True)
class LossTrial:
    """What is measured.

    Attributes:
        command: With {seed} in it.
        modes: Mode -> its environment variables.
    """

    command: Sequence[str]
    modes: Mapping[str, dict[str, str]]
    seeds: int
    steps: int

    @property
    def words(self) -> tuple[str, ...]:
        """All of it in words, for the output's sidecar."""
        settings = (f"--seeds={self.seeds}", f"--steps={self.steps}")
        return ("overlayccl losses", json.dumps(dict(self.modes)), *settings, "--", *self.command)

    @property
    def key(self) -> str:
        """Digest of all that decides what a launch measures, the files named in the command among it."""
        files = [sha256_of(Path(word)) for word in self.command if Path(word).is_file()]
        return key(list(self.command), files, dict(self.modes), self.steps)


def launches(asked: LossTrial, output: Path) -> tuple[Launches, pl.DataFrame]:
    """Start a script in all modes with each seed; return what its ranks wrote, and the table `script_steps`.

    Launches that an earlier call had ended before it failed are not started again.

    Args:
        asked: What is measured.
        output: Gets the table; beside it each launch is kept until then.

    Raises:
        ValueError: The output is of another command, or a launch failed.
        SaysNothingError: No losses, none that depend on the seed, or no sum in fewer bytes.
    """
    if output.exists() and not _is_of(output, asked):
        raise ValueError(f"{output} is of another command: name another file with --output, or remove it")
    found: Launches = {mode: {} for mode in asked.modes}
    started = datetime.now(UTC)
    with _kept(output, asked) as folder:
        for seed in range(asked.seeds):
            for number, mode in list(enumerate(asked.modes))[:: 1 if seed % 2 == 0 else -1]:
                ranks = _launch(asked, folder, seed, number, mode)
                found[mode][seed] = ranks
                setting = asked.modes[mode].get(LOSSY)
                if setting and not any(one.made for one in ranks.values()):
                    raise SaysNothingError(f"no sum was compressed: {LossySetting.of(setting).needs}")
                say(f"seed {seed}, {mode}: final loss {curve(ranks)[-1][0]:.4g}")
            if seed == 1 and curve(found[PLAIN][0]) == curve(found[PLAIN][1]):
                raise SaysNothingError(
                    f"seeds 0 and 1 gave the same losses: the script takes no seed from {SEED}"
                )
        steps_of = (
            row for mode, of in found.items() for seed, ranks in of.items() for row in rows(seed, mode, ranks)
        )
        table = write(SCRIPT_STEPS, list(steps_of), output)
        write_sidecar(output, inputs=(), command=asked.words, started=started, ended=datetime.now(UTC))
    return found, table


def _is_of(output: Path, asked: LossTrial) -> bool:
    try:
        return bool(json.loads(path_of(output).read_bytes())["command"] == list(asked.words))
    except (OSError, ValueError, KeyError, TypeError):
        return False


@contextmanager
def _kept(output: Path, asked: LossTrial) -> Iterator[Path]:
    """Yield the folder of a command's ended launches; it goes once the table is written, or they say nothing."""
    folder = output.absolute().with_name(f".{output.name}-{asked.key}")
    lock = opened(folder / "lock")
    try:
        if not taken(lock, ALONE, 0):
            raise ValueError(f"{output}: this command is going on already")
        stays = False
        try:
            yield folder
        except SaysNothingError:
            raise
        except BaseException:
            stays = bool(many := len(list(folder.glob("seed-*"))))
            if stays:
                say(f"{many} ended launches are kept in {folder}: the same command goes on from there")
            raise
        finally:
            if not stays:
                shutil.rmtree(folder)
    finally:
        os.close(lock)


def _launch(asked: LossTrial, folder: Path, seed: int, number: int, mode: str) -> dict[int, Launched]:
    """Return rank -> what it wrote in a launch: of an ended one, or of a start of the script now."""
    ended = folder / f"seed-{seed}-{number}"
    if ended.exists():
        return launched(ended, mode, 0)
    shutil.rmtree(folder / AT_WORK, ignore_errors=True)  # of a command that was killed
    words = [word.replace(SEED, str(seed)) for word in asked.command]
    ranks = timed(words, folder, AT_WORK, asked.modes[mode], asked.steps, mode)
    (folder / AT_WORK).replace(ended)
    return ranks


def curve(ranks: Mapping[int, Launched]) -> Losses:
    """Return the mean loss of each tenth of the steps, over ranks: [10][1].

    Raises:
        SaysNothingError: A tenth has no loss.
    """
    steps = list(zip(*(one.losses for one in ranks.values()), strict=True))  # step -> rank -> losses
    parts = [
        [loss for step in part for of_rank in steps[step] for loss in of_rank]
        for part in np.array_split(range(len(steps)), PARTS)
    ]
    if not all(parts):
        raise SaysNothingError("the script has no losses: no backward pass began at one number")
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
    return {mode: _judged(arm, plain) for mode, arm in arms.items() if mode != PLAIN}


def _judged(arm: ArmEvidence, plain: ArmEvidence) -> Verdict:
    """Return the verdict on a mode: it passes only where a mode that does not learn would be refused."""
    verdict = judge_losses(ArmOnTrial(arm=arm, developer=plain, numerics=NumericsClass.LOSSY))
    learned = float(np.median([losses[0][0] - losses[-1][0] for losses in plain.losses.values()]))
    told = {**dict(verdict.evidence), "learned": learned}
    if verdict.outcome is Outcome.PASS and not learned > SEVERAL_BANDS * float(told["band"]):
        message = "the losses of seeds differ more than training changes them"
        return Verdict.of(Gate.TRAINING, Outcome.UNPROVEN, Reason.NOT_MEASURED, message, **told)
    return verdict


def sentence(mode: str, verdict: Verdict, seeds: int, steps: int) -> str:
    """Return the verdict in a sentence."""
    figures = dict(verdict.evidence)
    if verdict.outcome is Outcome.UNPROVEN:
        return (
            f"undecided: in {steps} steps plain training lowers the loss by {figures['learned']:.2g}, which is not "
            f"{SEVERAL_BANDS} times the spread of its losses over {seeds} seeds, {figures['band']:.2g}: give it "
            "more --steps, or begin untrained"
        )
    return (
        f"{WORDS[verdict.outcome]}: with {mode} the final loss is at most {figures['final_difference']:.2g} away "
        "from the plain one of the same seed; the spread of plain losses "
        f"over {seeds} seeds allows {figures['band']:.2g}"
    )


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
        table.add_row(mode, final, off, took, faster, "" if mode == PLAIN else WORDS[verdicts[mode].outcome])
    return table
