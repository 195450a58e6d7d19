"""The deployed files of two Problems in one step on real ranks: of an arm that changes one of them alone."""

from pathlib import Path

import polars as pl
import pytest

from overlayccl_core.configuration import models
from overlayccl_core.configuration.cases import cases_of_model
from overlayccl_core.configuration.deployment import load
<<<<<<< HEAD
from overlayccl_core.emit.deployed_case import Stamp
from overlayccl_core.evidence.choices import ProblemChoice
from overlayccl_core.measuring.arms import stands_as
from overlayccl_core.program.case import Case
from overlayccl_core.program.json_form import dumps
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.stages import confirm
from overlayccl_core.tables.choice import CHOICE
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.table import write
from tests.emit.deployed_modules import case_of_ways, way
from tests.stages.test_confirm import QUICK, trained
=======
from overlayccl_core.stages import confirm
from tests.stages.choices import decided, trained
from tests.stages.test_confirm import QUICK
>>>>>>> k-tests2

DEPLOYMENT = load("config/deployments/local.yaml")
MODEL = models.load("nano-pp").changed(layers=2, batch=2, microbatches=(2,), loss_microbatches=2)
ARMS = {
    "pp_send_recv": {"developer": "send_receive", "finalist_1": "merged_all_reduce"},
    "grad_ar": {"developer": "one_by_one", "finalist_1": "flat"},
}


<<<<<<< HEAD
def decided(case: Case, arm: str, folder: Path) -> ProblemChoice:
    """A Problem with its first finalist, of which an arm of the step was chosen."""
    source = catalog.library_source(case.problem)
    programs: dict[str, Program] = {
        name: trace_source(source, strategy, catalog.build(case))
        for name, strategy in ARMS[case.problem].items()
    }
    rows: list[dict[str, Any]] = [
        {
            "case": case.id, "direction": "forward", "arm": name, "candidate": ARMS[case.problem][name],
            "recipe": "{}", "numerics": "reordered", "program": one.digest, "program_json": dumps(one),
            "fingerprint": backend.fingerprint(DEPLOYMENT),
        }
        for name, one in programs.items()
    ]  # fmt: skip
    stands = stands_as(arm, case.problem)
    mine, chosen = programs[stands], next(row for row in rows if row["arm"] == stands)
    module = deployed.deployed(
        case.problem,
        [case_of_ways(way(chosen["candidate"], mine), way("developer", programs["developer"]))],
        Stamp(library=DEPLOYMENT.library, versions={"torch": metadata.version("torch")}),
    )  # fmt: skip
    choice = {name: chosen[name] for name in chosen if name != "program_json"}
    choice |= {"arm": arm, "value_digest": mine.value_digest, "trained_in": "nano-pp m2"}
    return ProblemChoice(
        finalists=write(FINALISTS, rows, folder / f"{case.problem}.parquet"),
        choice=write(CHOICE, [choice], folder / f"choice-{case.problem}.parquet"),
        module=module,
    )


=======
>>>>>>> k-tests2
@pytest.mark.ranks
@pytest.mark.usefixtures("unrepeated")
def test_the_files_train_as_the_arm_that_was_chosen_and_it_runs_beside_them(tmp_path: Path) -> None:
    cases = {case.problem: case for case in cases_of_model(MODEL, DEPLOYMENT, 2).values()}
    problems = {
        name: decided(DEPLOYMENT, [case], ARMS[name], "only_grad_ar", tmp_path, trained_in="nano-pp m2")
        for name, case in cases.items()
    }
    settings = QUICK.changed(confirm=QUICK.confirm.changed(launches=1))
    launches = confirm._Launches(
        DEPLOYMENT, settings, problems, tmp_path / ".partial", lambda _line: None, ""
    )
    finalists = pl.concat([of.finalists for of in problems.values()])
    before = trained(finalists, ("developer", "finalist_1", "only_grad_ar"), MODEL, tmp_path)
    steps, stamps = launches.steps(MODEL, before)
    # the finalist is made of ways that the libraries have: a rival
    assert {row["arm"] for row in steps} == {"developer", "finalist_1", "only_grad_ar", "deployed"}
    assert all(row["gradient_rel_error"] < 1e-5 for row in steps)
    calls = {
        arm: tuple(row["calls"] for site in ("stages", "gradients") for row in stamps
                   if (row["arm"], row["site"]) == (arm, site))
        for arm in ("developer", "finalist_1", "only_grad_ar", "deployed")
    }  # fmt: skip
    gradients = len(cases["grad_ar"]["sizes"])
    assert calls == {
        "developer": (4, gradients), "finalist_1": (2, 1), "only_grad_ar": (4, 1), "deployed": (4, 1),
    }  # fmt: skip
