"""What is to be timed, under which settings, and what comes out: plain values, no ranks."""

from dataclasses import asdict, dataclass
from typing import Any

from overlayccl_core.program.json_form import dumps
from overlayccl_core.program.program import Program

FOREIGN_CPU_LIMIT = 0.10  # of a launch: more of the CPU than that, taken by others, disturbs it


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingSettings:
    """Rules of one batch of timings.

    seconds: wall-clock budget of a launch, from which the number of rounds follows. minimum_rounds: the floor
    below which the run says that the budget is too small for its figures. maximum_rounds: no more than that.
    A sample is so many back-to-back calls that it lasts min_sample_ms, at most max_repeats, after so many
    untimed ones that the stream has lasted lead_in_ms: ranks that slept before are served first by the
    operating system, so the first calls are quicker than those of a busy stream. The first cold_rounds visits
    of a Program are kept apart: none, as the calibration has run it before (`benchmarks cold`). A launch in
    which others took more than foreign_cpu_limit of the CPU is `disturbed`; it is repeated once where
    repeat_disturbed says so.
    """

    seconds: float
    minimum_rounds: int = 12
    maximum_rounds: int = 60
    min_sample_ms: float = 16.0
    lead_in_ms: float = 10.0
    max_repeats: int = 256
    cold_rounds: int = 0
    program_timeout_s: float = 60.0
    foreign_cpu_limit: float = FOREIGN_CPU_LIMIT
    repeat_disturbed: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.seconds <= 0:
            raise ValueError(f"seconds of a timing budget must be positive (got {self.seconds})")
        if not 2 <= self.minimum_rounds <= self.maximum_rounds:
            raise ValueError(
                f"rounds must satisfy 2 <= minimum_rounds <= maximum_rounds "
                f"(got {self.minimum_rounds} and {self.maximum_rounds}): even and odd rounds are compared"
            )
        if self.max_repeats < 1 or min(self.cold_rounds, self.lead_in_ms) < 0 or self.min_sample_ms <= 0:
            raise ValueError(
                f"max_repeats must be at least 1, cold_rounds and lead_in_ms at least 0, min_sample_ms positive "
                f"(got {self.max_repeats}, {self.cold_rounds}, {self.lead_in_ms}, {self.min_sample_ms})"
            )

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One Program to time: `key` is unique in the batch and readable, `source` its emitted module.

    `deployed`: the source is that of a deployed file, of which the Program's Case and direction run. `rounds`: no
    more rounds than that for this Program, spread over the batch (None: as many as there are). `races`: in which it
    runs (`backends.race`).
    """

    key: str
    program: Program
    source: str
    deployed: bool = False
    rounds: int | None = None
    races: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstCall:
    """A module's first call in a launch, on the rank where each was most.

    us: until its values were there. Where the library compiles: compile_us, of it in its compiler, or in finding
    what that has kept; graphs: how many it compiled or found.
    """

    us: float
    compile_us: float = 0.0
    graphs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedProgram:
    """The samples of one Program in one launch: the slowest rank's time (us) of `repeats` calls, each.

    slowest_rank: of every sample. planned_rounds: how many there were to be. foreign_cpu_share: None where a launch
    was cut off before it was known. first_call_us, compile_us, graphs: of `FirstCall`. nodes, clock_off_by_us: as
    agents told (`launching.node_report`). Without samples: it failed before.
    """

    key: str
    program: str
    launch: int
    fingerprint: str
    repeats: int = 0
    cold_us: tuple[float, ...] = ()
    samples_us: tuple[float, ...] = ()
    slowest_rank: tuple[int, ...] = ()
    oversubscribed: bool = False
    foreign_cpu_share: float | None = None
    disturbed: bool = False
    planned_rounds: int = 0
    first_call_us: float | None = None
    compile_us: float | None = None
    graphs: int | None = None
    nodes: str = ""
    clock_off_by_us: float = 0.0

    @property
    def rounds(self) -> int:
        """How many samples there are."""
        return len(self.samples_us)

    def columns(self, program: Program) -> dict[str, Any]:
        """The timing columns of a table's row."""
        if program.digest != self.program:
            raise ValueError(f"{self.key}: samples of Program {self.program}, not of {program.digest}")
        fields = {name: list(x) if isinstance(x, tuple) else x for name, x in asdict(self).items()}
        of_table = {name: x for name, x in fields.items() if name not in ("key", "planned_rounds")}
        return {**of_table, "rounds": self.rounds, "program_json": dumps(program)}


def failed_columns(program: Program, fingerprint: str) -> dict[str, Any]:
    """The timing columns of a Program that failed before it was timed: no samples."""
    return TimedProgram(key="", program=program.digest, launch=0, fingerprint=fingerprint).columns(program)
