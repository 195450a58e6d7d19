"""What is checked before anything is timed: right values, what the library can do, and that tiers are real."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from overlayccl_core.backends.measured import Job, TimingSettings
from overlayccl_core.backends.partial import LaunchStore
from overlayccl_core.backends.plan import LaunchPlan, planned_job
from overlayccl_core.backends.primitives import INPUT, OUTPUT, Primitive, grouped, primitives
from overlayccl_core.backends.torchdist.launch import LaunchError
from overlayccl_core.backends.torchdist.run_once import Observed, Trial, run_once
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.emit.torch_dialect import emit
from overlayccl_core.measuring import statistics
from overlayccl_core.program.groups import across_nodes, groups_of, world
from overlayccl_core.program.kinds import DType, Kind

TRIED_ELEMENTS = 2**14
TIER_ELEMENTS = 2**18
TIER_SECONDS = 20.0
STEP_TIMEOUT_S = 20.0

Rows = list[dict[str, Any]]
TimeLaunch = Callable[[Path, LaunchPlan], float]


class SelftestError(ValueError):
    """Ranks that do not compute what they should: nothing may be measured on them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selftest:
    """The checks of one deployment, in a folder that may be thrown away."""

    deployment: Deployment
    folder: Path
    fingerprint: str
    time_launch: TimeLaunch
    progress: Callable[[str], None]

    def run(self) -> tuple[Rows, Rows]:
        """(rows of selftest, rows of capabilities). SelftestError if a primitive gives wrong values."""
        tried = primitives(self.deployment, TRIED_ELEMENTS)
        self.progress(f"selftest: {len(tried)} primitives on {self.deployment.ranks} ranks")
        checks, capabilities = [self._ones()], []
        for primitive, error in zip(tried, self._try_all(tried), strict=True):
            wrong = error.startswith(WRONG)
            outcome = "fail" if wrong else "unsupported" if error else "pass"
            detail = error or f"equal to NumPy on random integers, {primitive.payload_bytes} bytes"
            checks.append(self._check("equals its NumPy meaning", outcome, detail, primitive))
            capabilities.append(self._capability(primitive, error, detail))
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
        trial = Trial(job=_job(one), inputs=inputs)
        [seen] = self._run([trial])
        values = np.unique(seen.outputs[OUTPUT]) if not seen.error else np.array([])
        good = values.tolist() == [float(ranks)]
        detail = seen.error or f"every element is {', '.join(map(str, values[:4]))}"
        return self._check(f"all_reduce of ones gives {ranks}", "pass" if good else "fail", detail, one)

    def _try_all(self, tried: Sequence[Primitive]) -> list[str]:
        """ "" or what went wrong, for each. One that kills or hangs its ranks is left out of the next launch."""
        errors: dict[int, str] = {}
        inputs = [primitive.random_inputs(seed) for seed, primitive in enumerate(tried)]
        trials = [Trial(job=_job(p), inputs=x) for p, x in zip(tried, inputs, strict=True)]
        while True:
            left = [i for i in range(len(tried)) if i not in errors]
            try:
                observed = self._run([trials[i] for i in left])
            except LaunchError as error:
                culprits = [i for i in left if f"at Program {tried[i].name}:" in str(error)]
                if not culprits:
                    raise
                self.progress(f"selftest: {tried[culprits[0]].name} ends the ranks: going on without it")
                errors[culprits[0]] = str(error).partition(": all ranks were ended")[0]
                continue
            errors.update({i: _wrong(tried[i], inputs[i], o) for i, o in zip(left, observed, strict=True)})
            return [errors[i] for i in range(len(tried))]

    def _run(self, trials: Sequence[Trial]) -> list[Observed]:
        work = self.folder / "selftest"
        work.mkdir(parents=True)
        try:
            ranks, library = self.deployment.ranks, self.deployment.library
            return run_once(trials, work, ranks=ranks, library=library, step_timeout_s=STEP_TIMEOUT_S)
        finally:
            shutil.rmtree(work)

    def _tiers(self) -> Rows:
        """Declared tiers against timed groups: nearer ranks must not be slower than farther ones."""
        near, far = self.deployment.tiers[0], self.deployment.tiers[-1]
        ranks = self.deployment.ranks
        if near.ranks == far.ranks:
            return [self._check(TIERS_CHECK, "not_applicable", f"one tier: {near.name}")]
        inside = groups_of([range(k, k + near.ranks) for k in range(0, ranks, near.ranks)], ranks)
        sample = {near.name: inside, far.name: across_nodes(ranks, near.ranks)}
        found = {
            name: grouped(self.deployment, Kind.ALL_GATHER, groups, DType.FLOAT32, TIER_ELEMENTS)
            for name, groups in sample.items()
        }
        per_byte = self._time(found)
        good = per_byte[near.name] <= per_byte[far.name] * 1.1
        detail = ", ".join(
            f"{name}: {us:.0f} us for {found[name].payload_bytes} bytes over {found[name].group_size} ranks"
            for name, us in per_byte.items()
        )
        return [self._check(TIERS_CHECK, "pass" if good else "fail", detail)]

    def _time(self, found: dict[str, Primitive]) -> dict[str, float]:
        """name -> us of one call."""
        jobs = [_job(primitive, name) for name, primitive in found.items()]
        settings = TimingSettings(seconds=TIER_SECONDS, maximum_rounds=20)
        store = LaunchStore(self.folder / "tiers", fingerprint=self.fingerprint, oversubscribed=False)
        work = store.work_folder(0)
        plan = LaunchPlan(
            launch=0,
            ranks=self.deployment.ranks,
            library=self.deployment.library,
            started_ns=time.monotonic_ns(),
            settings=settings,
            jobs=tuple(planned_job(index, job) for index, job in enumerate(jobs)),
        )
        try:
            plan.write(work, jobs)
            self.time_launch(work, plan)
            store.harvest(work, foreign_cpu_share=0.0, complete=True)
            [launch] = store.launches()
        finally:
            shutil.rmtree(store.folder)
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

    def _capability(self, primitive: Primitive, error: str, detail: str) -> dict[str, Any]:
        return {
            "operation": primitive.operation,
            "group_size": primitive.group_size,
            "dtype": primitive.collective.dtype.value,
            "payload_bytes": primitive.payload_bytes,
            "supported": not error,
            "evidence": detail,
            "fingerprint": self.fingerprint,
        }


WRONG = "wrong values"
TIERS_CHECK = "nearer ranks are not slower"


def _job(primitive: Primitive, key: str = "") -> Job:
    return Job(key=key or primitive.name, program=primitive.program, source=emit(primitive.program))


def _wrong(primitive: Primitive, inputs: dict[Any, Any], seen: Observed) -> str:
    if seen.error:
        return seen.error
    want = primitive.meaning(inputs)
    got = seen.outputs[OUTPUT]
    if np.array_equal(got, want):
        return ""
    rank, index = np.argwhere(got != want)[0]
    return f"{WRONG}: rank {rank}, element {index}: expected {want[rank, index]}, got {got[rank, index]}"
