"""The checks before any timing: right values, the library's capabilities, and real tiers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from overlayccl_core.backends.backend import Backend
from overlayccl_core.backends.measured import Job, TimingSettings
from overlayccl_core.backends.plan import LaunchPlan
from overlayccl_core.backends.trials import Observed, Trial, Values
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.configuration.topology import Limit
from overlayccl_core.deployments.capabilities import CALL_COLUMNS, shape_text
from overlayccl_core.deployments.tiers import is_nearer
from overlayccl_core.launching.launch import no_watch
from overlayccl_core.launching.launcher import launcher_of
from overlayccl_core.measuring import statistics
from overlayccl_core.program.calls import COALESCED_SUFFIX
from overlayccl_core.program.groups import contiguous, strided, world
from overlayccl_core.program.kinds import DType, Kind
from overlayccl_core.program.nodes import Port
from overlayccl_core.program.payload import node_bytes
from overlayccl_core.program.problem import PortSpec
from overlayccl_core.program.tiles import Tiles
from overlayccl_core.timing.failed_jobs import FailedJobs, without_failed
from overlayccl_core.timing.partial import Evidence, at_work, key
from overlayccl_core.timing.primitive_log import (
    FAIL,
    NOT_APPLICABLE,
    PASS,
    UNSUPPORTED,
    PrimitiveLog,
    PrimitiveResult,
)
from overlayccl_core.timing.primitives import (
    INPUT,
    OUTPUT,
    Primitive,
    at_payloads,
    grouped,
    larger,
    primitives,
)
from overlayccl_core.timing.samples import timed_programs

TRIED_ELEMENTS = 2**14
TIER_ELEMENTS = 2**18
TIER_SECONDS = 20.0
STEP_TIMEOUT_S = 20.0
LESS = 16  # divisor of a failing payload, for the next try

SUMS = (Kind.ALL_REDUCE.value, Kind.ALL_REDUCE.value + COALESCED_SUFFIX)  # with replicated results

BATCH_NAME = "selftest"
ONES_CHECK = "all_reduce of ones gives {ranks}"
MEANING_CHECK = "equals its NumPy meaning"
BITS_CHECK = "gives all ranks the same bits"  # an assumption of the proof on replicated outputs
TIERS_CHECK = "nearer ranks are not slower"
LINK_CHECK = "the link between nodes has the declared rate"
# Times the declared rate: our choice. A call has latency, and a burst passes unshaped. The table selftest has what
# was reached.
LINK = (0.4, 1.2)

Rows = list[dict[str, Any]]
Looked = TypeVar("Looked")


class SelftestError(ValueError):
    """Ranks compute wrong values, or are not where the deployment says: nothing may be measured on them."""


def tried_first(deployment: Deployment, limits: Sequence[Limit] = ()) -> tuple[list[Primitive], int]:
    """Return (the primitives to try, the number of launches) if nothing fails beyond published limits."""
    small = primitives(deployment, TRIED_ELEMENTS)
    dreaded = {one.name for one in small if one.over(limits)}
    large = [
        one
        for one in at_payloads(deployment, deployment.largest_payload_bytes, TRIED_ELEMENTS)
        if one.like and one.like.name not in dreaded
    ]
    alone = len(dreaded) + sum(one.over(limits) is not None for one in large)
    placed = (len(deployment.tiers) > 1) + (launcher_of(deployment).link_bytes_per_s(deployment) is not None)
    return [*small, *large], len(("ones", "small", "large", "bits")) + alone + placed


@dataclass(slots=True, kw_only=True)
class Selftest:
    """The checks of one deployment. Results stay below `folder` until `partial.forget` learns of written tables.

    Attributes:
        limits: Published limits of the node. Calls over a limit come last, each alone: ranks may hang for minutes.
        largest_payload_bytes: The largest payload of the Cases, if larger than the deployment's.
        code: Digest of the rule's code.
    """

    deployment: Deployment
    backend: Backend
    folder: Path
    progress: Callable[[str], None]
    limits: Sequence[Limit] = ()
    largest_payload_bytes: int = 0
    code: str = ""
    fingerprint: str = field(init=False)
    before: PrimitiveLog = field(init=False)

    def __post_init__(self) -> None:
        self.fingerprint = self.backend.fingerprint(self.deployment)
        of = key(self.deployment.to_json(), self.fingerprint, self.code)
        self.before = PrimitiveLog(self.folder / f"{BATCH_NAME}-{of}", self.progress)

    @property
    def evidence(self) -> Evidence:
        return Evidence.beside(self.folder, BATCH_NAME)

    def run(self) -> tuple[Rows, Rows]:
        """Return (rows of selftest, rows of capabilities).

        A large payload that works has no row in capabilities: so their readers do not depend on the size of Cases.

        Raises:
            SelftestError: A primitive gives wrong values, or tiers or link are not as declared.
        """
        if not self.before:
            self.evidence.clear()
        tried = primitives(self.deployment, TRIED_ELEMENTS)
        self.progress(f"selftest: {len(tried)} primitives on {self.deployment.ranks} ranks")
        checks = [self._ones()]
        became = [*self._try_all(tried), *self._payloads()]
        checks += [self._check(MEANING_CHECK, one, primitive) for primitive, one in became]
        told = [(p, one) for p, one in became if not p.like or one.outcome != PASS]
        capabilities = [self._capability(primitive, one) for primitive, one in told]
        checks += self._bits(
            [p for p, one in became if one.outcome == PASS and p.call.operation in SUMS and not p.like]
        )
        placed = [self._tiers(), self._link()]
        if bad := [row for row in checks if row["outcome"] == FAIL]:
            self.before.forget()
            first = bad[0]
            shape = shape_text((first["group_size"], first["stride"]))
            raise SelftestError(
                f"selftest: {first['check']}: {first['operation']} over {shape} ranks in "
                f"{first['dtype']}: {first['detail']} ({len(bad)} checks fail): nothing is measured on a library "
                "that computes wrong values; try another version of it"
            )
        if wrong := next((row for row in placed if row["outcome"] == FAIL), None):
            self.before.forget()
            raise SelftestError(
                f"selftest: it is not so that {wrong['check']}: {wrong['detail']}: correct "
                f"config/deployments/{self.deployment.name}.yaml, or mend the network"
            )
        return [*checks, *placed], capabilities

    def _ones(self) -> dict[str, Any]:
        ranks = self.deployment.ranks
        one = grouped(self.deployment, Kind.ALL_REDUCE, world(ranks), DType.FLOAT32, TRIED_ELEMENTS)
        inputs = {INPUT: np.ones((ranks, TRIED_ELEMENTS))}

        def look(seen: Sequence[Observed]) -> PrimitiveResult:
            if told := seen[0].error or seen[0].overwritten:
                return PrimitiveResult(FAIL, told)
            values = np.unique(seen[0].outputs[OUTPUT]).tolist()
            outcome = PASS if values == [float(ranks)] else FAIL
            return PrimitiveResult(outcome, f"every element is {', '.join(map(str, values[:4]))}")

        became = self._run([Trial(job=self._job(one), inputs=inputs)], look)
        return self._check(ONES_CHECK.format(ranks=ranks), became, one)

    def _try_all(self, tried: Sequence[Primitive]) -> list[tuple[Primitive, PrimitiveResult]]:
        """Return the result of each. Primitives that kill or hang their ranks, also alone, are unsupported."""
        primitive_of = {p.name: p for p in tried}
        trials = {p.name: self._trial(p, seed) for seed, p in enumerate(tried)}
        failed = FailedJobs(None, self.progress)

        def launch(names: Sequence[str]) -> None:
            def look(seen: Sequence[Observed]) -> dict[str, PrimitiveResult]:
                pairs = zip(names, seen, strict=True)
                return {name: _compared(primitive_of[name], trials[name].inputs, one) for name, one in pairs}

            self.before.keep(self._run([trials[name] for name in names], look) if names else {})

        def keep_failed() -> None:
            self.before.keep(
                {name: PrimitiveResult(UNSUPPORTED, one.message) for name, one in failed.items()}
            )

        def left() -> list[str]:
            return [name for name in primitive_of if name not in self.before]

        def alone(name: str) -> None:
            launch([name])

        dreaded = {name for name in left() if primitive_of[name].over(self.limits)}

        def together() -> None:
            launch([name for name in left() if name not in dreaded])

        without_failed(together, alone, failed, before_again=keep_failed)
        if dreaded:
            self.progress(f"selftest: {len(dreaded)} that are over published limits, each alone")
            failed.suspects = left()
            without_failed(lambda: None, alone, failed, before_again=keep_failed)
        return [(p, self.before[name]) for name, p in primitive_of.items()]

    def _payloads(self) -> list[tuple[Primitive, PrimitiveResult]]:
        """Try large payloads, and smaller ones after a failure; skip calls that fail with a small payload."""
        most, tried = max(self.largest_payload_bytes, self.deployment.largest_payload_bytes), []
        large = at_payloads(self.deployment, most, TRIED_ELEMENTS)
        left = [p for p in large if p.like and not self._refused(p.like)]
        while left:
            size = max(p.call.payload_bytes for p in left)
            self.progress(f"selftest: {len(left)} primitives of up to {bytes_text(size)} a call")
            became = self._try_all(left)
            tried += became
            fewer = {
                less.name: less
                for p, one in became
                if p.like and one.outcome != PASS
                for less in [larger(self.deployment, p.like, p.call.payload_bytes // LESS)]
                if less.call.payload_bytes > p.like.call.payload_bytes and less.name not in self.before
            }
            left = list(fewer.values())
        return tried

    def _refused(self, primitive: Primitive) -> bool:
        known = self.before.get(primitive.name)
        return known is not None and known.outcome != PASS

    def _trial(self, primitive: Primitive, seed: int) -> Trial:
        """Make a trial; a large primitive gets the values of its pattern, repeated within each block."""
        small = primitive.pattern
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
        """Check all_reduces on floats that are equal in every group."""
        trials = [Trial(job=self._job(p), inputs=p.floats_of_places(seed)) for seed, p in enumerate(sums)]
        seen = self._run(trials, lambda seen: list(map(_same_bits, seen))) if trials else []
        pairs = zip(sums, seen, strict=True)
        return [self._check(BITS_CHECK, became, primitive) for primitive, became in pairs]

    def _run(self, trials: Sequence[Trial], look: Callable[[Sequence[Observed]], Looked]) -> Looked:
        """Run trials and return `look` of the results, while their folder exists."""
        with at_work(self.folder / BATCH_NAME, self.evidence) as work:
            return look(
                self.backend.run_once(
                    self.deployment, work, trials, may_refuse=True, step_timeout_s=STEP_TIMEOUT_S
                )
            )

    def _tiers(self) -> dict[str, Any]:
        """Check declared tiers by timing groups: nearer ranks must not be slower than farther ones.

        The near groups are the largest parts of a unit up to the size of the far groups.
        """
        near, far = self.deployment.tiers[0], self.deployment.tiers[-1]
        ranks = self.deployment.ranks
        if near.ranks == far.ranks:
            return self._check(TIERS_CHECK, PrimitiveResult(NOT_APPLICABLE, f"one tier: {near.name}"))
        across = strided(ranks, near.ranks)
        parts = (g for g in range(2, across.size + 1) if near.ranks % g == 0)
        part = max(parts, default=near.ranks)
        sample = {near.name: contiguous(ranks, part), far.name: across}
        small, gathers = (
            {
                name: grouped(self.deployment, Kind.ALL_GATHER, groups, DType.FLOAT32, elements)
                for name, groups in sample.items()
            }
            for elements in (TRIED_ELEMENTS, TIER_ELEMENTS)
        )
        if refused := [gather.name for gather in small.values() if self._refused(gather)]:
            why = f"the library refuses {' and '.join(refused)}"
            return self._check(TIERS_CHECK, PrimitiveResult(NOT_APPLICABLE, why))
        per_call = self._time(gathers)
        good = not is_nearer(per_call[far.name], per_call[near.name])
        calls = {name: gather.call for name, gather in gathers.items()}
        detail = ", ".join(
            f"{name}: {us:.0f} us for {calls[name].payload_bytes} bytes over {calls[name].shape[0]} ranks"
            for name, us in per_call.items()
        )
        return self._check(TIERS_CHECK, PrimitiveResult(PASS if good else FAIL, detail))

    def _link(self) -> dict[str, Any]:
        """Check the declared rate of a node's links by all_gathers across nodes, of all its ranks at once."""
        per_node, ranks = self.deployment.ranks_per_node, self.deployment.ranks
        launcher = launcher_of(self.deployment)
        if (of_a_link := launcher.link_bytes_per_s(self.deployment)) is None:
            return self._check(LINK_CHECK, PrimitiveResult(NOT_APPLICABLE, "no rate is declared"))
        rate = of_a_link * launcher.rails(self.deployment)
        across = grouped(
            self.deployment, Kind.ALL_GATHER, strided(ranks, per_node), DType.FLOAT32, TIER_ELEMENTS
        )
        us = self._time({LINK_CHECK: across})[LINK_CHECK]
        share = node_bytes(across.collectives[0], per_node) / us * 1e6 / rate
        detail = f"{share:.2f} of {rate * 8 / 1e6:.0f} Mbit/s in {across.name}"
        good = LINK[0] <= share <= LINK[1]
        return self._check(LINK_CHECK, PrimitiveResult(PASS if good else FAIL, detail))

    def _time(self, gathers: dict[str, Primitive]) -> dict[str, float]:
        jobs = [self._job(primitive, name) for name, primitive in gathers.items()]
        settings = TimingSettings(seconds=TIER_SECONDS, maximum_rounds=20)
        plan = LaunchPlan.of(jobs, settings, ranks=self.deployment.ranks)
        with at_work(self.folder / "tiers", self.evidence) as work:
            plan.write(work, jobs)
            share = self.backend.time_launch(self.deployment, work, plan, no_watch)
            timed = timed_programs(
                work, fingerprint=self.fingerprint, oversubscribed=False, foreign_cpu_share=share
            )
        return {one.key: statistics.estimate(one.samples_us).value for one in timed}

    def _check(
        self, check: str, became: PrimitiveResult, primitive: Primitive | None = None
    ) -> dict[str, Any]:
        of = primitive.call.columns() if primitive else dict.fromkeys(CALL_COLUMNS)
        return {"check": check, **of, **asdict(became), "fingerprint": self.fingerprint}

    def _capability(self, primitive: Primitive, became: PrimitiveResult) -> dict[str, Any]:
        return {
            **primitive.call.columns(),
            "supported": became.outcome == PASS,
            "evidence": became.detail,
            "fingerprint": self.fingerprint,
        }

    def _job(self, primitive: Primitive, key: str = "") -> Job:
        program = primitive.program
        return Job(key=key or primitive.name, program=program, source=self.backend.emit(program))


