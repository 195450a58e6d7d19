"""Parameter shapes of a Llama-like model."""

from math import prod
from pathlib import Path

import pytest

from overlayccl_core.configuration import models
from overlayccl_core.workloads.llama import Sizes


def test_names_differ() -> None:
    names = [name for name, _ in Sizes(width=8, hidden=16, layers=2, vocabulary=32).parameter_sizes()]
    assert len(set(names)) == len(names) == 3 + 6 * 2


def test_sizes_must_be_positive() -> None:
    with pytest.raises(ValueError, match=r"hidden: .*got 0"):
        Sizes.from_data({"width": 8, "hidden": 0, "layers": 2, "vocabulary": 32})


def test_a_tensor_parallel_block_has_two_sums_in_each_direction() -> None:
    model = models.load("nano")
    entry, exit_ = models.sites_of(model, microbatches=8, ranks=4)
    assert (entry.name, exit_.name) == ("entry", "exit")  # backward goes on before forward
    assert exit_.entry == {"microbatches": 8, "layers": 8, "shape": [1, 64, 128], "site": "exit"}


def test_data_parallel_ranks_average_every_parameter_as_its_gradient_comes() -> None:
    model = models.load("nano-dp")
    [site] = models.sites_of(model, microbatches=2, ranks=4)
    assert site.problem == "grad_ar"
    assert site.entry["overlap"] is True
    assert len(site.entry["sizes"]) == 3 + 6 * model.layers


def test_stages_hand_over_and_several_pipelines_average_their_gradients() -> None:
    model = models.load("nano-pp")
    gradients, stages = models.sites_of(model, microbatches=4, ranks=8)
    assert (gradients.problem, stages.problem) == (
        "grad_ar",
        "pp_send_recv",
    )  # backward goes on before forward
    assert stages.entry == {"microbatches": 4, "shape": [2, 64, 128], "schedule": "gpipe"}
    assert gradients.entry["ranks"] == 4
    blocks = sum(prod(shape) for name, shape in model.parameter_sizes() if name.startswith("blocks."))
    assert sum(gradients.entry["sizes"]) == 256 * 128 + blocks // 2 + 128  # embedding or head, blocks, norm
    assert model.replicas(8) == (0, 1, 2, 3, 0, 1, 2, 3)
    [alone] = models.sites_of(model, microbatches=1, ranks=2)
    assert alone.problem == "pp_send_recv"


def test_a_parallel_block_has_one_sum_in_each_direction_and_one_norm() -> None:
    model = models.load("nano-parallel")
    entry, exit_ = models.sites_of(model, microbatches=4, ranks=4)
    assert (entry.name, exit_.name, exit_.problem) == ("entry", "exit", "layer_block_ar")
    assert exit_.entry == {"microbatches": 4, "layers": 4, "shape": [1, 64, 128], "site": "exit"}
    assert len(model.parameter_sizes()) == 3 + 5 * model.layers


def test_sharded_blocks_are_gathered_in_both_passes_and_the_rest_is_averaged() -> None:
    model = models.load("nano-fsdp")
    scatter, gradients, regather, gather = models.sites_of(model, microbatches=2, ranks=4)
    assert gather.entry == scatter.entry == {"microbatches": 2, "layers": 4, "shape": [1680, 128]}
    assert regather.entry == {**gather.entry, "site": "regather"}
    assert [site.direction for site in (scatter, regather, gather)] == ["backward", "forward", "forward"]
    elements = sum(prod(shape) for name, shape in model.parameter_sizes() if name.startswith("blocks.0."))
    assert 1680 * 128 - 48 * 128 < elements <= 1680 * 128
    assert gradients.entry == {"sizes": [256 * 128, 128, 256 * 128]}
    assert model.replicas(3) == (0, 1, 2)


