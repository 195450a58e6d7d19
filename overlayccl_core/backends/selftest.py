"""What is checked before anything is timed: right values, what the library can do, and that tiers are real."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from overlayccl_core.backends.backend import Backend
from overlayccl_core.backends.failed import FailedJobs, without_failed
from overlayccl_core.backends.launch import no_watch
from overlayccl_core.backends.measured import Job, TimingSettings
from overlayccl_core.backends.partial import Evidence, at_work
from overlayccl_core.backends.plan import LaunchPlan, planned_job
from overlayccl_core.backends.primitives import INPUT, OUTPUT, Primitive, grouped, primitives
from overlayccl_core.backends.timed_launches import LaunchStore
from overlayccl_core.backends.trials import Observed, Trial
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.measuring import statistics
from overlayccl_core.program.groups import across_nodes, groups_of, world
from overlayccl_core.program.kinds import DType, Kind

TRIED_ELEMENTS = 2**14
TIER_ELEMENTS = 2**18
TIER_SECONDS = 20.0
STEP_TIMEOUT_S = 20.0

RULE = "selftest"
ONES_CHECK = "all_reduce of ones gives {ranks}"
MEANING_CHECK = "equals its NumPy meaning"
BITS_CHECK = "gives all ranks the same bits"  # what the proof takes for granted of replicated outputs
TIERS_CHECK = "nearer ranks are not slower"

Rows = list[dict[str, Any]]
Looked = TypeVar("Looked")


class SelftestError(ValueError):
    """Ranks that do not compute what they should: nothing may be measured on them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    """What became of a primitive: pass, fail (wrong values) or unsupported, and what was seen."""

    outcome: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Selftest:
    """The checks of one deployment. Launches work in folders below `folder` and leave nothing there."""

    deployment: Deployment
    backend: Backend
    folder: Path
    progress: Callable[[str], None]
    fingerprint: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fingerprint", self.backend.fingerprint(self.deployment))

    @property
    def evidence(self) -> Evidence:
        """Where ranks that fail leave what they said."""
        return Evidence.beside(self.folder, RULE)

    def run(self) -> tuple[Rows, Rows]:
        """(rows of selftest, rows of capabilities). SelftestError if a primitive gives wrong values."""
        self.evidence.clear()
        tried = primitives(self.deployment, TRIED_ELEMENTS)
        self.progress(f"selftest: {len(tried)} primitives on {self.deployment.ranks} ranks")
        checks, capabilities, sums = [self._ones()], [], []
        for primitive, became in zip(tried, self._try_all(tried), strict=True):
            checks.append(self._check(MEANING_CHECK, became.outcome, became.detail, primitive))
            capabilities.append(self._capability(primitive, became))
            if primitive.operation == Kind.ALL_REDUCE and became.outcome == "pass":
                sums.append(primitive)
        checks += self._bits(sums)
        checks += self._tiers()
        bad = [row for row in checks if row["outcome"] == "fail" and row["check"] != TIERS_CHECK]
        if bad:
            raise SelftestError(
                f"selftest: {bad[0]['check']}: {bad[0]['operation']} over {bad[0]['group_size']} ranks in "
                f"{bad[0]['dtype']}: {bad[0]['detail']} ({len(bad)} checks fail): nothing is measured on a library "
                "that computes wrong values; try another version of it"
            )
        return checks, capabilities

    def _ones(self) -> dict[str, Any]:
        ranks = self.deployment.ranks
        one = grouped(self.deployment, Kind.ALL_REDUCE, world(ranks), DType.FLOAT32, TRIED_ELEMENTS)
        inputs = {INPUT: np.ones((ranks, TRIED_ELEMENTS))}

        def look(seen: Sequence[Observed]) -> _Tried:
            if told := seen[0].error or seen[0].overwritten:
                return _Tried(outcome="fail", detail=told)
            values = np.unique(seen[0].outputs[OUTPUT])
            outcome = "pass" if values.tolist() == [float(ranks)] else "fail"
            return _Tried(
                outcome=outcome, detail=f"every element is {', '.join(map(str, values[:4].tolist()))}"
            )

        became = self._run([Trial(job=self._job(one), inputs=inputs)], look)
        return self._check(ONES_CHECK.format(ranks=ranks), became.outcome, became.detail, one)

    def _try_all(self, tried: Sequence[Primitive]) -> list[_Tried]:
        """What became of each. One that kills or hangs its ranks, alone too, is unsupported."""
        inputs = [primitive.random_inputs(seed) for seed, primitive in enumerate(tried)]
        trials = {p.name: Trial(job=self._job(p), inputs=x) for p, x in zip(tried, inputs, strict=True)}
        failed = FailedJobs(None, self.progress)

        def together() -> dict[str, _Tried]:
            left = [(p, x) for p, x in zip(tried, inputs, strict=True) if p.name not in failed]

            def look(seen: Sequence[Observed]) -> dict[str, _Tried]:
                return {p.name: _compared(p, x, one) for (p, x), one in zip(left, seen, strict=True)}

            return self._run([trials[p.name] for p, _ in left], look) if left else {}

        def alone(name: str) -> None:
            self._run([trials[name]], len)

        became = without_failed(together, alone, failed)
        became |= {name: _Tried(outcome="unsupported", detail=one.message) for name, one in failed.items()}
        return [became[primitive.name] for primitive in tried]

    def _bits(self, sums: Sequence[Primitive]) -> Rows:
        """Of all_reduces, on floats that every group has alike."""
        trials = [Trial(job=self._job(p), inputs=p.floats_of_places(seed)) for seed, p in enumerate(sums)]
        seen = self._run(trials, lambda seen: list(map(_same_bits, seen))) if trials else []
        return [
            self._check(BITS_CHECK, became.outcome, became.detail, primitive)
            for primitive, became in zip(sums, seen, strict=True)
        ]

    def _run(self, trials: Sequence[Trial], look: Callable[[Sequence[Observed]], Looked]) -> Looked:
        """What `look` makes of what trials gave, while it can be read."""
        with at_work(self.folder / RULE, self.evidence) as work:
            return look(
                self.backend.run_once(
                    self.deployment, work, trials, may_refuse=True, step_timeout_s=STEP_TIMEOUT_S
                )
            )

    def _tiers(self) -> Rows:
        """Declared tiers against timed groups: nearer ranks must not be slower than farther ones."""
        near, far = self.deployment.tiers[0], self.deployment.tiers[-1]
        ranks = self.deployment.ranks
        if near.ranks == far.ranks:
            return [self._check(TIERS_CHECK, "not_applicable", f"one tier: {near.name}")]
        inside = groups_of([range(k, k + near.ranks) for k in range(0, ranks, near.ranks)], ranks)
        sample = {near.name: inside, far.name: across_nodes(ranks, near.ranks)}
        gathers = {
            name: grouped(self.deployment, Kind.ALL_GATHER, groups, DType.FLOAT32, TIER_ELEMENTS)
            for name, groups in sample.items()
        }
        per_byte = self._time(gathers)
        good = per_byte[near.name] <= per_byte[far.name] * 1.1
        detail = ", ".join(
            f"{name}: {us:.0f} us for {gathers[name].payload_bytes} bytes over {gathers[name].group_size} ranks"
            for name, us in per_byte.items()
        )
        return [self._check(TIERS_CHECK, "pass" if good else "fail", detail)]

    def _time(self, gathers: dict[str, Primitive]) -> dict[str, float]:
        """name -> us of one call."""
        jobs = [self._job(primitive, name) for name, primitive in gathers.items()]
        settings = TimingSettings(seconds=TIER_SECONDS, maximum_rounds=20)
        plan = LaunchPlan(
            launch=0,
            ranks=self.deployment.ranks,
            started_ns=time.monotonic_ns(),
            settings=settings,
            jobs=tuple(planned_job(index, job) for index, job in enumerate(jobs)),
        )
        with at_work(self.folder / "tiers", self.evidence) as folder:
            store = LaunchStore(folder, fingerprint=self.fingerprint, oversubscribed=False)
            with at_work(store.work_folder(0), self.evidence) as work:
                plan.write(work, jobs)
                self.backend.time_launch(self.deployment, work, plan, no_watch)
                store.harvest(work, foreign_cpu_share=0.0, complete=True)
            [launch] = store.launches()
        return {timed.key: statistics.estimate(timed.samples_us).value for timed in launch}

    def _check(
        self, check: str, outcome: str, detail: str, primitive: Primitive | None = None
    ) -> dict[str, Any]:
        return {
            "check": check,
            "operation": primitive.operation if primitive else None,
            "group_size": primitive.group_size if primitive else None,
            "dtype": primitive.collective.dtype.value if primitive else None,
            "outcome": outcome,
            "detail": detail,
            "fingerprint": self.fingerprint,
        }

    def _capability(self, primitive: Primitive, became: _Tried) -> dict[str, Any]:
        return {
            "operation": primitive.operation,
            "group_size": primitive.group_size,
            "dtype": primitive.collective.dtype.value,
            "payload_bytes": primitive.payload_bytes,
            "supported": became.outcome == "pass",
            "evidence": became.detail,
            "fingerprint": self.fingerprint,
        }

    def _job(self, primitive: Primitive, key: str = "") -> Job:
        program = primitive.program
        return Job(key=key or primitive.name, program=program, source=self.backend.emit(program))


