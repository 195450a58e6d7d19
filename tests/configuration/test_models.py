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
        ({"widht": 3}, "widht: .*'width'"),
        ({"width": "128"}, "width: .*'128'.*channels"),
        ({"width": None}, "width: .*got None"),
        ({"layers": 0}, "layers: .* 1 .*got 0"),
        ({"parallelism": "tensr"}, "parallelism: .*'tensr'"),
        ({"microbatches": [2, 2]}, r"microbatches: .*\[2, 2\]"),
        ({"loss_microbatches": 3}, "loss_microbatches.*got 3"),
        ({"microbatches": [1, 2, 3]}, "microbatches .*3 and 8"),
        ({"batch": 0}, "batch: .* 1 .*got 0"),
        ({"heads": 3}, "width .*multiple of 6"),
        ({"vocabulary": 255}, "got 255.*at least 256"),  # else ranks fail, after the bench
        ({"ddp_buckets_mib": [1]}, "ddp_buckets_mib .*data"),
        ({"schedule": "gpipe"}, "gpipe and tensor"),
        ({"parallelism": "pipeline"}, "None and pipeline.*1f1b"),
        ({"parallelism": "pipeline", "schedule": "1f2b"}, "schedule: .*'1f2b'"),
        ({"parallelism": "pipeline", "schedule": "1f1b", "layers": 3}, "layers .*got 3.*choose 4"),
        ({"workload": "lama"}, "workload:.*'lama'.*'llama'"),
        ({"workload": 7}, "workload: .*got 7"),
        ({"name": "mine"}, "name: .*no such field"),
    ],
)
def test_a_wrong_field_is_one_line_with_file_field_and_mend(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump({**GOOD, **change}))
    with pytest.raises(ValueError, match=message) as error:
        models.load("wrong", tmp_path)
    assert str(error.value).startswith(f"{tmp_path / 'wrong.yaml'}: ") and "\n" not in str(error.value)
