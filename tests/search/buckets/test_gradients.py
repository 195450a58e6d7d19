"""Files of gradients: every accepted form gives the same, every other one a message that says what is accepted."""

import json
import os
from pathlib import Path

import polars as pl
import pytest

from overlayccl_core.program.kinds import DType
from overlayccl_core.search.buckets.gradients import (
    in_order_of_readiness,
    read_ready,
    read_sizes,
    spread_by_bytes,
)

SIZES = {"embedding": 4 * 256 * 128, "norm": 4 * 128, "head": 4 * 256 * 128}
FORMS = {
    "a.txt": "# the model\nembedding 256x128\nnorm  [128]\nhead [256, 128]  # last\n",
    "b.txt": "embedding 128KiB\nnorm 512\nhead 131072\n",
    "a.csv": 'tensor,shape\nembedding,256x128\nnorm,128\nhead,"(256, 128)"\n',
    "b.csv": "name, bytes\nembedding, 128KiB\nnorm, 512\nhead, 131072\n",
    "a.json": json.dumps({"embedding": [256, 128], "norm": [128], "head": [256, 128]}),
    "b.json": json.dumps([["embedding", 131072], ["norm", "512B"], ["head", "128KiB"]]),
    "c.json": json.dumps([{"tensor": n, "bytes": size} for n, size in SIZES.items()]),
    "d.json": json.dumps({n: {"bytes": size} for n, size in SIZES.items()}),
    "c.txt": "embedding\ttorch.Size([256, 128])\nnorm: (128,)\nhead 256 128\n",
    "c.csv": '\ufefftensor,shape\nembedding,256 x 128\nnorm,"torch.Size([128])"\nhead,[256 128]\n',
}
SCALARS = {
    "a.txt": "scale ()\nbias []\nnone (0, 8)\nw (128, 64)\n",
    "b.txt": "scale torch.Size([])\nbias ( )\nnone 0x8\nw 128x64\n",
    "c.txt": "scale 4\nbias 4B\nnone 0\nw 32KiB\n",
    "a.csv": 'tensor,shape\nscale,[]\nbias,()\nnone,"[0, 8]"\nw,"[128, 64]"\n',
    "b.csv": "tensor,bytes\nscale,4\nbias,4\nnone,0\nw,32768\n",
    "a.json": json.dumps({"scale": [], "bias": "()", "none": [0, 8], "w": [128, 64]}),
    "b.json": json.dumps(
        [{"tensor": n, "shape": s} for n, s in (("scale", []), ("bias", []), ("none", [0]), ("w", [8192]))]
    ),
}


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", FORMS)
def test_every_accepted_form_gives_the_same_sizes_in_its_order(tmp_path: Path, name: str) -> None:
    sizes, ready = read_sizes(written(tmp_path, name, FORMS[name]), DType.FLOAT32)
    assert list(sizes.items()) == list(SIZES.items()) and ready is None


@pytest.mark.parametrize("name", SCALARS)
def test_a_scalar_is_one_element_and_a_tensor_of_none_has_no_bytes_in_every_form(
    tmp_path: Path, name: str
) -> None:
    sizes, _ = read_sizes(written(tmp_path, name, SCALARS[name]), DType.FLOAT32)
    assert sizes == {"scale": 4, "bias": 4, "none": 0, "w": 4 * 128 * 64}


def test_scalars_of_a_table_and_a_file_that_is_a_pipe_are_read(tmp_path: Path) -> None:
    path = tmp_path / "gradients.parquet"
    pl.DataFrame({"tensor": ["scale", "w"], "shape": [[], [3, 5]]}).write_parquet(path)
    assert read_sizes(path, DType.FLOAT32)[0] == {"scale": 4, "w": 60}
    reads, writes = os.pipe()
    with os.fdopen(writes, "w") as told:
        told.write("scale ()\n")
    assert read_sizes(f"/dev/fd/{reads}", DType.FLOAT32)[0] == {"scale": 4}
    os.close(reads)


