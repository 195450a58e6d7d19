"""The selftest on real ranks: what it finds, and that it stops where values are wrong."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from overlayccl_core.backends.torchdist import selftest as module
from overlayccl_core.backends.torchdist.run_once import Observed, Trial
from overlayccl_core.configuration.deployment import Tier
from overlayccl_core.stages import selftest
from overlayccl_core.tables import table
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.selftest import SELFTEST
from tests.backends.batches import deployment

pytestmark = pytest.mark.ranks


def silent(_line: str) -> None:
    """No progress."""


def test_every_operation_group_size_and_dtype_is_tried_on_four_ranks(tmp_path: Path) -> None:
    tables = selftest.run(deployment(4), tmp_path, progress=silent)
    capabilities = table.write(CAPABILITIES, tables["capabilities"], tmp_path / "capabilities.parquet")
    checks = table.write(SELFTEST, tables["selftest"], tmp_path / "selftest.parquet")
    assert checks["check"][0] == "all_reduce of ones gives 4" and checks["outcome"][0] == "pass"
    operations = {"all_reduce", "all_reduce_max", "all_gather", "reduce_scatter", "all_to_all"}
    tried = set(capabilities.select("operation", "group_size", "dtype").iter_rows())
    assert tried >= {(o, g, d) for o in operations for g in (2, 4) for d in ("float32", "bfloat16")}
    assert ("collective_permute", 4, "float32") in tried
    in_float32 = capabilities.filter(capabilities["dtype"] == "float32")
    assert in_float32["supported"].all()
    assert all(capabilities["evidence"])
    assert checks["outcome"].to_list()[-1] == "not_applicable"
    assert [p.name for p in tmp_path.iterdir() if p.is_dir()] == []


def test_declared_tiers_are_compared_with_timed_groups(tmp_path: Path) -> None:
    two_tiers = deployment(4).changed(tiers=(Tier(name="near", ranks=2), Tier(name="far", ranks=4)))
    checks = module.Selftest(
        deployment=two_tiers, folder=tmp_path, fingerprint="here", progress=silent,
        time_launch=lambda work, plan: _backend_launch(work, plan),
    )  # fmt: skip
    [row] = checks._tiers()
    assert row["outcome"] in ("pass", "fail")
    assert "near:" in row["detail"] and "far:" in row["detail"] and "over 2 ranks" in row["detail"]


def _backend_launch(work: Path, plan: module.LaunchPlan) -> float:
    from overlayccl_core.backends.torchdist.backend import time_launch

    return time_launch(work, plan, lambda _rows: None)


def test_a_library_that_computes_wrongly_stops_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(trials: Sequence[Trial], *_: object, **__: object) -> list[Observed]:
        outputs = trials[0].job.program.problem.outputs
        return [
            Observed(
                outputs={p: np.zeros((2, spec.size)) for p, spec in t.job.program.problem.outputs.items()}
            )
            for t in trials
            if outputs
        ]

    monkeypatch.setattr(module, "run_once", wrong)
    with pytest.raises(ValueError, match="all_reduce of ones gives 2"):
        selftest.run(deployment(2), tmp_path, progress=silent)


def test_a_primitive_that_ends_the_ranks_is_unsupported_and_the_others_are_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = module.run_once

    def fragile(trials: Sequence[Trial], *where: Path, **rules: object) -> list[Observed]:
        for trial in trials:
            if trial.job.key.startswith("all_to_all over 2 of 2 ranks, float16"):
                raise module.LaunchError(
                    f"rank 1 of 2 died (SIGSEGV) while checking at Program {trial.job.key}: all ranks were ended"
                )
        return real(trials, *where, **rules)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "run_once", fragile)
    tables = selftest.run(deployment(2), tmp_path, progress=silent)
    lost = [row for row in tables["capabilities"] if not row["supported"]]
    assert {(row["operation"], row["dtype"]) for row in lost} >= {("all_to_all", "float16")}
    assert any("SIGSEGV" in row["evidence"] for row in lost)