def test_keys_and_values_of_each_layer_and_microbatch_are_gathered_and_go_back_for_themselves() -> None:
    model = models.load("nano-context").changed(layers=2)
    gradients, *gathers = models.sites_of(model, microbatches=2, ranks=4)
    assert (gradients.name, gradients.entry["overlap"]) == (
        "gradients",
        True,
    )  # sent beside the backward pass
    assert len(gradients.entry["sizes"]) == 3 + 6 * 2
    forward = ["gather_0_0", "gather_1_0", "gather_0_1", "gather_1_1"]
    assert [site.name for site in gathers] == [*(f"{name}_backward" for name in forward), *forward]
    assert [site.direction for site in gathers] == ["backward"] * 4 + ["forward"] * 4
    two_texts = {"heads": 2 * 8, "sequence": 64, "head_dim": 16}
    assert all((site.problem, site.entry) == ("ring_kv", two_texts) for site in gathers)
    assert model.replicas(4) == (0, 0, 0, 0)


def test_ranks_that_share_the_positions_of_a_text_do_no_work_twice() -> None:
    context, alone = models.load("nano-context"), models.load("nano-dp").changed(batch=4, layers=3)
    work, whole = context.work(2, 4), alone.work(2, 1)
    assert work is not None and whole is not None
    assert (work.flops, 4 * work.activation) == (whole.flops, whole.activation)


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (None, "corpus: .*no folder"),
        (0, "texts has no files"),
        (500, "450 .*to train.* 521"),
        (5000, "500 .*to validate.* 521"),
    ],
)
def test_a_corpus_that_is_missing_or_too_short_is_refused(
    size: int | None, message: str, tmp_path: Path
) -> None:
    folder = tmp_path / "texts"
    if size is not None:
        folder.mkdir()
    if size:
        (folder / "a.txt").write_bytes(b"x" * size)
    with pytest.raises(ValueError, match=message) as error:
        models.load("nano").changed(corpus=str(folder)).check(4)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "ranks", "message"),
    [
        ("nano-pp", 3, r"pipeline .*even.*got 3"),
        ("nano-fsdp", 9, r"9 and 1680.*divide 48"),
        ("nano-parallel", 3, "ranks must divide heads"),
        ("nano-context", 3, "ranks must divide the sequence .*3 and 64.*sequence of 66"),
    ],
)
def test_ranks_that_do_not_fit_are_refused(name: str, ranks: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        models.load(name).check(ranks)
    models.load("nano-pp").check(6)
    for fitting in (2, 3, 4, 6, 8, 16, 48):
        models.load("nano-fsdp").check(fitting)


def test_the_text_of_a_corpus_has_a_digest_of_what_it_holds(tmp_path: Path) -> None:
    texts = {"first": b"x" * 5210, "equal": b"x" * 5210, "another word": b"y" + b"x" * 5209}
    digests = []
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_bytes(text)
        model = models.load("nano").changed(corpus=str(tmp_path / name))
        model.check(4)  # long enough
        digests.append(model.data_digest())
    assert digests[0] == digests[1] != digests[2]
    assert models.load("nano").data_digest() is None


@pytest.mark.parametrize("name", ["nano", "nano-parallel", "nano-dp", "nano-fsdp", "nano-pp", "nano-context"])
def test_the_elements_that_a_rank_holds_are_its_share(name: str) -> None:
    model = models.load(name)
    sizes = {key: prod(shape) for key, shape in model.parameter_sizes()}
    whole, norms = sum(sizes.values()), sum(n for key, n in sizes.items() if "norm" in key)
    ends = sizes["embedding"] + sizes["head"]
    expected = {
        "tensor": ends + norms + (whole - ends - norms) // 4,
        "data": whole,
        "context": whole,
        "sharded": ends + 128 + 4 * 1680 * 128 // 4,  # with the rows that a block is padded with
        "pipeline": ends // 2 + 128 + (whole - ends - 128) // 2,
    }
    work = model.work(1, 4)
    assert work is not None
    assert work.rank_parameters == expected[model.model_dump()["parallelism"]]
    assert work.optimizer_bytes == 2 * work.parameter_bytes  # float32: no copy beside the moments
    positions = 64 // 4 if name == "nano-context" else 64
    assert work.activation == model.batch * positions * 128