def test_what_has_no_element_is_no_gradient() -> None:
    sizes = {"scale": 4, "none": 0, "w": 60}
    assert [g.name for g in in_order_of_readiness(sizes, spread_by_bytes(sizes, 9.0))] == ["w", "scale"]


def test_a_table_of_measured_gradients_gives_sizes_and_ready_times(tmp_path: Path) -> None:
    path = tmp_path / "gradients.parquet"
    pl.DataFrame(
        {"tensor": list(SIZES), "bytes": list(SIZES.values()), "ready_ms": [9.0, 4.5, 0.5]}
    ).write_parquet(path)
    sizes, ready = read_sizes(path, DType.FLOAT32)
    assert sizes == SIZES and ready == {"embedding": 9e3, "norm": 4.5e3, "head": 500.0}
    assert read_ready(path) == ready


def test_a_shape_takes_the_bytes_of_its_dtype(tmp_path: Path) -> None:
    sizes, _ = read_sizes(written(tmp_path, "a.txt", "w 3x5\n"), DType.BFLOAT16)
    assert sizes == {"w": 30}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "", "lists no tensor"),
        ("a.txt", "embedding\n", "line 1 is not a name"),
        ("a.txt", "w 12x\n", "'12x' is neither"),
        ("a.txt", "w 7\n", "7 bytes .*--dtype"),
        ("a.txt", "w 8\nw 8\n", "names 'w' twice"),
        ("a.txt", "w 8x8\nnorm 8\n", r"norm: 8 is.*write \[8\]"),
        ("a.txt", "w -1x8\n", "'-1x8' is neither"),
        ("a.json", '{"w": [-1]}', "whole numbers from 0"),
        ("a.json", '{"w": [0, 8]}', "none .*has an element"),
        ("a.json", '{"w": false}', "False is neither"),
        (".", "", "not readable"),
        ("a.csv", "shape\n3x4\n", "no column tensor"),
        ("a.csv", "tensor,shape\nw,3,4\n", "line 2 has not 2 fields"),
        ("a.csv", "tensor,elements\nw,3\n", "w has neither"),
        ("a.json", "{", "not readable"),
        ("a.json", "3", "neither a mapping"),
        ("a.json", '{"w": true}', "True is neither"),
        ("a.json", '{"w": ["a"]}', "whole numbers from 0"),
        ("a.parquet", "PAR1", "not readable"),
    ],
)
def test_another_file_gives_a_message_that_names_it(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    path = tmp_path if name == "." else written(tmp_path, name, text)
    with pytest.raises(ValueError, match=message) as raised:
        read_sizes(path, DType.FLOAT32)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("text", ["w soon\n", "w -1\n", "w nan\n", "w inf\n"])
def test_a_ready_time_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"w: ready_ms .*from 0"):
        read_ready(written(tmp_path, "a.txt", text))


def test_a_missing_file_gives_a_message(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no such file"):
        read_sizes(tmp_path / "nowhere.csv", DType.FLOAT32)


def test_spreading_takes_the_last_first_and_ends_with_the_backward_pass() -> None:
    ready = spread_by_bytes({"first": 100, "middle": 300, "last": 600}, 1000.0)
    assert ready == {"last": 600.0, "middle": 900.0, "first": 1000.0}
    for wrong in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="must take a time above 0"):
            spread_by_bytes(SIZES, wrong)


def test_gradients_come_in_the_order_of_readiness_and_the_last_first_where_it_is_the_same() -> None:
    gradients = in_order_of_readiness({"a": 4, "b": 4, "c": 4}, {"a": 1.0, "b": 0.0, "c": 1.0})
    assert [g.name for g in gradients] == ["b", "c", "a"]


def test_names_that_differ_between_the_files_are_told() -> None:
    with pytest.raises(ValueError, match=r"ready times .*\(b\)"):
        in_order_of_readiness({"a": 4, "b": 4}, {"a": 1.0})
    with pytest.raises(ValueError, match=r"sizes .*\(c\)"):
        in_order_of_readiness({"a": 4}, {"a": 1.0, "c": 1.0})
