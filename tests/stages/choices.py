"""What rule choose leaves, made by hand from known ways: finalists, choice and the deployed module of a Problem."""

from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core import catalog
from overlayccl_core.backends.torchdist import backend, deployed
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.models import Model
from overlayccl_core.emit.deployed_case import Stamp
from overlayccl_core.evidence.choices import ProblemChoice, TrainingTables
from overlayccl_core.measuring.arms import stands_as
from overlayccl_core.program.case import Case
from overlayccl_core.program.json_form import dumps
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.tables.choice import CHOICE
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.table import write
from tests.emit.deployed_modules import case_of_ways, way
from tests.rows import row
from tests.stages.training import train_tables


def decided(
    deployment: Deployment,
    cases: Iterable[Case],
    ways: Mapping[str, str],
    chosen: str,
    folder: Path,
    *,
    trained_in: str | None = None,
) -> ProblemChoice:
    """An arm was chosen at all Cases of a Problem. ways: arm of a Case -> known way."""
    finalists: list[dict[str, Any]] = []
    choice, entries = [], []
    for case in cases:
        source, problem = catalog.library_source(case.problem), catalog.build(case)
        programs = {arm: trace_source(source, name, problem) for arm, name in ways.items()}
        here = {
            arm: row(
                FINALISTS, case=case.id, direction="forward", arm=arm, candidate=ways[arm], recipe="{}",
                numerics="lossy" if ways[arm].startswith("bf16") else "reordered",
                program=one.digest, program_json=dumps(one), fingerprint=backend.fingerprint(deployment),
            )
            for arm, one in programs.items()
        }  # fmt: skip
        finalists += here.values()
        stands = stands_as(chosen, case.problem)
        mine = programs[stands]
        what = {"arm": chosen, "value_digest": mine.value_digest, "trained_in": trained_in}
        same = {name: value for name, value in here[stands].items() if name in CHOICE.schema}
        choice.append(row(CHOICE, **same | what))
        entries.append(case_of_ways(way(ways[stands], mine), way("developer", programs["developer"])))
    stamp = Stamp(library=deployment.library, versions={"torch": metadata.version("torch")})
    return ProblemChoice(
        finalists=write(FINALISTS, finalists, folder / f"finalists-{case.problem}.parquet"),
        choice=write(CHOICE, choice, folder / f"choice-{case.problem}.parquet"),
        module=deployed.deployed(case.problem, entries, stamp),
    )


def trained(finalists: pl.DataFrame, arms: Iterable[str], model: Model, folder: Path) -> TrainingTables:
    """What training said of some arms, at every count of microbatches: all alike fast."""
    speeds = dict.fromkeys(arms, 1000.0)
    pairs = [
        train_tables(finalists, folder, model=model.name, microbatches=count, speeds=speeds)
        for count in model.microbatches
    ]
    steps, stamps = (pl.concat(frames) for frames in zip(*pairs, strict=True))
    here = pl.lit(finalists["fingerprint"][0]).alias("fingerprint")
    return TrainingTables(steps=steps.with_columns(here), stamps=stamps)
