"""`overlayccl bucket`: buckets for the gradients of a model, with what they are compared with."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.repository import Call, too_wide


def test_bucket_shows_buckets_comparison_and_use(call: Call, root: Path) -> None:
    done = call("bucket", "--sizes", f"{root}/sizes.txt", "--backward-ms", "900")
    assert done.code == 0 and not too_wide(done.out), done.out
    for part in (
        "9 gradients, 4.8MiB, on local (4 ranks)",
        "DDP's default",
        "one buffer",
        "one by one",
        "Advice: DistributedDataParallel(model, bucket_cap_mb",
        "earlier than DDP as it comes, more than the model's error. Time both",
        "The model's error: half of its prices",
        "bucket_cap_mb=25 is another rule",
        "DistributedDataParallel(model, bucket_cap_mb=",
        "bucket_cap_mb_list=[",
        "the rule merge with the knob",
        "compute_bucket_assignment_by_size",
    ):
        assert part in done.words
    assert "No ready times" not in done.words and "Left out" not in done.words


def test_bucket_keeps_what_torch_does_where_the_difference_is_within_the_error(
    call: Call, root: Path
) -> None:
    options = ("--sizes", f"{root}/sizes.txt", "--backward-ms", "4")
    answer = json.loads(call("bucket", *options, "--json").out)
    ddp = answer["others"][0]
    assert answer["advice"] == "DistributedDataParallel(model)" and ddp["name"] == "DDP's default"
    assert answer["best"]["high_us"] > ddp["low_us"] and answer["model_error"] > 0 and not answer["left_out"]
    said = call("bucket", *options).words
    assert "keep DDP as it comes" in said


@pytest.mark.parametrize(
    ("sizes", "options", "said"),
    [
        ("w 64x64\nnone (0, 8)\nscale ()\n", ("--backward-ms", "9"), ("2 gradients", "no elements: none.")),
        (
            20 * "t{} 64x64\n",
            (),
            ("Advice: none.", "sees no computation", "one buffer No ready"),
        ),
        ("a 16MiB\nb 16MiB\n", (), ("packing them costs more", "(the largest is 16MiB)")),
    ],
    ids=["of no elements", "without ready times", "too large for one buffer"],
)
def test_bucket_says_what_is_unusual(
    call: Call, root: Path, sizes: str, options: tuple[str, ...], said: tuple[str, ...]
) -> None:
    (root / "some.txt").write_text(sizes.format(*range(20)))
    words = call("bucket", "--sizes", f"{root}/some.txt", *options).words
    assert all(part in words for part in said), words


def test_bucket_in_json_has_no_rule_that_ends_earlier_than_the_best(call: Call, root: Path) -> None:
    done = call("bucket", "--sizes", f"{root}/sizes.txt", "--backward-ms", "40", "--json")
    answer: dict[str, Any] = json.loads(done.out)
    assert answer["best"]["end_us"] <= min(plan["end_us"] for plan in answer["others"]) * (1 + 1e-8)
    assert answer["last_ready_us"] == pytest.approx(40e3) and answer["ready_times"]
    assert len(answer["bucket_cap_mb_list"]) == len(answer["best"]["buckets"])
    names = [name for b in answer["best"]["buckets"] for name in b["tensors"]]
    assert names[0] == "head" and sorted(names) == sorted(
        line.split()[0] for line in (root / "sizes.txt").read_text().splitlines()
    )


def test_bucket_takes_measured_ready_times(call: Call, root: Path) -> None:
    (root / "ready.csv").write_text("tensor,ready_ms\nhead,30\nbody,10\n")
    (root / "two.json").write_text('{"head": [64], "body": [32, 2]}')
    done = call("bucket", "--sizes", f"{root}/two.json", "--ready", f"{root}/ready.csv", "--json")
    answer = json.loads(done.out)
    assert [t for b in answer["best"]["buckets"] for t in b["tensors"]] == ["body", "head"]
    assert answer["last_ready_us"] == 30e3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--sizes", "nowhere.csv"), "no such file; accepted"),
        (("--sizes", "{root}/sizes.txt", "--ready", "{root}/sizes.txt"), "embedding: ready_ms must"),
        (("--sizes", "{root}/sizes.txt", "--backward-ms", "-3"), "above 0 (got -3 ms)"),
        (("--sizes", "{root}/sizes.txt", "--backward-ms", "nan"), "must take a time above 0"),
    ],
)
def test_bucket_refuses_wrong_input_in_one_message(
    call: Call, root: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = call("bucket", *(a.format(root=root) for a in arguments))
    assert done.code == 2 and message in done.err and len(done.err.strip().splitlines()) == 1
