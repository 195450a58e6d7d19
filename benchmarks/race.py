"""What a bench gains by racing: the same Programs timed for all rounds, and the race replayed on their samples.

Of a finished run: `python -m benchmarks race`. Every Program of every shortlist is timed in rounds that none of
them leaves. Then each Program's later samples are forgotten, as the race would never have taken them, and both are
asked how much slower than the fastest each Program is. So time and figures are compared within one launch.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.columns import line
from overlayccl_core.backends.backend import backend_of
from overlayccl_core.backends.measured import Job, TimedProgram, TimingSettings
from overlayccl_core.backends.race import Races
from overlayccl_core.configuration import settings as configured
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.measuring.statistics import relative_difference, repeat_error, trimmed_mean
from overlayccl_core.stages.bench import jobs_of
from overlayccl_core.tables.shortlist import SHORTLIST
from overlayccl_core.tables.table import read
from overlayccl_core.timing.batch import TimingBatch, time_programs

ROUNDS = 20
SECONDS = 600.0  # of a launch at most: all rounds should fit

Samples = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Raced:
    """What a Problem's batch shows.

    seconds: in samples. regret: of the race's fastest, by all rounds; the largest of all races. differs: relative,
    of how much slower than the fastest a Program is, by the race and by all rounds; median over Programs. repeat:
    by how much noise makes a time wrong, median over Programs.
    """

    problem: str
    programs: int
    seconds_of_all: float
    seconds_of_race: float
    regret: float
    differs: float
    repeat: float

    def line(self) -> str:
        """A row of the report."""
        gain = self.seconds_of_all / self.seconds_of_race
        return line(
            self.problem,
            str(self.programs),
            f"{self.seconds_of_all:.1f} s",
            f"{self.seconds_of_race:.1f} s",
            f"{gain:.2f}x",
            *(f"{share:.1%}" for share in (self.regret, self.differs, self.repeat)),
        )


def report(tree: Path = Path("results/local")) -> list[str]:
    """A line for each Problem of the tree."""
    deployment = load(Path("config/deployments/local.yaml"))
    lines = [
        f"a bench of {ROUNDS} rounds for all, and as a race: seconds of samples; the largest regret of the race's "
        "fastest, by all rounds; by how much slowdowns by the race differ from those by all rounds",
        line("problem", "programs", "all", "race", "gain", "regret", "difference", "repeat"),
    ]
    for path in sorted((tree / "problems").iterdir()):
        lines.append(_of_problem(path, deployment).line())
    return lines


def _of_problem(path: Path, deployment: Deployment) -> Raced:
    rows = list(read(SHORTLIST, path / "shortlist.parquet").iter_rows(named=True))
    racing = list(jobs_of(rows, backend_of(deployment).emit).values())
    settings = TimingSettings(
        seconds=SECONDS, minimum_rounds=ROUNDS, maximum_rounds=ROUNDS, repeat_disturbed=False
    )
    with tempfile.TemporaryDirectory() as folder:
        batch = TimingBatch(
            jobs=[replace(job, races=()) for job in racing],
            deployment=deployment,
            settings=settings,
            partial_dir=Path(folder),
            batch_name="benchmark",
        )
        timed = {one.key: one for one in time_programs(batch, lambda _line: None)}
    return raced(path.name, racing, timed)


def raced(problem: str, jobs: Sequence[Job], timed: Mapping[str, TimedProgram]) -> Raced:
    """The race of these jobs on samples of all rounds."""
    whole: Samples = {job.key: timed[job.key].samples_us for job in jobs}
    cut: Samples = {key: whole[key][:rounds] for key, rounds in rounds_of_race(jobs, whole).items()}
    regrets, differences, repeats = [], [], []
    for race in sorted({name for job in jobs for name in job.races}):
        keys = [job.key for job in jobs if race in job.races]
        by_all, by_race = _estimates(keys, whole), _estimates(keys, cut)
        best = min(keys, key=by_race.__getitem__)
        regrets.append(by_all[best] / min(by_all.values()) - 1)
        for key in keys:
            slower = [by[key] / min(by.values()) for by in (by_all, by_race)]
            differences.append(relative_difference(*slower))
            repeats.append(repeat_error([whole[key]]))
    return Raced(
        problem=problem,
        programs=len(jobs),
        seconds_of_all=_seconds(whole, timed),
        seconds_of_race=_seconds(cut, timed),
        regret=max(regrets),
        differs=float(np.median(differences)),
        repeat=float(np.median(repeats)),
    )


def rounds_of_race(jobs: Sequence[Job], whole: Samples) -> dict[str, int]:
    """Key -> rounds that a race takes of a job, of those that there are."""
    taken = dict.fromkeys(whole, 0)
    races = Races([job.races for job in jobs], enough=configured.read().bench.minimum_rounds)
    for _ in range(max(map(len, whole.values()))):
        for job, out in zip(jobs, races.over, strict=True):
            taken[job.key] = min(taken[job.key] + (not out), len(whole[job.key]))
        races.look([whole[job.key][: taken[job.key]] for job in jobs])
    return taken


def _estimates(keys: Sequence[str], samples: Samples) -> dict[str, float]:
    return {key: float(trimmed_mean(samples[key])) for key in keys}


def _seconds(samples: Samples, timed: Mapping[str, TimedProgram]) -> float:
    return sum(sum(times) * timed[key].repeats for key, times in samples.items()) / 1e6
