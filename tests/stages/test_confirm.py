"""Rule confirm on real ranks: the deployed file itself is timed and trained, and a wrong one is never reported."""

import dataclasses
import math
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from overlayccl_core.backends.torchdist import deployed
from overlayccl_core.configuration import models
from overlayccl_core.configuration.cases import cases_of_model
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.settings import read
from overlayccl_core.emit import torch_views
from overlayccl_core.emit.deployed_case import DeployedCase, Stamp
from overlayccl_core.evidence import faults
from overlayccl_core.evidence.choices import ProblemChoice
from overlayccl_core.evidence.confirmed import split_rows
from overlayccl_core.evidence.standing import StepTables, headline_of
from overlayccl_core.program.numerics import NumericsClass
from overlayccl_core.stages import confirm
from overlayccl_core.tables.confirmed import CONFIRMED
from overlayccl_core.tables.deployed import SPLITS
from overlayccl_core.tables.steps import CONFIRMED_STAMPS, CONFIRMED_STEPS
from overlayccl_core.tables.table import write
from tests.stages import choices
from tests.stages.choices import trained
from tests.timing.batches import silent

ranks = pytest.mark.ranks
DEPLOYMENT = load("config/deployments/local-2.yaml")
MODEL = models.load("nano-dp").changed(layers=1, ddp_buckets_mib=(25,))
LAUNCHES = 2
QUICK = read()
QUICK = QUICK.changed(
    confirm=QUICK.confirm.changed(
        launches=LAUNCHES, seconds=1, minimum_rounds=3, maximum_rounds=3, step_seconds=0.5, minimum_steps=2,
        maximum_steps=3, apart=False,
    )
)  # fmt: skip
ARMS = {"developer": "one_by_one", "hand_bundled": "flat", "best_known_way": "flat"}


def decided(folder: Path, trained_in: str | None = None) -> ProblemChoice:
    """flat is deployed, as hand_bundled, which is the best known way too."""
    cases = cases_of_model(MODEL, DEPLOYMENT, 1).values()
    return choices.decided(DEPLOYMENT, cases, ARMS, "hand_bundled", folder, trained_in=trained_in)


def confirmed(folder: Path, of: ProblemChoice) -> dict[str, list[dict[str, Any]]]:
    before = trained(of.finalists, (*ARMS, "ddp_25"), MODEL, folder)
    return confirm.run(
        DEPLOYMENT, QUICK, {"grad_ar": of}, [MODEL], before, folder / ".partial", progress=silent
    )


def launches(folder: Path, of: ProblemChoice) -> Any:
    return confirm._Launches(DEPLOYMENT, QUICK, {"grad_ar": of}, folder / ".partial", silent, "")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pl.DataFrame]:
    folder = tmp_path_factory.mktemp("confirmed")
    made = confirmed(folder, decided(folder))
    return {
        table.name: write(table, made[table.name], folder / f"{table.name}.parquet")
        for table in (CONFIRMED, CONFIRMED_STEPS, CONFIRMED_STAMPS)
    }


@ranks
def test_the_deployed_file_is_timed_in_every_launch_beside_what_needs_no_search(
    tables: dict[str, pl.DataFrame],
) -> None:
    frame = tables["confirmed"]
    launches = sorted(set(frame["launch"]))  # one that was disturbed is made again under the next number
    assert len(launches) == LAUNCHES
    assert sorted(frame.select("launch", "arm").rows()) == [
        (launch, arm) for launch in launches for arm in ("deployed", "developer", "hand_bundled")
    ]  # best_known_way is hand_bundled's Program
    digests = {arm: set(frame.filter(arm=arm)["program"]) for arm in ("deployed", "hand_bundled")}
    assert digests["deployed"] == digests["hand_bundled"]


def test_values_of_the_deployed_file_are_looked_at_where_a_model_trains_the_case_too(tmp_path: Path) -> None:
    """There it is not timed alone, and beside it only what says what is right."""
    seen = {
        trained_in: {
            one.head["arm"]: (one.alone, one.proven.reference)
            for one in launches(tmp_path, decided(tmp_path, trained_in))._chosen().values()
        }
        for trained_in in (None, "nano-dp m1")
    }
    known = {"developer": (True, True), "hand_bundled": (True, False)}
    assert seen[None] == {"deployed": (True, False), **known}
    assert seen["nano-dp m1"] == {"deployed": (False, False), "developer": (False, True)}


