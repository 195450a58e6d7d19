"""A second model, of another shape, is two files in a folder of its own: nothing of the package is edited."""

import re
import threading
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from overlayccl_core import loader
from overlayccl_core.configuration.cases import case_of, cases_of_model
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.models import Model, sites_of
from overlayccl_core.digest import closure
from overlayccl_core.program.problem import Direction
from overlayccl_core.training.arm import unsharded_gradients
from overlayccl_core.training.driver import SiteModule, run_step
from overlayccl_core.training.pieces import Pieces, pieces_of
from tests.training.experts import PLUGINS, experts

RANKS = 2
PATIENCE_S = 300
NAMES = re.compile(r"llama|(?<!aten\.)\bembedding|half.a.layer|half.of.a.(layer|block)", re.IGNORECASE)

MODELS = ("training/models/llama.py", *(f"workloads/{name}.py" for name in ("llama", "megatron", "olmoe")))
LITERATURE = ("problems", "strategies")  # they cite the models that people use them in


@pytest.fixture(autouse=True)
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(loader.VARIABLE, str(PLUGINS))


def test_only_files_of_models_speak_of_a_model() -> None:
    said = [
        f"{file.relative_to(loader.ROOT)}:{number}: {line.strip()}"
        for file in sorted(loader.ROOT.rglob("*"))
        if file.suffix in (".py", ".md", ".json", ".jinja")
        and file.relative_to(loader.ROOT).as_posix() not in MODELS
        and file.parent.name not in (*LITERATURE, "__pycache__")
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if NAMES.search(line)
    ]
    assert not said


def test_its_fields_are_its_own_and_travel_as_json() -> None:
    model = experts()
    assert Model.from_json(model.to_json()) == model
    assert type(model).__module__ == "overlayccl_core.workloads.experts"
    with pytest.raises(ValueError, match=r"expert: .*'experts'"):
        experts(expert=3)
    with pytest.raises(ValueError, match=r"hidden: .*equal to 1"):
        experts(hidden=0)
    with pytest.raises(ValueError, match=r"microbatches .*2 and 3"):
        experts(batch=3)


def test_its_sites_become_cases_in_both_directions() -> None:
    deployment = load("config/deployments/local-2.yaml")
    cases = cases_of_model(experts(), deployment, 2)
    directions = {site.name: site.direction for site in sites_of(experts(), 2, RANKS)}
    assert {case.id for case in cases.values()} == {"uniform_a2a/n2-96B-f32", "grad_ar/n2-t1-64B-f32"}
    assert directions["combine_1_backward"] is Direction.BACKWARD
    assert directions["combine_1_forward"] is Direction.FORWARD
    with pytest.raises(ValueError, match=r"experts must be .*ranks"):
        cases_of_model(experts(experts=3), deployment, 2)
    sizes = {"model": "experts", "experts": 2, "width": 4, "hidden": 8}
    assert case_of("grad_ar", sizes, deployment)["sizes"] == (16, 64, 64)


def test_a_site_of_a_backward_that_is_not_there_or_with_the_name_of_another_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = experts()
    *_, gradients = sites_of(model, 2, RANKS)
    monkeypatch.setattr(type(model), "sites", lambda *_: (replace(gradients, direction=Direction.BACKWARD),))
    with pytest.raises(ValueError, match=r"gradients: .*no backward"):
        cases_of_model(model, load("config/deployments/local-2.yaml"), 2)
    monkeypatch.setattr(type(model), "sites", lambda *_: (gradients, gradients))
    with pytest.raises(ValueError, match=r"two sites .*'gradients'"):
        sites_of(model, 2, RANKS)


def test_both_files_count_in_the_code_of_the_rule_train() -> None:
    files = {"workloads/experts.py", "training/models/experts.py"}
    assert {PLUGINS / file for file in files} <= set(closure("train", *files))


class Read(SimpleNamespace):
    """Asks for a port."""