def _compared(primitive: Primitive, inputs: Values, seen: Observed) -> PrimitiveResult:
    if seen.error:
        return PrimitiveResult(UNSUPPORTED, seen.error)
    if seen.overwritten:
        return PrimitiveResult(FAIL, seen.overwritten)
    want = (primitive.pattern or primitive).meaning(inputs)
    for got in (seen.outputs[OUTPUT], *seen.farthest.values()):
        if not np.array_equal(got, want):
            rank, index = np.argwhere(got != want)[0]
            said = f"expected {want[rank, index]}, got {got[rank, index]}"
            return PrimitiveResult(FAIL, f"wrong values: rank {rank}, element {index}: {said}")
    return PrimitiveResult(PASS, f"equal to NumPy on random integers, {primitive.call.payload_bytes} bytes")


def _same_bits(seen: Observed) -> PrimitiveResult:
    if told := seen.error or seen.overwritten:
        return PrimitiveResult(FAIL, told)
    got = seen.outputs[OUTPUT]
    unlike = np.argwhere(got != got[:1])
    if not len(unlike):
        return PrimitiveResult(PASS, "equal on all ranks, and in groups that have the same")
    rank, index = unlike[0]
    mine, first = float(got[rank, index]), float(got[0, index])
    detail = f"sums of the same floats: element {index} is {first!r} on rank 0 and {mine!r} on rank {rank}"
    return PrimitiveResult(FAIL, detail)
