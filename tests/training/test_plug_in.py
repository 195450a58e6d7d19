"""A second model, of another shape, is two files in a folder of its own: nothing of the package is edited."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from overlayccl_core import loader
from overlayccl_core.configuration.cases import case_of, cases_of_model
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.models import Model, sites_of
from overlayccl_core.digest import closure
from overlayccl_core.program.problem import Direction
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.training.pieces import pieces_of
from tests.training.experts import PLUGINS, STAYS, experts
from tests.training.in_process import programs_of, worst_error

RANKS = 2
DEPLOYMENT = load("config/deployments/local-2.yaml")
NAMES = re.compile(r"llama|(?<!aten\.)\bembedding|half.a.layer|half.of.a.(layer|block)", re.IGNORECASE)

MODELS = (
    *(f"training/models/{name}.py" for name in ("llama", "olmoe")),
    *(f"workloads/{name}.py" for name in ("llama", "megatron", "olmoe")),
    "workloads/README.md",
)
LITERATURE = ("problems", "strategies", "spreads")  # they cite the models that people use them in


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
    cases = cases_of_model(experts(), DEPLOYMENT, 2)
    directions = {site.name: site.direction for site in sites_of(experts(), 2, RANKS)}
    assert {case.id for case in cases.values()} == {"uniform_a2a/n2-96B-f32", "grad_ar/n2-t1-64B-f32"}
    assert directions["combine_1_backward"] is Direction.BACKWARD
    assert directions["combine_1_forward"] is Direction.FORWARD
    with pytest.raises(ValueError, match=r"experts must be .*ranks"):
        cases_of_model(experts(experts=3), DEPLOYMENT, 2)
    sizes = {"model": "experts", "experts": 2, "width": 4, "hidden": 8}
    assert case_of("grad_ar", sizes, DEPLOYMENT)["sizes"] == (16, 64, 64)


def test_a_site_of_a_backward_that_is_not_there_or_with_the_name_of_another_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = experts()
    *_, gradients = sites_of(model, 2, RANKS)
    monkeypatch.setattr(type(model), "sites", lambda *_: (replace(gradients, direction=Direction.BACKWARD),))
    with pytest.raises(ValueError, match=r"gradients: .*no backward"):
        cases_of_model(model, DEPLOYMENT, 2)
    monkeypatch.setattr(type(model), "sites", lambda *_: (gradients, gradients))
    with pytest.raises(ValueError, match=r"two sites .*'gradients'"):
        sites_of(model, 2, RANKS)


def test_both_files_count_in_the_code_of_the_rule_train() -> None:
    files = {"workloads/experts.py", "training/models/experts.py"}
    assert {PLUGINS / file for file in files} <= set(closure("train", *files))


@pytest.mark.parametrize("microbatches", [1, 2, 3])
def test_its_step_has_the_gradients_of_the_unsharded_model_however_its_batch_is_split(
    microbatches: int,
) -> None:
    model = experts(microbatches=[microbatches], loss_microbatches=microbatches)
    programs = programs_of(model, DEPLOYMENT, microbatches, {})
    assert worst_error(model, DEPLOYMENT, microbatches, programs) < 1e-7
    for site in [name for name in programs if name.endswith("backward")]:
        programs[site] = trace_source(STAYS, "stays", programs[site].problem)
    assert worst_error(model, DEPLOYMENT, microbatches, programs) > 0.1


def test_a_workload_without_pieces_is_named_with_those_that_have_some(tmp_path: Path) -> None:
    (tmp_path / "workloads").mkdir()
    source = (PLUGINS / "workloads" / "experts.py").read_text()
    (tmp_path / "workloads" / "expert.py").write_text(source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(loader.VARIABLE, f"{PLUGINS}:{tmp_path}")
        with pytest.raises(ValueError, match=r"no 'expert' .*'experts'"):
            pieces_of(experts(workload="expert"))
