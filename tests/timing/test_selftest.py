"""The selftest on real ranks: what it finds, what it leaves, and that it stops where values are wrong."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overlayccl_core.backends.torchdist import backend
from overlayccl_core.backends.trials import Observed, Trial, observed
from overlayccl_core.configuration.deployment import Tier
from overlayccl_core.deployments.capabilities import Capabilities, permute_shape, permute_shapes
from overlayccl_core.launching.failures import Failure, LaunchError
from overlayccl_core.program.groups import NO_ORDER
from overlayccl_core.program.kinds import DType, Kind
from overlayccl_core.stages import selftest
from overlayccl_core.tables import table
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.selftest import SELFTEST
from overlayccl_core.timing.partial import forget, settle
from overlayccl_core.timing.primitive_log import FAIL, PrimitiveResult
from overlayccl_core.timing.primitives import permutes, primitives
from overlayccl_core.timing.selftest import Selftest, SelftestError
from tests.capabilities import call
from tests.timing.batches import deployment, silent
from tests.timing.libraries import died, right, right_but, whole

ranks = pytest.mark.ranks
RunWith = Callable[..., Any]


@ranks
def test_every_operation_group_size_and_dtype_is_tried_on_four_ranks(tmp_path: Path) -> None:
    partial = tmp_path / ".partial"
    (partial / "selftest" / "modules").mkdir(parents=True)  # as a run that was killed with -9 leaves it
    (partial / "selftest" / "out-0-0.error").write_text("of a run that is dead")
    tables = selftest.run(deployment(4), partial, progress=silent)
    capabilities = table.write(CAPABILITIES, tables["capabilities"], tmp_path / "capabilities.parquet")
    checks = table.write(SELFTEST, tables["selftest"], tmp_path / "selftest.parquet")
    assert checks["check"][0] == "all_reduce of ones gives 4" and checks["outcome"][0] == "pass"
    operations = {"all_reduce", "all_reduce_max", "all_reduce_coalesced"}
    operations |= {"all_gather", "reduce_scatter", "all_to_all"}
    tried = set(capabilities.select("operation", "group_size", "stride", "dtype").iter_rows())
    shapes = ((2, 1), (2, 2), (2, NO_ORDER), (4, 1), (4, NO_ORDER))
    assert tried >= {(o, *s, d) for o in operations for s in shapes for d in ("float32", "bfloat16")}
    of_permutes = permute_shapes(4).values()
    assert tried >= {("collective_permute", *s, d) for s in of_permutes for d in ("float32", "bfloat16")}
    large = checks.filter(checks["payload_bytes"] == 2**20)
    assert set(large["operation"]) == operations | {"collective_permute"}
    assert set(large["outcome"]) == {"pass"} and capabilities["payload_bytes"].max() < 2**20
    in_float32 = capabilities.filter(capabilities["dtype"] == "float32")
    assert in_float32["supported"].all()
    assert all(capabilities["evidence"])
    bits = checks.filter(checks["check"] == "gives all ranks the same bits")
    assert set(bits["outcome"]) == {"pass"}
    assert set(bits["operation"]) == {"all_reduce", "all_reduce_coalesced"}
    of_bits = set(bits.select("group_size", "dtype").iter_rows())
    assert {(2, "float32"), (4, "float32"), (4, "float64")} <= of_bits
    assert checks["outcome"].to_list()[-1] == "not_applicable"
    forget(partial, selftest.BATCH_NAME, [])
    settle(partial)
    assert list(partial.iterdir()) == []


@ranks
def test_declared_tiers_are_compared_with_timed_groups(tmp_path: Path) -> None:
    two_tiers = deployment(4).changed(tiers=(Tier(name="near", ranks=2), Tier(name="far", ranks=4)))
    partial = tmp_path / ".partial"
    (partial / "tiers").mkdir(parents=True)
    (partial / "tiers" / "stamps.bin").write_bytes(b"of a dead run")
    checks = Selftest(deployment=two_tiers, backend=backend, folder=partial, progress=silent)  # type: ignore[arg-type]
    row = checks._tiers()
    assert row["outcome"] in ("pass", "fail")
    assert "near:" in row["detail"] and "far:" in row["detail"] and "over 2 ranks" in row["detail"]


@pytest.mark.parametrize("check", ["_tiers", "_link"])
def test_ranks_that_are_not_where_the_deployment_says_are_refused(
    check: str, run_with: RunWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_so(checks: Selftest) -> dict[str, Any]:
        return checks._check(check, PrimitiveResult(FAIL, "near: 20 us, far: 1 us"))

    monkeypatch.setattr(Selftest, check, not_so)
    with pytest.raises(
        SelftestError, match=r"not so that .*near: 20 us.*correct config/deployments/here.yaml"
    ):
        run_with(lambda _, trials: right(trials))


KILLED = """
import sys
from pathlib import Path
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.program.groups import NO_ORDER
from overlayccl_core.program.kinds import DType, Kind
from overlayccl_core.stages import selftest
from tests.timing.batches import deployment, silent
from tests.timing.libraries import died, right, right_but, whole
selftest.run(deployment(2), Path(sys.argv[1]), progress=lambda line: print(line, flush=True))
"""


@ranks
def test_a_selftest_that_was_killed_does_not_stop_the_next_one(tmp_path: Path) -> None:
    partial = tmp_path / ".partial"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(partial)])
    status = partial / "selftest" / "status.bin"
    end = time.monotonic() + 300  # others may measure on this machine
    while not status.exists() and time.monotonic() < end:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    assert status.exists()
    tables = selftest.run(deployment(2), partial, progress=silent)
    forget(partial, selftest.BATCH_NAME, [])
    settle(partial)
    assert tables["selftest"][0]["outcome"] == "pass" and list(partial.iterdir()) == []


def zeros(trial: Trial) -> Observed:
    [one] = right([trial])
    return Observed(outputs={p: np.zeros_like(x) for p, x in one.outputs.items()})


def other_bits(trial: Trial) -> Observed | None:
    """Sums in another order on each rank: integers have one sum in any order, so only floats show it."""
    if trial.job.key != "all_reduce over 4 of 4 ranks, float32, 64KiB":
        return None
    [one] = right([trial])
    for rank in range(4):
        terms = np.roll(trial.inputs[("x",)], -rank, axis=0).astype(np.float32)
        one.outputs[("y",)][rank] = ((terms[0] + terms[1]) + terms[2]) + terms[3]
    return one


def wrong_far_behind(trial: Trial) -> Observed | None:
    """As ranks tell it of a large payload in which the last of the copies is unlike the others."""
    [one] = right([trial])
    return Observed(outputs={p: x + 1 for p, x in one.outputs.items()}) if trial.input_tiles else None


def chunks_misplaced(chunk: int) -> Callable[[Trial], Observed | None]:
    """As a reduce_scatter whose chunks of a payload of 256 KiB end up in each other's place, and no other's."""

    def misplaced(trial: Trial) -> Observed | None:
        kind = trial.job.program.collectives[0].kind
        if kind is not Kind.REDUCE_SCATTER or not trial.job.key.endswith("float32, 256KiB"):
            return None
        rolled = {p: np.roll(x, chunk // 4, axis=1) for p, x in whole(trial).items()}
        return observed(rolled, trial.output_tiles)

    return misplaced


def one_element(trial: Trial) -> Observed | None:
    if trial.job.key != "all_reduce over 2 of 2 ranks, float32, 1MiB":
        return None
    values = whole(trial)
    values["y",][1, 200_003] += 1
    return observed(values, trial.output_tiles)


def overwriting(trial: Trial) -> Observed | None:
    """Told by a field: no error is raised, and it is no refusal of the library."""
    if trial.job.key != "all_gather over 2 of 2 ranks, float32, 64KiB":
        return None
    return Observed(outputs={}, overwritten="rank 0: input x was overwritten")


@pytest.mark.parametrize(
    ("wrong", "ranks", "told"),
    [
        (zeros, 2, r"all_reduce .*gives 2"),
        (other_bits, 4, r"same bits: .*4 .*float32"),
        (wrong_far_behind, 2, "rank 0, element 0"),
        *((chunks_misplaced(chunk), 2, r"reduce_scatter .*: wrong") for chunk in (2**10, 2**14, 2**16)),
        (one_element, 2, r"all_reduce .*: rank 1"),
        (overwriting, 2, r"all_gather .*: input x "),
    ],
)
def test_a_library_that_computes_wrongly_stops_everything(
    run_with: RunWith, wrong: Callable[[Trial], Observed | None], ranks: int, told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        run_with(right_but(wrong), ranks=ranks)


def test_a_primitive_that_ends_the_ranks_is_unsupported_and_the_others_are_tried(
    tmp_path: Path, run_with: RunWith
) -> None:
    launches: list[int] = []

    def fragile(folder: Path, trials: Sequence[Trial]) -> list[Observed]:
        launches.append(len(trials))
        for trial in trials:
            if trial.job.key.startswith("all_to_all over 2 of 2 ranks, float16"):
                (folder / "launch.log").write_text("Fatal Python error: Segmentation fault")
                raise died("SIGSEGV", trial)
        return right(trials)

    [lost] = [row for row in run_with(fragile) if not row["supported"]]
    assert (lost["operation"], lost["dtype"]) == ("all_to_all", "float16")
    log = tmp_path / "logs" / "selftest.failure-1" / "launch.log"
    assert "SIGSEGV" in lost["evidence"] and lost["evidence"].endswith(str(log))
    assert "Segmentation fault" in log.read_text()
    assert launches[1:4] == [launches[1], 1, launches[1] - 1]


def test_a_primitive_whose_ranks_were_ended_from_outside_is_tried_alone_and_supported(
    run_with: RunWith,
) -> None:
    launches: list[int] = []

    def killed_once(_: Path, trials: Sequence[Trial]) -> list[Observed]:
        launches.append(len(trials))
        if len(launches) == 2:
            raise died("SIGKILL", trials[3])
        return right(trials)

    said: list[str] = []
    assert all(row["supported"] for row in run_with(killed_once, said.append))
    assert launches[:4] == [1, launches[1], 1, launches[1] - 1]
    assert any("runs when it is alone" in line for line in said)


def test_where_a_large_payload_fails_smaller_ones_are_tried_down_to_one_that_works(run_with: RunWith) -> None:
    def refused(trial: Trial) -> Observed | None:
        large = any(tiles.large > 2 * tiles.small for tiles in trial.input_tiles.values())
        if trial.job.program.collectives[0].kind is Kind.ALL_TO_ALL and large:
            return Observed(outputs={}, error="rank 0: RuntimeError: too large")
        return None

    told = run_with(right_but(refused))
    rows = [row for row in told if (row["operation"], row["dtype"]) == ("all_to_all", "float32")]
    tried = {(row["payload_bytes"], row["supported"]) for row in rows}
    assert tried == {(2**16, True), (2**18, False), (2**20, False)}
    can = Capabilities.from_rows(rows)
    asked = [call("all_to_all", (2, 1), payload_bytes=size) for size in (2**16, 2**18 - 1, 2**18)]
    assert [can.supports(one).supported for one in asked] == [True, True, False]


@pytest.mark.parametrize("of_cases", [2**12, 2**22])
def test_payloads_go_up_to_what_the_deployment_or_a_case_has(run_with: RunWith, of_cases: int) -> None:
    """What works with them is no row of capabilities, on which much hangs that Cases do not change."""
    tables = run_with(lambda _, trials: right(trials), table="", largest_payload_bytes=of_cases)
    most = max(row["payload_bytes"] or 0 for row in tables["selftest"])
    assert most == max(of_cases, deployment(2).largest_payload_bytes)
    assert tables["capabilities"] == run_with(lambda _, trials: right(trials))


def test_where_ranks_compile_shapes_and_dtypes_are_tried_apart() -> None:
    tiers = (Tier(name="node", ranks=32), Tier(name="network", ranks=224))
    cluster = deployment(2).changed(ranks=224, ranks_per_node=32, tiers=tiers, uniform=True)
    tried = [one.call for one in primitives(cluster, 2**14)]
    assert len(tried) == len(set(tried)) == 11 * 6 + 5 + 3 * (6 + 1)
    shapes = {one.shape for one in tried if one.operation == "all_gather" and one.dtype is DType.FLOAT32}
    within, across = {(g, 1) for g in (2, 4, 8, 16, 32)}, {(224 // g, g) for g in (2, 4, 8, 16, 32)}
    assert shapes == {(224, 1)} | within | across
    assert {one.shape for one in tried if one.dtype is DType.BFLOAT16} == {(224, 1)}


@pytest.mark.parametrize("world", [2, 4, 5, 6, 224])
def test_one_permute_of_every_shape_is_tried(world: int) -> None:
    tried = [permute_shape(sources) for sources in permutes(world)]
    wanted = set(permute_shapes(world).values()) - ({(2, NO_ORDER)} if world == 2 else set())
    assert tried[0] == (world, 1) and len(tried) == len(set(tried)) and set(tried) == wanted


def test_what_has_no_order_is_no_shift() -> None:
    for world in (4, 5, 8):
        [sources] = [s for s in permutes(world) if permute_shape(s) == (world, NO_ORDER)]
        assert sorted(sources) == list(range(world))
        assert len({(r - source) % world for r, source in enumerate(sources)}) > 1


def test_ranks_that_fail_at_no_primitive_stop_the_selftest(run_with: RunWith) -> None:
    def late(*_: Any) -> list[Observed]:
        raise LaunchError("ranks 0, 1 of 2 did not join", kind=Failure.NOT_JOINED, ranks=(0, 1))

    with pytest.raises(LaunchError, match=r"not join.*launch\.log"):
        run_with(late)
