"""Training launches on real ranks: what is counted, what is compared, and what is wrong enough to be seen."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overlayccl_core import loader
from overlayccl_core.configuration import models
from overlayccl_core.gates.verdict import Reason
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.schedules import msccl
from overlayccl_core.schedules.way_writing import FILES, way_source
from overlayccl_core.training.launches import Training, train
from overlayccl_core.training.plan import Arm
from tests.schedules.files import ring
from tests.timing.batches import silent
from tests.training.arms_by_hand import RANKS, Arms, failures

M = 2
LAYERS = 2
CHEATS = '''
from overlayccl_core.program.language import Library, all_reduce, scale

def drops_a_microbatch(io, p):
    """Everybody gets the sums of the first microbatch."""
    for layer in p.layer_order:
        total = all_reduce(io.read("partial", 0, layer), "sum")
        for m in range(1, p.microbatches):
            io.read("partial", m, layer)
        for m in range(p.microbatches):
            io.write("total", m, layer, total)

def scales_by_nine_tenths(io, p):
    for m in range(p.microbatches):
        for layer in p.layer_order:
            io.write("total", m, layer, scale(all_reduce(io.read("partial", m, layer), "sum"), 9, 10))

def skips_a_layer(io, p):
    """One layer's partial sums are passed on as they are."""
    for m in range(p.microbatches):
        for layer in p.layer_order:
            partial = io.read("partial", m, layer)
            io.write("total", m, layer, partial if layer == 1 else all_reduce(partial, "sum"))