@ranks
def test_the_deployed_file_is_trained_however_the_batch_is_split(tables: dict[str, pl.DataFrame]) -> None:
    steps, stamps = tables["confirmed_steps"], tables["confirmed_stamps"]
    arms = {"developer", "hand_bundled", "deployed", "ddp_25"}
    for microbatches in MODEL.microbatches:
        here = steps.filter(microbatches=microbatches, purpose="timed")
        assert set(here["arm"]) == arms and here.height == LAUNCHES * len(arms)
        assert here["gradient_rel_error"].drop_nulls().max() < 1e-5
        told = stamps.filter(microbatches=microbatches)
        calls = {row["arm"]: row["calls"] for row in told.iter_rows(named=True)}
        one_call = dict.fromkeys(("hand_bundled", "best_known_way", "deployed"), 1)
        assert calls == {"developer": len(MODEL.parameter_sizes()), **one_call}
    timed = steps.filter(launch=0, purpose="timed")
    losses = {arm: timed.filter(arm=arm)["losses"].to_list() for arm in ("developer", "deployed")}
    for a, b in zip(*losses.values(), strict=True):
        pairs = list(zip(a, b, strict=False))  # what is slow takes fewer steps
        assert pairs and all(x == pytest.approx(y, rel=1e-4) for x, y in pairs)


@ranks
def test_splits_say_what_stands_against_what(tables: dict[str, pl.DataFrame], tmp_path: Path) -> None:
    steps, stamps = tables["confirmed_steps"], tables["confirmed_stamps"]
    chosen = {m: "hand_bundled" for m in MODEL.microbatches}
    of = StepTables(steps=steps, stamps=stamps, confirmed_steps=steps, confirmed_stamps=stamps)
    rows = split_rows("nano-dp", headline_of("nano-dp", chosen, of), "one machine")
    frame = write(SPLITS, rows, tmp_path / "splits.parquet")
    assert frame.filter(part="deployed").select("arm", "ran_as", "needs_search").rows() == [
        ("deployed", "hand_bundled", False)
    ]
    [rival] = frame.filter(pl.col("part").is_in(("rival", "instead"))).iter_rows(named=True)
    assert rival["arm"] in (*ARMS, "ddp_25") and not rival["needs_search"]
    assert rival["deployed_speedup"] > 0 and rival["peak_memory_bytes"] > 0


