"""Small flows, made once: tp_mlp at its two sites, uniform_a2a both ways; and searches over them that ask."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
import yaml

from overlayccl_core.asking.allowance import Allowance
from overlayccl_core.configuration import searches
from overlayccl_core.deployments.floor import Floor
from overlayccl_core.evidence import benched, contest
from overlayccl_core.program.case import Case
from overlayccl_core.search.proposal import FailedSketch
from overlayccl_core.search.proposers import command
from overlayccl_core.stages import deploy, finalists, known_ways, search, summary
from overlayccl_core.stages.cases import row as row_of
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.known_ways import KNOWN_WAYS
from overlayccl_core.tables.table import write
from tests.stages.asked import GRADIENTS, TABLES, Ran, Script
from tests.stages.flow import ROOT, capabilities, flow_of, quiet

KnownOf = Callable[[tuple[Case, ...]], tuple[pl.DataFrame, pl.DataFrame]]
EXIT = {"microbatches": 2, "layers": 2, "shape": [1, 16, 16]}


@pytest.fixture(scope="session")
def tp_flow(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    return flow_of(tmp_path_factory.mktemp("tp_mlp"), "tp_mlp", [EXIT, {**EXIT, "site": "entry"}])


@pytest.fixture(scope="session")
def a2a_flow(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    return flow_of(
        tmp_path_factory.mktemp("uniform_a2a"), "uniform_a2a", [{"payload": "64KiB"}, {"payload": "512KiB"}]
    )


@pytest.fixture(scope="session", autouse=True)
def floors_are_kept() -> Iterator[None]:
    """The floor of equal probes is made once: most stages begin with it."""
    kept: dict[int, tuple[pl.DataFrame, Floor]] = {}

    def floor_of(probes: pl.DataFrame) -> Floor:
        if id(probes) not in kept:
            kept[id(probes)] = probes, benched.floor_of(probes)
        return kept[id(probes)][1]

    with pytest.MonkeyPatch.context() as patch:
        for module in (contest, deploy, finalists, summary):
            patch.setattr(module, "floor_of", floor_of)
        yield


@pytest.fixture(scope="session")
def known_of(tmp_path_factory: pytest.TempPathFactory, tp_flow: SimpleNamespace) -> KnownOf:
    """(cases, known_ways) of some Cases."""

    @cache
    def of(cases: tuple[Case, ...]) -> tuple[pl.DataFrame, pl.DataFrame]:
        folder = tmp_path_factory.mktemp("known")
        rows = write(CASES, [row_of(one) for one in cases], folder / "cases.parquet")
        ways = known_ways.run(tp_flow.deployment, rows, capabilities(), progress=quiet)
        return rows, write(KNOWN_WAYS, ways, folder / "known_ways.parquet")

    return of


@pytest.fixture
def run_search(
    tmp_path: Path, tp_flow: SimpleNamespace, known_of: KnownOf, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    def searched(
        model: Script | None = None,
        *,
        of_cases: tuple[Case, ...] = GRADIENTS,
        like: str = "command",
        failed: tuple[FailedSketch, ...] | None = None,
        library: pl.DataFrame | None = None,
        **changes: Any,
    ) -> Ran:
        """like: the search in whose file the fields `changes` are others; one that asks does not polish."""
        if model is not None:
            monkeypatch.setattr(command, "language_model", lambda _: model)
        fields = yaml.safe_load((ROOT / f"config/searches/{like}.yaml").read_text())
        fields |= {"polish": False} if like == "command" else {}
        (tmp_path / "mine.yaml").write_text(yaml.safe_dump(fields | changes))
        tables = search.run(
            *(tp_flow.deployment, searches.load("mine", tmp_path), *known_of(of_cases)),
            *(tp_flow.theta, tp_flow.judged, capabilities() if library is None else library),
            allowance=Allowance(answers=tmp_path / "answers", tree=tmp_path, max_usd=1.0),
            clock=lambda: 0.0,
            progress=quiet,
            failed=failed,
        )
        made = {t.name: write(t, tables[t.name], tmp_path / f"{t.name}.parquet") for t in TABLES}
        return Ran(made, tmp_path)

    return searched