LIBRARY = Library(developer="drops_a_microbatch", hand_bundled="skips_a_layer", others=("scales_by_nine_tenths",))
'''


@pytest.fixture(scope="module")
def tensor_parallel(tmp_path_factory: pytest.TempPathFactory, unrepeated: None) -> list[dict[str, Any]]:
    arms = Arms(
        models.load("nano").changed(layers=LAYERS, batch=M, microbatches=(M,), loss_microbatches=M), CHEATS
    )
    everything = (Purpose.TIMED, Purpose.QUIET, Purpose.IDLE, Purpose.LOSS)
    for name in ("developer", "merged_over_microbatches"):
        arms.add(name, everything, entry=name, exit=name)
    copies = "all_to_all_of_copies"
    arms.add("permutes", everything, rewrite=("ring", "all_to_all:world:1", ""), entry=copies, exit=copies)
    assert all("collective_permute(" in arms.sources[site.module] for site in arms.arms[-1].sites)
    early = ("early_issue", "all_reduce:world:1", "")
    arms.add("hides", rewrite=early, entry="developer", exit="developer")
    assert ["meanwhile()" in arms.sources[site.module] for site in arms.arms[-1].sites] == [True, False]
    arms.add("drops", exit="drops_a_microbatch", entry="developer")
    arms.add("scales", exit="scales_by_nine_tenths", entry="developer")
    arms.add("skips", exit="developer", entry="skips_a_layer")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(loader.VARIABLE, str(_folder_of_ways(tmp_path_factory.mktemp("plugins"))))
        arms.add_deployed(M, tp_mlp="schedule_ours")
    assert "collective_permute(" in arms.sources[arms.arms[-1].sites[0].module]
    return train(arms.training(launches=2), tmp_path_factory.mktemp("tp"), "train-test", "", silent)


def _folder_of_ways(folder: Path) -> Path:
    """A folder of plug-ins with a way of summing: a schedule as MSCCL XML, as `overlayccl write` makes it."""
    (schedule,) = msccl.read(ring(RANKS))
    file = folder / "strategies" / "ways" / FILES[schedule.collective]
    file.parent.mkdir(parents=True)
    file.write_text(way_source(schedule, "a ring"))
    return folder


@dataclass(frozen=True)
class Trained:
    """A training that ended: in which folder, and its rows."""

    training: Training
    folder: Path
    rows: list[dict[str, Any]]


@pytest.fixture(scope="module")
def data_parallel(tmp_path_factory: pytest.TempPathFactory, unrepeated: None) -> Trained:
    arms = Arms(models.load("nano-dp").changed(layers=LAYERS))
    for name, seed in (("developer", "one_by_one"), ("flat", "flat")):
        arms.add(name, (Purpose.TIMED, Purpose.LOSS), gradients=seed)
    arms.arms.append(Arm(name="ddp_25", microbatches=M))
    settings = {"maximum_steps": 2, "loss_steps": 5}
    training, folder = arms.training(launches=1, **settings), tmp_path_factory.mktemp("dp")
    return Trained(training, folder, train(training, folder, "train-test", "", silent))


def rows(table: list[dict[str, Any]], purpose: str) -> dict[str, list[dict[str, Any]]]:
    """arm -> its rows of a purpose, launch by launch."""
    arms = dict.fromkeys(row["arm"] for row in table)
    return {arm: [r for r in table if r["arm"] == arm and r["purpose"] == purpose] for arm in arms}


@pytest.mark.ranks
def test_gradients_are_those_of_the_unsharded_model_and_wrong_strategies_are_far_off(
    tensor_parallel: list[dict[str, Any]],
) -> None:
    error = {
        arm: launches[0]["gradient_rel_error"] for arm, launches in rows(tensor_parallel, "timed").items()
    }
    for honest in ("developer", "merged_over_microbatches", "permutes", "hides", "deployed"):
        assert error[honest] < 1e-5
    for cheat in ("drops", "scales", "skips"):
        assert error[cheat] > 1e-2, cheat


@pytest.mark.ranks
def test_the_training_gate_rejects_wrong_strategies_without_any_proof(
    tensor_parallel: list[dict[str, Any]],
) -> None:
    for name, failed in failures(tensor_parallel).items():
        cheats = name in ("drops", "scales", "skips")
        assert failed == ({Reason.WRONG_GRADIENT, Reason.OTHER_LOSSES} if cheats else set()), name


@pytest.mark.ranks
def test_the_developers_calls_are_counted_and_all_arms_multiply_the_same_matrices(
    tensor_parallel: list[dict[str, Any]],
) -> None:
    timed = {arm: launches[0] for arm, launches in rows(tensor_parallel, "timed").items()}
    assert timed["developer"]["collectives"] == 4 * LAYERS * M
    stamps = timed["developer"]["stamps"]
    calls = {site: stamp["calls"] for site, stamp in stamps.items()}
    assert calls == dict.fromkeys(("entry", "exit"), 2 * LAYERS * M)
    assert all(stamp["library_version"].startswith("torch 2.") for stamp in stamps.values())
    assert stamps["exit"]["program"] != timed["merged_over_microbatches"]["stamps"]["exit"]["program"]
    assert timed["merged_over_microbatches"]["collectives"] == 4 * LAYERS
    # a sum of all microbatches goes once round the ring
    assert timed["permutes"]["collectives"] == 4 * LAYERS * (RANKS - 1)
    assert len({row["matmul_digest"] for row in timed.values()}) == 1
    # four matrices and attention a block, the head; twice as many in the backward pass, attention once
    assert timed["developer"]["matmuls"] == M * (3 * (4 * LAYERS + 1) + 2 * LAYERS)


@pytest.mark.ranks
def test_a_lockstep_arm_holds_the_activations_of_all_microbatches(
    tensor_parallel: list[dict[str, Any]],
) -> None:
    held = {arm: launches[0]["peak_memory_bytes"] for arm, launches in rows(tensor_parallel, "timed").items()}
    model = models.load("nano")
    activation = 4 * model.sequence * model.width  # of one microbatch of one text, float32
    assert held["merged_over_microbatches"] - held["developer"] > 3 * activation


@pytest.mark.ranks
def test_launches_pair_steps_and_in_quiet_ones_nothing_is_exchanged(
    tensor_parallel: list[dict[str, Any]],
) -> None:
    timed, quiet = rows(tensor_parallel, "timed"), rows(tensor_parallel, "quiet")
    for launch in (0, 1):
        lengths = {len(launches[launch]["steps_us"]) for launches in timed.values()}
        assert len(lengths) == 1 and 2 <= lengths.pop() <= 3
        assert timed["developer"][launch]["launch"] == launch
        assert len(timed["developer"][launch]["cold_us"]) == 1
    assert len(quiet["developer"]) == 1
    for arm in ("developer", "merged_over_microbatches"):
        apart = np.ptp(quiet[arm][0]["losses"], axis=1)  # step by step, over ranks
        assert apart.min() > 1e-3 > np.ptp(timed[arm][0]["losses"], axis=1).max()
    assert not quiet["drops"]
    [idle] = rows(tensor_parallel, "idle")["developer"]  # its model computes in the first, cold step only
    assert idle["losses"] == [] and len(idle["steps_us"]) == 2


@pytest.mark.ranks
def test_losses_of_honest_arms_agree_step_by_step_and_seeds_differ(
    tensor_parallel: list[dict[str, Any]],
) -> None:
    losses = rows(tensor_parallel, "loss")
    developer = {row["seed"]: row["losses"] for row in losses["developer"]}
    assert set(developer) == {0, 1} and developer[0] != developer[1]
    for arm in ("merged_over_microbatches", "permutes"):
        for row in losses[arm]:
            assert np.allclose(row["losses"], developer[row["seed"]], rtol=1e-4)
    assert not losses["scales"]
    wrong = rows(tensor_parallel, "timed")["scales"][0]["losses"]
    right = rows(tensor_parallel, "timed")["developer"][0]["losses"]
    assert not np.allclose(wrong, right, rtol=1e-4)


@pytest.mark.ranks
def test_data_parallel_arms_and_torch_ddp_train_alike(data_parallel: Trained) -> None:
    timed = {arm: launches[0] for arm, launches in rows(data_parallel.rows, "timed").items()}
    assert all(row["gradient_rel_error"] < 1e-5 for row in timed.values())
    assert len({(row["matmuls"], row["matmul_digest"]) for row in timed.values()}) == 1
    assert timed["developer"]["collectives"] == 3 + 6 * LAYERS
    assert timed["flat"]["collectives"] == timed["ddp_25"]["collectives"] == 1
    losses = [launches[0]["losses"] for launches in rows(data_parallel.rows, "timed").values()]
    steps = min(map(len, losses))  # what is slow has fewer
    first, *others = (arm[:steps] for arm in losses)
    assert steps >= 3 and all(np.allclose(first, other, rtol=1e-4) for other in others)
    validation = [
        launches[0]["validation_loss"] for launches in rows(data_parallel.rows, "loss").values() if launches
    ]
    assert len(validation) == 2 and all(2 < loss < 10 for loss in validation)


@pytest.mark.ranks
def test_losses_go_on_from_the_timed_steps_of_the_same_seed(data_parallel: Trained) -> None:
    timed, losses = rows(data_parallel.rows, "timed"), rows(data_parallel.rows, "loss")
    for arm in ("developer", "flat"):
        [before], [first, second] = timed[arm], losses[arm]
        assert first["steps_us"][:3] == [*before["cold_us"], *before["steps_us"]]
        assert first["losses"][:3] == before["losses"] and len(first["losses"]) == 5
        assert first["losses"][4] != first["losses"][3] and second["losses"][0] != first["losses"][0]


@pytest.mark.ranks
def test_a_finished_launch_is_not_run_again(data_parallel: Trained) -> None:
    said: list[str] = []
    again = train(data_parallel.training, data_parallel.folder, "train-test", "", said.append)
    assert again == data_parallel.rows
    said = [line for line in said if not line.startswith("waiting")]  # for the machine, where others time
    assert len(said) == 1 and "launch 1 of 1 " in said[0]


@pytest.mark.ranks
@pytest.mark.usefixtures("judged_at_once")
def test_an_arm_that_raises_is_named(tmp_path: Path) -> None:
    arms = Arms(models.load("nano-dp").changed(layers=1))
    arms.add("developer", gradients="flat")
    [name] = arms.sources
    arms.sources[name] += "\n\ndef forward():\n    raise RuntimeError('no luck')\n    yield\n"
    with pytest.raises(ValueError, match=r"no luck .*developer, M=2"):
        train(arms.training(launches=1), tmp_path, "train-test", "", silent)
    assert not [p for p in tmp_path.rglob("launch-*") if p.is_dir()]