def _compared(primitive: Primitive, inputs: dict[Any, Any], seen: Observed) -> _Tried:
    if seen.error:
        return _Tried(outcome="unsupported", detail=seen.error)
    if seen.overwritten:
        return _Tried(outcome="fail", detail=seen.overwritten)
    want = primitive.meaning(inputs)
    got = seen.outputs[OUTPUT]
    if np.array_equal(got, want):
        return _Tried(
            outcome="pass", detail=f"equal to NumPy on random integers, {primitive.payload_bytes} bytes"
        )
    rank, index = np.argwhere(got != want)[0]
    detail = (
        f"wrong values: rank {rank}, element {index}: expected {want[rank, index]}, got {got[rank, index]}"
    )
    return _Tried(outcome="fail", detail=detail)


def _same_bits(seen: Observed) -> _Tried:
    if told := seen.error or seen.overwritten:
        return _Tried(outcome="fail", detail=told)
    got = seen.outputs[OUTPUT]
    unlike = np.argwhere(got != got[:1])
    if not len(unlike):
        return _Tried(outcome="pass", detail="equal on all ranks, and in groups that have the same")
    rank, index = unlike[0]
    mine, first = float(got[rank, index]), float(got[0, index])
    detail = f"sums of the same floats: element {index} is {first!r} on rank 0 and {mine!r} on rank {rank}"
    return _Tried(outcome="fail", detail=detail)
