"""A repository in which commands are called, with what a fit leaves there; and what they print in a terminal."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.settings import read
from overlayccl_core.probes.beside import beside_probes
from overlayccl_core.probes.mixed import mixed_probes
from overlayccl_core.probes.probe import ProbeRole
from overlayccl_core.probes.structured import structured_probes
from overlayccl_core.stages import fit
from overlayccl_core.tables.beside import BESIDE
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.sidecar import write_sidecar
from overlayccl_core.tables.table import write
from overlayccl_core.tables.theta import THETA
from tests.fake_timings import timing_columns

REPOSITORY = Path(__file__).parents[2]
COLUMNS = 80
STRATEGIES = '''from overlayccl_core.program.language import all_to_all


def exchange(io, p):
    """The library's own."""
    io.write("received", all_to_all(io.read("send")))


def keep(io, p):
    """Forgets to send."""
    io.write("received", io.read("send"))
'''


@dataclass(frozen=True)
class Done:
    """What a command printed."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """The output as one line."""
        return " ".join(self.out.split())

    def message(self, code: int) -> str:
        """Its message, when there is one line."""
        assert self.code == code, self.err
        [line] = self.err.strip().splitlines()
        assert line.startswith("overlayccl: ")
        return line


Call = Callable[..., Done]


def too_wide(text: str) -> list[str]:
    return [line for line in text.splitlines() if len(line) > COLUMNS]


def fitted(root: Path) -> None:
    """What a run leaves behind, from timings of a known theta."""
    folder = root / "results" / "local"
    folder.mkdir(parents=True)
    for table in (PROBES, THETA, FIDELITY, BESIDE):
        write(table, _fitted()[table.name], folder / f"{table.name}.parquet")
    command = ("--settings", read(root / "config/config.yaml").part("probe"))
    now = datetime(2026, 1, 2, tzinfo=UTC)
    write_sidecar(folder / "probes.parquet", inputs=(), command=command, started=now, ended=now)


@cache
def _fitted() -> Mapping[str, Any]:
    deployment = load(REPOSITORY / "config/deployments/local.yaml")
    probes = structured_probes(deployment) + beside_probes(deployment)
    probes += mixed_probes(deployment, seed=1, count=20, role=ProbeRole.MIXED)
    probes += mixed_probes(deployment, seed=2, count=8, role=ProbeRole.HELD_OUT)
    rows = [{"probe": p.name, "role": p.role.value, **timing_columns(p.program, rounds=4)} for p in probes]
    settings = read(REPOSITORY / "config/config.yaml")
    tables = fit.run(settings, pl.DataFrame(rows), progress=lambda _: None)
    beside = [
        {**row, "cpu_share": 0.1, "slower": 1.0} for row in tables["beside"]
    ]  # made-up times overlap nothing
    return {"probes": rows, **tables, "beside": beside}
