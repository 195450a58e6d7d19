"""Files of config/models: read by the class of their workload, and refused in one line."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from overlayccl_core.configuration import models
from overlayccl_core.configuration.models import Model

GOOD = yaml.safe_load((models.FOLDER / "nano.yaml").read_text())


@pytest.mark.parametrize("name", [path.stem for path in sorted(models.FOLDER.glob("*.yaml"))])
def test_every_model_that_is_shipped_travels_as_json_and_comes_back_the_same(name: str) -> None:
    model = models.load(name)
    back = Model.from_json(model.to_json())
    assert back == model and type(back) is type(model)
    assert model.name == name
    assert 1 in model.microbatches  # not to split is always a rival


def test_labels_tell_the_model_and_its_microbatches() -> None:
    texts = [models.label("nano", 8), models.label("nano-m4", 1)]
    assert models.of_labels(", ".join(texts)) == [("nano", 8), ("nano-m4", 1)]
    assert models.of_labels(None) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"widht": 3}, "widht: there is no such field: did you mean 'width'?"),
        ({"width": "128"}, "width: must be a valid integer (got '128'): channels of the residual stream"),
        ({"width": None}, "width: must be a valid integer (got None): channels of the residual stream"),
        ({"layers": 0}, "layers: must be greater than or equal to 1 (got 0)"),
        (
            {"parallelism": "tensr"},
            "parallelism: must be 'tensor', 'data', 'pipeline' or 'sharded' (got 'tensr')",
        ),
        ({"microbatches": [2, 2]}, "items must differ (got [2, 2])"),
        ({"loss_microbatches": 3}, "loss_microbatches must be one of microbatches (got 3 and [1, 4])"),
        (
            {"microbatches": [1, 2, 3]},
            "microbatches must divide batch (got 3 and 8): leave it out, or make batch",
        ),
        (
            {"batch": 0},
            "batch: must be greater than or equal to 1 (got 0): examples of a step on each replica",
        ),
        ({"heads": 3}, "make width a multiple of 6"),
        (
            {"vocabulary": 255},
            "of the text (got 255): make it at least 256",
        ),  # else ranks fail, after the bench
        ({"ddp_buckets_mib": [1]}, "ddp_buckets_mib is of data parallelism: leave it out"),
        ({"schedule": "gpipe"}, "schedule is of pipeline parallelism and of no other (got gpipe and tensor)"),
        ({"parallelism": "pipeline"}, "say gpipe or 1f1b for a pipeline, and leave it out elsewhere"),
        (
            {"parallelism": "pipeline", "schedule": "1f2b"},
            "schedule: must be 'gpipe' or '1f1b' (got '1f2b'): of a pipeline",
        ),
        (
            {"parallelism": "pipeline", "schedule": "1f1b", "layers": 3},
            "layers of a pipeline must be even, as each of two stages has half of them (got 3): choose 4",
        ),
        (
            {"workload": "lama"},
            "workload: there is no 'lama' in overlayccl_core/workloads: did you mean 'llama'?",
        ),
        ({"workload": 7}, "workload: must be there (got 7): a file in overlayccl_core/workloads"),
        ({"name": "mine"}, "name: there is no such field"),
    ],
)
def test_a_wrong_field_is_one_line_with_file_field_and_mend(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump({**GOOD, **change}))
    with pytest.raises(ValueError) as error:
        models.load("wrong", tmp_path)
    said = str(error.value)
    assert said.startswith(f"{tmp_path / 'wrong.yaml'}: ") and message in said and "\n" not in said


def test_a_model_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(
        ValueError, match=r"no model 'nono': config/models/nono\.yaml .* there are: .*nano, .*nano-dp"
    ):
        models.load("nono")


def test_a_field_that_is_missing_is_named_with_its_meaning(tmp_path: Path) -> None:
    without = {k: v for k, v in GOOD.items() if k != "hidden"}
    (tmp_path / "few.yaml").write_text(yaml.safe_dump(without))
    with pytest.raises(ValueError, match=r"few\.yaml: hidden: must be there: channels of an MLP"):
        models.load("few", tmp_path)