@pytest.mark.parametrize(
    ("error", "failed", "said"),
    [
        (1e-6, "", ""),
        (0.3, "", "a gradient is 0.3 "),
        (1e-3, "", "a gradient is 0.001 "),  # what only a lossy one may be
        (math.nan, "", "a gradient is nan "),
        (None, "rank 1 of 2 died", "rank 1 of 2 died"),
    ],
)
def test_a_deployed_file_that_fails_in_a_step_or_gives_wrong_gradients_ends_the_run(
    error: float | None, failed: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = decided(tmp_path, "nano-dp m1")
    row = {"model": MODEL.name, "microbatches": 1, "arm": "deployed", "gradient_rel_error": error}
    row |= {"message": failed, "stamps": {}, "peak_memory_bytes": None}
    monkeypatch.setattr(confirm, "train", lambda *_: [row])
    before = trained(of.finalists, ARMS, MODEL, tmp_path)
    with pytest.raises(ValueError, match=f"^what was chosen .*nano-dp m1: {said}") if said else nullcontext():
        assert len(launches(tmp_path, of).steps(MODEL, before)[0]) == 1


def test_memory_that_training_counted_is_not_counted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = decided(tmp_path, "nano-dp m1")
    asked = []
    monkeypatch.setattr(confirm, "train", lambda training, *_: asked.append(training) or [])
    launches(tmp_path, of).steps(MODEL, trained(of.finalists, ARMS, MODEL, tmp_path))
    weighed = {arm.name: arm.weighed for training in asked for arm in training.arms}
    assert weighed.pop("deployed") and set(weighed.values()) == {False}, weighed


@ranks
def test_where_the_emitted_module_is_right_a_wrong_file_is_the_printers_fault_and_not_the_librarys(
    tmp_path: Path,
) -> None:
    honest, summed = decided(tmp_path), "all_reduce(view_9, world)"
    assert honest.module.count(summed) == 1  # the plain calls have others
    wrong = dataclasses.replace(honest, module=honest.module.replace(summed, "all_reduce(view_9 * 2, world)"))
    with pytest.raises(ValueError, match=r"forward deployed: .* differs .*prints the file wrongly"):
        confirmed(tmp_path, wrong)
    assert not list((tmp_path / ".partial").glob("confirm-[ve]*"))  # the next run looks again


@ranks
@pytest.mark.parametrize("sabotaged", [False, True])
def test_what_takes_the_place_is_a_file_that_was_run_and_a_wrong_one_ends_the_run(
    sabotaged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The printer is wrong where it prints the rival's Programs. The emitted module of the rival is right."""
    of, printed, honest = decided(tmp_path, "nano-dp m1"), [], deployed.deployed

    def printer(problem: str, cases: Sequence[DeployedCase], stamp: Stamp) -> str:
        runtime, begins, body = honest(problem, cases, stamp).partition("def chosen_0(")
        assert {one.ways["chosen"]["forward"].candidate for one in cases} == {"one_by_one"} and body.count(
            "all_reduce("
        )
        wrong = body.replace("all_reduce(", "all_reduce(2 * ", 1) if sabotaged else body
        printed.append(runtime + begins + wrong)
        return printed[-1]

    place = of.choice.select("case", "direction").row(0)
    monkeypatch.setattr(confirm, "placed", lambda *_: {place: "developer"})
    monkeypatch.setattr(deployed, "deployed", printer)
    before = trained(of.finalists, ARMS, MODEL, tmp_path)
    folder = tmp_path / ".partial"
    stopped = pytest.raises(ValueError, match=r"^what takes the place .*prints the file wrongly")
    with stopped if sabotaged else nullcontext():
        confirm.run(DEPLOYMENT, QUICK, {"grad_ar": of}, [], before, folder, progress=silent)
    assert len(printed) == 1 and bool(list(folder.glob("confirm-files*"))) is not sabotaged


@pytest.mark.parametrize(
    ("error", "fault"), [(1e-7, "prints the file wrongly"), (0.3, "not right here either")]
)
def test_whose_fault_wrong_gradients_are_is_told_by_the_emitted_modules_beside_it(
    error: float, fault: str
) -> None:
    row = {"model": "nano", "microbatches": 1, "message": "", "stamps": {"exit": {"program": "a"}}}
    mine = row | {"arm": "deployed", "gradient_rel_error": 0.3}
    rows = [mine, row | {"arm": "finalist_1", "gradient_rel_error": error}]
    other = row | {"arm": "developer", "gradient_rel_error": 1e-7, "stamps": {"exit": {"program": "b"}}}
    said = faults.fault_in_step(mine, [*rows, other], NumericsClass.REORDERED)
    assert fault in said and "OVERLAYCCL_PLAIN" not in said  # the file was never published: nobody uses it
    assert not faults.fault_in_step(rows[1], [*rows, other], NumericsClass.REORDERED)


@ranks
def test_a_printer_that_starts_every_slice_at_0_is_stopped_on_the_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof is of the nodes; what is printed of them has values of its own."""
    honest, mine = torch_views._alias, []

    def alias(plan: Any, operands: Any, store: Any) -> str:
        text = honest(plan, operands, store)
        name, _, ends = text.partition("[")
        if not ends:
            return text
        start, _, end = ends.rstrip("]").partition(":")
        mine.append(text)
        return f"{name}[0:{int(end) - int(start or 0)}]"

    monkeypatch.setattr(torch_views, "_alias", alias)
    of = decided(tmp_path)
    assert mine
    with pytest.raises(ValueError, match=r"deployed: .* differs .*not right here either"):
        confirmed(tmp_path, of)
