"""Rule train on real ranks, for a model that is no part of the package and has sites of backwards."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from overlayccl_core import catalog, loader
from overlayccl_core.configuration.cases import cases_of_model
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.models import Model
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.evidence.trained import Ran, arms_by_model, judged
from overlayccl_core.gates.verdict import Reason
from overlayccl_core.program.case import Case
from overlayccl_core.program.json_form import dumps, loads
from overlayccl_core.program.numerics import NumericsClass
from overlayccl_core.program.problem import Direction, Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.rewrites.recipe import Recipe, TransposeOf, replay
from overlayccl_core.stages import train
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.steps import STAMPS, STEPS
from overlayccl_core.tables.table import write
from overlayccl_core.timing.batch import backend_of
from overlayccl_core.training.launches import Training
from tests.rows import row
from tests.training.experts import PLUGINS, STAYS, experts

DEPLOYMENT = load("config/deployments/local-2.yaml")
ALONE = ("only_grad_ar", "only_uniform_a2a")  # beside finalist_1, which changes both
TRAIN = {"launches": 1, "seconds": 0.5, "minimum_steps": 2, "maximum_steps": 3}
SETTINGS = Settings.from_part(json.dumps({"train": TRAIN | {"loss_steps": 3, "loss_seeds": 2}}))


@pytest.fixture(scope="module", autouse=True)
def plugins() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(loader.VARIABLE, str(PLUGINS))
        yield


def programs(problem: Problem) -> dict[str, Program]:
    """Arm -> its Program: that of hand_bundled is wrong in the backward exchange."""
    developer = catalog.developer_program(problem)
    if problem.name == "grad_ar":
        other = replay(Recipe(base="reduce_scatter_all_gather"), problem)
        return {**dict.fromkeys(("developer", "hand_bundled"), developer), "finalist_1": other}
    quick = Recipe(base="gather_slice")
    if problem.direction is Direction.FORWARD:
        return {"developer": developer} | dict.fromkeys(
            ("hand_bundled", "finalist_1"), replay(quick, problem)
        )
    return {
        "developer": developer,
        "hand_bundled": trace_source(STAYS, "stays", problem),
        "finalist_1": replay(Recipe(base=TransposeOf(recipe=quick)), problem),
    }


def finalists(case: Case, folder: Path) -> pl.DataFrame:
    """The table of one Case, every direction that has something to choose."""
    fixed = {
        "recipe": "{}",
        "numerics": "exact",
        "fingerprint": backend_of(DEPLOYMENT).fingerprint(DEPLOYMENT),
    }
    rows = [
        row(
            FINALISTS,
            case=case.id,
            direction=problem.direction.value,
            arm=arm,
            candidate=f"c_{arm}",
            program=program.digest,
            program_json=dumps(program),
            **fixed,
        )
        for problem in catalog.directions(case)
        for arm, program in programs(problem).items()
    ]
    return write(FINALISTS, rows, folder / f"{case.problem}.parquet")


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, pl.DataFrame]]:
    """Problem -> its finalists, of a model."""

    def tables(model: Model) -> dict[str, pl.DataFrame]:
        folder = tmp_path_factory.mktemp("finalists")
        cases = {case.problem: case for case in cases_of_model(model, DEPLOYMENT, 2).values()}
        return {problem: finalists(case, folder) for problem, case in cases.items()}

    return tables


@pytest.fixture(scope="module")
def trained(
    tmp_path_factory: pytest.TempPathFactory, ready: Callable[..., dict[str, pl.DataFrame]], unrepeated: None
) -> dict[str, pl.DataFrame]:
    """Tables finalists, steps and stamps of the experts."""
    folder, model = tmp_path_factory.mktemp("trained"), experts()
    tables = ready(model)
    made = train.run(DEPLOYMENT, SETTINGS, model, tables, folder / "partial", progress=lambda _text: None)
    return {
        "finalists": pl.concat(tables.values()),
        "steps": write(STEPS, made["steps"], folder / "steps.parquet"),
        "stamps": write(STAMPS, made["stamps"], folder / "stamps.parquet"),
    }


@pytest.mark.ranks
def test_each_site_ran_the_program_of_its_direction(trained: dict[str, pl.DataFrame]) -> None:
    keys = ["case", "direction", "arm", "program"]
    ran = trained["stamps"].filter(
        ~pl.col("arm").is_in(["finalist_2", "finalist_overlap", "finalist_overlap_2", *ALONE])
    )
    assert set(ran.select(keys).rows()) == set(trained["finalists"].select(keys).rows())
    assert ran.filter(arm="finalist_1", direction="backward").height == 4
    assert ran.filter(arm="finalist_1", direction="backward", calls=1).height == 4
    assert ran.filter(arm="hand_bundled", direction="backward", calls=0).height == 4


@pytest.mark.ranks
def test_of_two_problems_each_also_changes_alone(trained: dict[str, pl.DataFrame]) -> None:
    ran = {
        arm: dict(trained["stamps"].filter(arm=arm).select("site", "program").iter_rows())
        for arm in ("developer", "finalist_1", *ALONE)
    }
    for site, program in ran["finalist_1"].items():
        mine, other = ALONE if site == "gradients" else ALONE[::-1]
        assert ran[mine][site] == program != ran["developer"][site] == ran[other][site]


@pytest.mark.ranks
def test_arms_with_the_same_modules_are_trained_once_as_the_plainest(
    trained: dict[str, pl.DataFrame],
) -> None:
    same = trained["stamps"].filter(pl.col("arm").is_in(["finalist_2", "finalist_overlap"]))
    assert set(same["ran_as"]) == {"finalist_1"}
    assert same.height == 2 * trained["stamps"].filter(arm="finalist_1").height
    assert set(trained["steps"]["arm"]) == {"developer", "hand_bundled", "finalist_1", *ALONE}
    arms = arms_by_model(trained["steps"], trained["stamps"])["tiny-experts m2"]
    assert arms["finalist_2"].steps_us == arms["finalist_1"].steps_us
    assert (arms["finalist_1"].peak_memory_bytes or 0) > 0


@pytest.mark.ranks
def test_a_wrong_backward_is_seen_in_its_gradients_and_all_others_train_as_the_unsharded_model(
    trained: dict[str, pl.DataFrame],
) -> None:
    timed = {row["arm"]: row for row in trained["steps"].filter(purpose="timed").iter_rows(named=True)}
    assert set(timed) == {"developer", "hand_bundled", "finalist_1", *ALONE}
    for arm, one in timed.items():
        error = one["gradient_rel_error"]
        assert error > 1e-2 if arm == "hand_bundled" else error < 1e-5, arm
    assert len({row["matmul_digest"] for row in timed.values()}) == 1
    # entrance, two of an expert; no gradient of tokens
    assert timed["developer"]["matmuls"] == 2 * (1 + 2 + 1 + 4)
    losses = trained["steps"].filter(purpose="loss")
    assert set(losses["arm"]) == {"developer", "finalist_1", *ALONE} and losses["seed"].n_unique() == 2
    assert {len(of_ranks) for run in losses["losses"] for of_ranks in run} == {2}


@pytest.mark.ranks
def test_the_training_gate_judges_the_backward_by_its_own_program(trained: dict[str, pl.DataFrame]) -> None:
    [(label, arms)] = arms_by_model(trained["steps"], trained["stamps"]).items()

    def reasons(arm: str, ran_as: str) -> set[Reason]:
        rows = trained["finalists"].filter(arm=ran_as).iter_rows(named=True)
        ran = [
            Ran(**{k: row[k] for k in ("case", "direction")}, program=loads(row["program_json"]),
                numerics=NumericsClass.EXACT)
            for row in rows
        ]  # fmt: skip
        return {v.reason for v in judged(label, arm, arms, trained["stamps"], lambda _arm: ran)} - {Reason.OK}

    assert reasons("finalist_1", "finalist_1") == set()
    assert reasons("hand_bundled", "hand_bundled") == {Reason.WRONG_GRADIENT, Reason.OTHER_LOSSES}
    assert reasons("finalist_1", "hand_bundled") == {Reason.NOT_MEASURED}  # another backward Program


def test_a_site_without_the_developers_program_in_its_direction_is_named(
    ready: Callable[..., dict[str, pl.DataFrame]], tmp_path: Path
) -> None:
    model = experts()
    tables = ready(model)
    tables["uniform_a2a"] = tables["uniform_a2a"].filter(direction="forward")
    nothing: Any = None
    with pytest.raises(ValueError, match=r"site dispatch_0_backward: .*uniform_a2a/n2-96B-f32 backward"):
        train.run(DEPLOYMENT, SETTINGS, model, tables, tmp_path, progress=nothing)


def test_training_leaves_behind_what_is_slow(
    ready: Callable[..., dict[str, pl.DataFrame]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, asked = experts(), []

    def noted(training: Training, *_: Any) -> list[dict[str, Any]]:
        asked.append(training)
        return []

    monkeypatch.setattr(train, "train", noted)
    train.run(DEPLOYMENT, SETTINGS, model, ready(model), tmp_path, progress=lambda _text: None)
    [training] = asked
    assert training.narrows
