"""`overlayccl prove FILE.hlo`: what XLA compiled, its collectives, and whether they are right."""

import shutil
from pathlib import Path

import pytest

from tests.cli.repository import REPOSITORY, Call
from tests.schedules.hlo_modules import ALL, SUM, module

TEXTS = Path(__file__).parents[1] / "schedules" / "hlo"
EACH_A_SUM = ("--collective", "all_reduce")
STARTED = module(
    f"""
    p = f32[8] parameter(0)
    q = f32[8] parameter(1)
    a = f32[8] all-reduce-start(p), {ALL}, to_apply=sum
    b = f32[8] all-reduce-start(q), {ALL}, to_apply=sum
    c = f32[8] all-reduce-done(a)
    d = f32[8] all-reduce-done(b)
    ROOT r = (f32[8], f32[8]) tuple(c, d)
    """,
    SUM,
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository without results: a proof needs none."""
    folder = tmp_path_factory.mktemp("bare")
    shutil.copytree(REPOSITORY / "config", folder / "config")
    return folder


def test_what_came_out_of_the_compiler_is_told_and_proven(call: Call) -> None:
    done = call("prove", str(TEXTS / "tpu_two_steps.hlo"), *EACH_A_SUM)
    assert done.code == 0
    assert done.out.splitlines() == [
        "2 all-reduce in 1 of 8 ranks: 64B f32",
        "captured/n8-all_reduce_sum-16-f32: proven, reordered (1 component, blocks)",
    ]


def test_a_case_may_be_given_and_a_wrong_one_is_refuted(call: Call) -> None:
    entry = '{"calls": [{"kind": "%s", "elements": 16}]}'
    mean = ("prove", str(TEXTS / "mean.hlo"), "--problem", "captured", "--case-json")
    assert call(*mean, entry % "all_reduce_avg").code == 0
    done = call(*mean, entry % "all_reduce_sum")
    assert done.code == 1 and "wrong_value" in done.words and "result[0] on rank 0" in done.words


def test_a_module_on_as_many_ranks_as_the_deployment_is_a_case_of_it(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "step.txt"
    file.write_text(STARTED)
    done = call("prove", str(file), *EACH_A_SUM)
    assert done.code == 0 and "up to 2 in flight together" in done.out
    file.write_text(STARTED.replace(", num_partitions=4", "").replace(f"{ALL}, ", ""))  # as torch_xla has it
    assert call("prove", str(file), *EACH_A_SUM).code == 0


def test_what_computes_is_refused_behind_its_collectives(call: Call) -> None:
    done = call("prove", str(TEXTS / "matmul.hlo"), *EACH_A_SUM)
    assert done.out.splitlines() == ["1 all-reduce in 1 of 8 ranks: 16B f32"]
    assert "which computes dot" in done.message(1)


def test_what_computes_beside_the_results_is_told(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "step.hlo"
    file.write_text(STARTED.replace("ROOT", "e = f32[8] exponential(p)\n  ROOT"))
    done = call("prove", str(file), *EACH_A_SUM)
    assert done.code == 0 and "no part of any result: line 17: %e computes exponential" in done.words


@pytest.mark.parametrize(
    ("content", "more", "says"),
    [
        (None, EACH_A_SUM, "there is no such file"),
        (b"\xff\xfe\x00", EACH_A_SUM, "no text file in UTF-8"),
        (b"<algo name='ring'/>", EACH_A_SUM, "HloModule"),
        (STARTED.encode(), (), "--collective"),
        (STARTED.encode(), ("--problem", "nothing"), "nothing"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(
    call: Call, tmp_path: Path, content: bytes | None, more: tuple[str, ...], says: str
) -> None:
    file = tmp_path / "step.hlo"
    if content is not None:
        file.write_bytes(content)
    done = call("prove", str(file), *more)
    assert done.code in (1, 2) and says in done.message(done.code)
