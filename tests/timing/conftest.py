"""The selftest of a library that is a function."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from overlayccl_core.backends.torchdist import backend
from overlayccl_core.backends.trials import Observed, Trial
from overlayccl_core.configuration.deployment import Deployment, Tier
from overlayccl_core.stages import selftest
from tests.timing.batches import deployment, silent
from tests.timing.libraries import Library


@pytest.fixture
def run_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A table that the selftest makes, in one folder; of four ranks two are near each other. table: "" for all."""

    def run(
        library: Library,
        progress: Callable[[str], None] = silent,
        *,
        table: str = "capabilities",
        ranks: int = 2,
        **more: Any,
    ) -> Any:
        def run_once(_: Deployment, folder: Path, trials: Sequence[Trial], **__: Any) -> list[Observed]:
            return library(folder, trials)

        monkeypatch.setattr(backend, "run_once", run_once)
        where = deployment(ranks)
        if ranks > 2:
            where = where.changed(tiers=(Tier(name="near", ranks=2), Tier(name="far", ranks=ranks)))
        tables = selftest.run(where, tmp_path / ".partial", progress=progress, **more)
        return tables[table] if table else tables

    return run
