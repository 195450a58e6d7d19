"""Bench results of every candidate of a shortlist: time, floor, verdict, speed-up, regret."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from overlayccl_core.deployments.floor import Floor, Probed, floor_from_probes
from overlayccl_core.evidence.predictions import Prediction, places, predictions, rows_at
from overlayccl_core.gates import bench as gate
from overlayccl_core.gates.verdict import Verdict
from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.measuring.job_status import JobStatus
from overlayccl_core.measuring.measurements import Measurement, measurements
from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.numerics import NumericsClass
from overlayccl_core.program.problem import Place
from overlayccl_core.program.program import Program
from overlayccl_core.tables.candidate_columns import is_found


@dataclass(frozen=True, slots=True, kw_only=True)
class Benched:
    """One candidate. speedup: over the developer, paired; None for itself, and without a valid time of both."""

    candidate: str
    why: tuple[str, ...]
    numerics: NumericsClass
    program: Program
    timed: Measurement | None
    floor_us: float
    verdict: Verdict
    speedup: Ratio | None

    @property
    def failed(self) -> bool:
        """True if it crashed, hung, raised or gave wrong values: nothing may start it again."""
        return self.verdict.reason in gate.FAILED.values()

    @property
    def us(self) -> float:
        """The measured time. ValueError if it has none."""
        if self.timed is None:
            raise ValueError(f"{self.candidate} was not measured")
        return self.timed.estimate.value

    @property
    def known(self) -> bool:
        """True if it is a strategy of the library, written by people."""
        return not is_found(self.candidate)

    @property
    def lossy(self) -> bool:
        """True if it computes or sends something in 16 bits."""
        return self.numerics is NumericsClass.LOSSY


@dataclass(frozen=True, slots=True, kw_only=True)
class TimesOfProblem:
    """Tables with the predicted and the measured times of a Problem. candidates: of all searches; may be empty."""

    prices: pl.DataFrame
    candidates: pl.DataFrame
    shortlist: pl.DataFrame
    bench: pl.DataFrame

    def predictions(self) -> dict[tuple[str, str, str], Prediction]:
        """Return (case, direction, program) -> Prediction."""
        return predictions(self.prices, self.candidates)

    def benched(self, floor: Floor) -> dict[Place, list[Benched]]:
        """Return (case, direction) -> its candidates, in the order of the shortlist."""
        return benched(self.shortlist, self.bench, floor)


def floor_of(probes: pl.DataFrame) -> Floor:
    """Return the physical floor of a deployment, from its probes of one thing each."""
    probes = probes.filter(pl.col("role").is_in(("structured", "shape")))
    programs = dict(probes.select("program", "program_json").iter_rows())
    return floor_from_probes(
        [
            Probed(program=loads(programs[digest]), us=timed.estimate.value, least_us=timed.least_us)
            for digest, timed in measurements(probes.iter_rows(named=True)).items()
        ]
    )


def benched(shortlist: pl.DataFrame, bench: pl.DataFrame, floor: Floor) -> dict[Place, list[Benched]]:
    """Return (case, direction) -> its candidates, in the order of the shortlist."""
    return {
        place: _at(rows_at(shortlist, place), rows_at(bench, place), floor) for place in places(shortlist)
    }


def _at(listed: pl.DataFrame, bench: pl.DataFrame, floor: Floor) -> list[Benched]:
    measured = measurements(bench.iter_rows(named=True))
    benched_rows = {r["program"]: r for r in bench.iter_rows(named=True)}
    rows = list(listed.iter_rows(named=True))
    developer = next((measured.get(r["program"]) for r in rows if ArmName.DEVELOPER in r["why"]), None)
    judged = []
    for row in rows:
        program, timed = loads(row["program_json"]), measured.get(row["program"])
        floor_us = floor.us(program)
        verdict = _verdict(timed, benched_rows.get(row["program"]), floor_us)
        comparable = (
            timed is not None
            and developer is not None
            and timed.program != developer.program  # a ratio to itself says nothing
            and verdict.passed
        )
        judged.append(
            Benched(
                candidate=row["candidate"],
                why=tuple(row["why"]),
                numerics=NumericsClass(row["numerics"]),
                program=program,
                timed=timed,
                floor_us=floor_us,
                verdict=verdict,
                speedup=timed.speedup_over(developer) if comparable and timed and developer else None,
            )
        )
    return judged


def _verdict(timed: Measurement | None, row: Mapping[str, str] | None, floor_us: float) -> Verdict:
    """Return a candidate's verdict; row: one of its rows in the table `bench`, all with the same message."""
    status, message = (row["status"], row["message"]) if row else ("", "")
    if status in gate.FAILED:
        return gate.failed(JobStatus(status), message, floor_us)
    return gate.check(timed.estimate if timed else None, floor_us, unchecked=message)


def ranked(candidates: Iterable[Benched], *, lossy: bool) -> list[Benched]:
    """Return the candidates that pass the bench gate, fastest first; `lossy` ones, if wanted at all, last."""
    passed = [one for one in candidates if one.verdict.passed and (lossy or not one.lossy)]
    return sorted(passed, key=lambda one: (one.lossy, one.us, one.candidate))


def model_choice(
    place: Place, candidates: Iterable[Benched], predicted: Mapping[tuple[str, str, str], Prediction]
) -> Benched | None:
    """Return the cheapest by price of the lossless candidates that pass the gate; None without a price."""
    priced = [
        (predicted[key].us, one)
        for one in ranked(candidates, lossy=False)
        if (key := (*place, one.program.digest)) in predicted
    ]
    return min(priced, key=lambda of: of[0], default=(None, None))[1]


def regret(one: Benched, candidates: Sequence[Benched]) -> float | None:
    """Return the time over that of the fastest lossless one that passes the gate, minus 1; None if not measured."""
    best = ranked(candidates, lossy=False)
    return one.us / best[0].us - 1 if best and one.verdict.passed else None
