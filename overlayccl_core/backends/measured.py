"""The jobs of a timing, its settings and its results: plain values, no ranks."""

from dataclasses import asdict, dataclass
from typing import Any

from overlayccl_core.emit.deployed_case import CHOSEN
from overlayccl_core.program.json_form import dumps
from overlayccl_core.program.program import Program

FOREIGN_CPU_LIMIT = 0.10  # of the CPU: a launch is disturbed if others take more


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingSettings:
    """Settings of one batch of timings.

    A sample is a series of back-to-back calls, after untimed lead-in calls: the operating system prefers ranks that
    have slept, so their first calls are quicker than those of a busy stream.

    Attributes:
        seconds: Wall-clock budget of a launch; the number of rounds follows from it.
        minimum_rounds: With fewer rounds the run reports that the budget is too small for its figures.
        maximum_rounds: Upper limit of rounds.
        min_sample_ms: Shortest duration of a sample; the number of its calls follows, up to max_repeats.
        lead_in_ms: Duration of the lead-in.
        foreign_cpu_limit: A launch is `disturbed` if others take a larger share of the CPU.
        repeat_disturbed: Repeat a disturbed launch once.
    """

    seconds: float
    minimum_rounds: int = 12
    maximum_rounds: int = 60
    min_sample_ms: float = 16.0
    lead_in_ms: float = 10.0
    max_repeats: int = 256
    program_timeout_s: float = 60.0
    foreign_cpu_limit: float = FOREIGN_CPU_LIMIT
    repeat_disturbed: bool = True
    seed: int = 0

    @classmethod
    def of(cls, section: Any, **others: Any) -> "TimingSettings":
        """Take seconds and rounds of a section of the settings, such as `bench`."""
        rounds = {"minimum_rounds": section.minimum_rounds, "maximum_rounds": section.maximum_rounds}
        return cls(seconds=section.seconds, **rounds, **others)

    def __post_init__(self) -> None:
        if self.seconds <= 0:
            raise ValueError(f"seconds of a timing budget must be positive (got {self.seconds})")
        if not 2 <= self.minimum_rounds <= self.maximum_rounds:
            raise ValueError(
                f"rounds must satisfy 2 <= minimum_rounds <= maximum_rounds "
                f"(got {self.minimum_rounds} and {self.maximum_rounds}): even and odd rounds are compared"
            )
        if self.max_repeats < 1 or self.lead_in_ms < 0 or self.min_sample_ms <= 0:
            raise ValueError(
                f"max_repeats must be at least 1, lead_in_ms at least 0, min_sample_ms positive "
                f"(got {self.max_repeats}, {self.lead_in_ms}, {self.min_sample_ms})"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One Program to time.

    Attributes:
        key: Readable name, unique in the batch.
        source: Its emitted module.
        deployed: The source is a deployed file; the Program's Case and direction run.
        way: Of a deployed file, the name of the way that runs; only its Problem has to be that of the Program.
        beside: Each rank multiplies matrices in another thread while it is timed.
        rounds: Most rounds of this Program, spread over the batch (None: all rounds).
        races: Its races (`backends.race`).
    """

    key: str
    program: Program
    source: str
    deployed: bool = False
    way: str = CHOSEN
    beside: bool = False
    rounds: int | None = None
    races: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstCall:
    """A module's first call in a launch: the maximum of each figure over ranks.

    us: until its values are there. If the library compiles, compile_us: time in its compiler, or to find its kept
    results; graphs: how many it compiled or found.
    """

    us: float
    compile_us: float = 0.0
    graphs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedProgram:
    """The samples of one Program in one launch: each is the slowest rank's time (us) of `repeats` calls.

    Without samples the Program failed before.

    Attributes:
        slowest_rank: For every sample.
        planned_rounds: Intended number of rounds.
        foreign_cpu_share: None if the launch was cut off before it was known.
        first_call_us, compile_us, graphs: As in `FirstCall`.
        nodes, clock_off_by_us: As reported by agents (`launching.node_report`).
    """

    key: str
    program: str
    launch: int
    fingerprint: str
    repeats: int = 0
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
        return len(self.samples_us)

    def columns(self, program: Program) -> dict[str, Any]:
        """Return the timing columns of a table's row; none of its rounds is cold: the calibration ran it before."""
        if program.digest != self.program:
            raise ValueError(f"{self.key}: samples of Program {self.program}, not of {program.digest}")
        fields = {name: list(x) if isinstance(x, tuple) else x for name, x in asdict(self).items()}
        of_table = {name: x for name, x in fields.items() if name not in ("key", "planned_rounds")}
        return {**of_table, "rounds": self.rounds, "program_json": dumps(program)}


def failed_columns(program: Program, fingerprint: str) -> dict[str, Any]:
    """Return the timing columns of a Program that failed before timing: no samples."""
    return TimedProgram(key="", program=program.digest, launch=0, fingerprint=fingerprint).columns(program)
