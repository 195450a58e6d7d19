"""What is checked before anything is timed: right values, what the library can do, and that tiers are real."""

import time
from collections.abc import Callable, Mapping, Sequence
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
from overlayccl_core.backends.primitives import (
    INPUT,
    OUTPUT,
    Primitive,
    at_a_payload,
    grouped,
    larger,
    primitives,
)
from overlayccl_core.backends.timed_launches import LaunchStore
from overlayccl_core.backends.trials import Observed, Trial, Values
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.deployments.capabilities import Call, shape_text
from overlayccl_core.measuring import statistics
from overlayccl_core.program.calls import COALESCED_SUFFIX
from overlayccl_core.program.groups import across_nodes, contiguous, world
from overlayccl_core.program.kinds import DType, Kind
from overlayccl_core.program.nodes import Port
from overlayccl_core.program.problem import PortSpec
from overlayccl_core.program.tiles import Tiles

TRIED_ELEMENTS = 2**14
TIER_ELEMENTS = 2**18
TIER_SECONDS = 20.0
STEP_TIMEOUT_S = 20.0
LESS = 16  # what a payload that fails is divided by, to see what does not

SUMS = (Kind.ALL_REDUCE.value, Kind.ALL_REDUCE.value + COALESCED_SUFFIX)  # whose results are replicated
CALL_COLUMNS = ("operation", "group_size", "stride", "dtype", "payload_bytes")

RULE = "selftest"
ONES_CHECK = "all_reduce of ones gives {ranks}"
MEANING_CHECK = "equals its NumPy meaning"
BITS_CHECK = "gives all ranks the same bits"  # what the proof takes for granted of replicated outputs
TIERS_CHECK = "nearer ranks are not slower"

Rows = list[dict[str, Any]]
Looked = TypeVar("Looked")


class SelftestError(ValueError):
    """Ranks that do not compute what they should: nothing may be measured on them."""


def tried_first(deployment: Deployment) -> list[Primitive]:
    """What a selftest tries where nothing fails."""
    large = at_a_payload(deployment, deployment.largest_payload_bytes, TRIED_ELEMENTS)
    return [*primitives(deployment, TRIED_ELEMENTS), *large]


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
        checks = [self._ones()]
        became = [*zip(tried, self._try_all(tried), strict=True), *self._payloads()]
        checks += [
            self._check(MEANING_CHECK, one.outcome, one.detail, primitive) for primitive, one in became
        ]
        capabilities = [self._capability(primitive, one) for primitive, one in became]
        checks += self._bits(
            [p for p, one in became if one.outcome == "pass" and p.call.operation in SUMS and not p.like]
        )
        checks += self._tiers()
        bad = [row for row in checks if row["outcome"] == "fail" and row["check"] != TIERS_CHECK]
        if bad:
            first = bad[0]
            shape = shape_text((first["group_size"], first["stride"]))
            raise SelftestError(
                f"selftest: {first['check']}: {first['operation']} over {shape} ranks in "
                f"{first['dtype']}: {first['detail']} ({len(bad)} checks fail): nothing is measured on a library "
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
        trials = {p.name: self._trial(p, seed) for seed, p in enumerate(tried)}
        failed = FailedJobs(None, self.progress)

        def together() -> dict[str, _Tried]:
            left = [p for p in tried if p.name not in failed]

            def look(seen: Sequence[Observed]) -> dict[str, _Tried]:
                return {
                    p.name: _compared(p, trials[p.name].inputs, one)
                    for p, one in zip(left, seen, strict=True)
                }

            return self._run([trials[p.name] for p in left], look) if left else {}

        def alone(name: str) -> None:
            self._run([trials[name]], len)

        became = without_failed(together, alone, failed)
        became |= {name: _Tried(outcome="unsupported", detail=one.message) for name, one in failed.items()}
        return [became[primitive.name] for primitive in tried]

    def _payloads(self) -> list[tuple[Primitive, _Tried]]:
        """What became of calls of the largest payload that is tried, and of smaller ones where they fail."""
        size, tried = self.deployment.largest_payload_bytes, []
        left = at_a_payload(self.deployment, size, TRIED_ELEMENTS)
        while left:
            self.progress(f"selftest: {len(left)} primitives of up to {bytes_text(size)} a call")
            became = list(zip(left, self._try_all(left), strict=True))
            tried += became
            size //= LESS
            fewer = [
                larger(self.deployment, p.like, size) for p, one in became if p.like and one.outcome != "pass"
            ]
            left = [p for p in fewer if p.like and p.call.payload_bytes > p.like.call.payload_bytes]
        return tried

    def _trial(self, primitive: Primitive, seed: int) -> Trial:
        """A large one has the values of the small one that it is like, those of each block over and over."""
        small = primitive.like
        if small is None:
            return Trial(job=self._job(primitive), inputs=primitive.random_inputs(seed))

        def tiles(ports: Mapping[Port, PortSpec]) -> dict[Port, Tiles]:
            block = primitive.block
            return {
                port: Tiles(lanes=small.block, runs=((spec.size // block, block),))
                for port, spec in ports.items()
            }

        problem = primitive.program.problem
        return Trial(
            job=self._job(primitive),
            inputs=small.random_inputs(seed),
            input_tiles=tiles(problem.inputs),
            output_tiles=tiles(problem.outputs),
        )

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
        inside = contiguous(ranks, near.ranks)
        sample = {near.name: inside, far.name: across_nodes(ranks, near.ranks)}
        gathers = {
            name: grouped(self.deployment, Kind.ALL_GATHER, groups, DType.FLOAT32, TIER_ELEMENTS)
            for name, groups in sample.items()
        }
        per_call = self._time(gathers)
        good = per_call[near.name] <= per_call[far.name] * 1.1
        calls = {name: gather.call for name, gather in gathers.items()}
        detail = ", ".join(
            f"{name}: {us:.0f} us for {calls[name].payload_bytes} bytes over {calls[name].shape[0]} ranks"
            for name, us in per_call.items()
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
            **(_columns(primitive.call) if primitive else dict.fromkeys(CALL_COLUMNS)),
            "outcome": outcome,
            "detail": detail,
            "fingerprint": self.fingerprint,
        }

    def _capability(self, primitive: Primitive, became: _Tried) -> dict[str, Any]:
        return {
            **_columns(primitive.call),
            "supported": became.outcome == "pass",
            "evidence": became.detail,
            "fingerprint": self.fingerprint,
        }

    def _job(self, primitive: Primitive, key: str = "") -> Job:
        program = primitive.program
        return Job(key=key or primitive.name, program=program, source=self.backend.emit(program))


def _columns(call: Call) -> dict[str, Any]:
    size, stride = call.shape
    return dict(
        zip(CALL_COLUMNS, (call.operation, size, stride, call.dtype.value, call.payload_bytes), strict=True)
    )


def _compared(primitive: Primitive, inputs: Values, seen: Observed) -> _Tried:
    if seen.error:
        return _Tried(outcome="unsupported", detail=seen.error)
    if seen.overwritten:
        return _Tried(outcome="fail", detail=seen.overwritten)
    want = (primitive.like or primitive).meaning(inputs)
    for got in (seen.outputs[OUTPUT], *seen.farthest.values()):
        if not np.array_equal(got, want):
            rank, index = np.argwhere(got != want)[0]
            said = f"expected {want[rank, index]}, got {got[rank, index]}"
            return _Tried(outcome="fail", detail=f"wrong values: rank {rank}, element {index}: {said}")
    return _Tried(
        outcome="pass", detail=f"equal to NumPy on random integers, {primitive.call.payload_bytes} bytes"
    )


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