class Exchange:
    """What a library of two threads does at the sites of the model; all ranks come to a site in the same order."""

    def __init__(self, *, lazy: str = "") -> None:
        self.meeting = threading.Barrier(RANKS, timeout=PATIENCE_S)
        self.given: dict[int, Any] = {}
        self.lazy = lazy  # sites whose names end so pass on what they read

    def modules(self, rank: int, model: Model, microbatches: int) -> Iterator[SiteModule]:
        for site in sites_of(model, microbatches, RANKS):
            if site.problem == "grad_ar":
                ports, shape = (("gradient", 0), ("mean", 0)), (model.parameter_sizes()[0][1][0] ** 2,)
            else:
                d = "d_" if site.direction is Direction.BACKWARD else ""
                ports = ((f"{d}send",), (f"{d}received",))[:: -1 if d else 1]
                shape = (RANKS * site.entry["chunk"], site.entry["width"])
            lazy = bool(self.lazy) and site.name.endswith(self.lazy)
            yield SiteModule(
                site=site.name,
                generator=self._module(rank, *ports, mean=site.problem == "grad_ar", lazy=lazy),
                read=Read,
                shapes={ports[1]: shape},
            )

    def _module(self, rank: int, come: Any, go: Any, *, mean: bool, lazy: bool) -> Generator[Any, Any, None]:
        self.given[rank] = yield Read(port=come)
        self.meeting.wait()
        if mean:
            value = sum(self.given.values()) / RANKS
        else:
            value = torch.cat([self.given[r].view(RANKS, -1)[rank] for r in range(RANKS)])
        value = self.given[rank].clone() if lazy else value
        self.meeting.wait()
        yield SimpleNamespace(port=go, value=value)


def trained(model: Model, exchange: Exchange, data: Sequence[Sequence[Any]]) -> list[Pieces[Any]]:
    """[rank]: what a rank has after the backward of one step, run in a thread of its own."""
    cls = pieces_of(model)
    shares = [cls(model, cls.full_parameters(model, 1), rank, RANKS) for rank in range(RANKS)]
    steps = [share.step(data[rank], early=False) for rank, share in enumerate(shares)]
    failed: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            run_step(list(exchange.modules(rank, model, len(data[rank]))), steps[rank].segments())
        except BaseException as error:
            failed.append(error)
            exchange.meeting.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    with torch.no_grad():
        whole = cls(model, cls.full_parameters(model, 1))
        for rank, step in enumerate(steps):
            for m, loss in step.losses.items():
                assert loss == pytest.approx(float(whole.whole(data[rank][m])), rel=1e-5)
    return shares


def worst_error(model: Model, shares: Sequence[Pieces[Any]], batches: Sequence[Any]) -> float:
    """Of a gradient against the unsharded model's. batches: one a replica."""
    expected = unsharded_gradients(model, batches, seed=1)
    return max(
        float((p.grad - want).norm() / want.norm())
        for rank, share in enumerate(shares)
        for name, p in share.parameters.items()
        for want in [share.shard(model, name, expected[name], rank, RANKS)]
    )


@pytest.mark.parametrize("microbatches", [1, 2, 3])
def test_its_step_has_the_gradients_of_the_unsharded_model_however_its_batch_is_split(
    microbatches: int,
) -> None:
    model = experts(microbatches=[microbatches], loss_microbatches=microbatches)
    cls = pieces_of(model)
    batches = [cls.batch(model, seed=0, step=0, replica=rank) for rank in range(RANKS)]
    data = [cls.split(batch, microbatches) for batch in batches]
    assert worst_error(model, trained(model, Exchange(), data), batches) < 1e-5
    assert worst_error(model, trained(model, Exchange(lazy="backward"), data), batches) > 0.1


def test_a_workload_without_pieces_is_named_with_those_that_have_some(tmp_path: Path) -> None:
    (tmp_path / "workloads").mkdir()
    source = (PLUGINS / "workloads" / "experts.py").read_text()
    (tmp_path / "workloads" / "expert.py").write_text(source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(loader.VARIABLE, f"{PLUGINS}:{tmp_path}")
        with pytest.raises(ValueError, match=r"no 'expert' .*'experts'"):
            pieces_of(experts(workload="expert"))
