"""A proposer in a folder of one's own: what it sketches goes through the stage's tables and comes back from them."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
import yaml

from overlayccl_core import catalog, loader
from overlayccl_core.configuration import searches
from overlayccl_core.rewrites.recipe import SOURCE, Recipe, replay, sources
from overlayccl_core.stages import cases, search, seed
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.search_ends import SEARCH_ENDS
from overlayccl_core.tables.seeds import SEEDS
from overlayccl_core.tables.sketches import SKETCHES
from overlayccl_core.tables.table import read, write
from tests.stages.flow import ROOT, capabilities, quiet

PLUGINS = ROOT / "tests/plugins"
SIZES = list(range(3, 15))  # more tensors than the proxy keeps
LARGE = {"nodes": 1, "ranks": 64}  # proxy: every Case is searched at a smaller one


@pytest.fixture(params=["itself", "proxy"])
def tables(
    request: pytest.FixtureRequest,
    tp_flow: SimpleNamespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, pl.DataFrame]:
    """What a search with the proposer `scripted` writes, of a Case that is searched itself, or at a proxy."""
    monkeypatch.setenv(loader.VARIABLE, str(PLUGINS))
    changes: dict[str, Any] = {"proposer": "scripted"} | ({"proxy": LARGE} if request.param == "proxy" else {})
    text = yaml.safe_load((ROOT / "config/searches/offline.yaml").read_text()) | changes
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(text))
    configured = tp_flow.configured.model_copy(update={}) if False else tp_flow.configured
    listed = write(CASES, _cases(configured, tp_flow.deployment), tmp_path / "cases.parquet")
    seeds = seed.run(tp_flow.deployment, listed, capabilities(), progress=quiet)["seeds"]
    found = search.run(
        tp_flow.deployment,
        searches.load("mine", tmp_path),
        listed,
        write(SEEDS, seeds, tmp_path / "seeds.parquet"),
        tp_flow.theta,
        tp_flow.judged,
        capabilities(),
        clock=lambda: 0.0,
        progress=quiet,
    )
    for table in (SKETCHES, CANDIDATES, SEARCH_ENDS):
        write(table, found[table.name], tmp_path / f"{table.name}.parquet")
    return {t.name: read(t, tmp_path / f"{t.name}.parquet") for t in (SKETCHES, CANDIDATES, CASES)}
