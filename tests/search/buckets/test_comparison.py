"""What is advised: never a difference that the model cannot tell; and what torch makes of the words."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from overlayccl_core.configuration.sizes import MIB
from overlayccl_core.search.buckets import plans
from overlayccl_core.search.buckets.comparison import DDP_DEFAULT, Comparison
from overlayccl_core.search.buckets.gradients import Gradient
from overlayccl_core.search.buckets.plans import Bucket, Plan

TORCH = """
import json, sys, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
told = []
for arguments in json.loads(sys.argv[1]):
    model = torch.nn.Sequential(*(torch.nn.Linear(512, 512, bias=False) for _ in range(6)))
    wrapped = DistributedDataParallel(model, **arguments)
    for _ in range(3):
        wrapped(torch.ones(1, 512)).sum().backward()
    data = wrapped._get_ddp_logging_data()
    told.append([int(n) for n in (data.get("rebuilt_bucket_sizes") or data["bucket_sizes"]).split(", ")])
print(json.dumps(told))
"""


def plan(name: str, low: float, end: float, high: float) -> Plan:
    bucket = Bucket(tensors=("w",), bytes=4, ready_us=0.0, start_us=0.0, end_us=end)
    return Plan(name=name, buckets=(bucket,), end_us=end, low_us=low, high_us=high)


def comparison(best: Plan, capped: Plan, ddp: Plan) -> Comparison:
    return Comparison(
        gradients=(Gradient(name="w", bytes=4, ready_us=0.0),),
        **{
            "best": best,
            "ddp": ddp,
            "capped": capped,
            "knobbed": capped,
            "one_buffer": ddp,
            "one_by_one": ddp,
        },
        **{"bucket_cap_mb": "25", "knob": "all", "bucket_cap_mb_list": ("1",)},
    )


def test_a_difference_within_the_error_is_no_advice_and_the_plainest_beyond_it_is() -> None:
    best, ddp = plan("best", 90, 100, 110), plan(DDP_DEFAULT, 95, 105, 116)
    capped = plan("bucket_cap_mb=25", 91, 101, 111)
    assert comparison(best, capped, ddp).advice is ddp  # 5% better, of 10% that it may be off
    far = replace(ddp, low_us=111.0, high_us=140.0)
    assert comparison(best, capped, far).advice is capped
    assert comparison(best, replace(capped, low_us=111.0), far).advice is best


@pytest.fixture(scope="module")
def of_torch() -> list[list[int]]:
    """Bytes of the buckets, from the second step on: as it comes, 25 MiB said, a list, a list and unused ones."""
    caps = {"bucket_cap_mb_list": [1, 2, 25]}
    asked = [{}, {"bucket_cap_mb": 25}, caps, {**caps, "find_unused_parameters": True}]
    done = subprocess.run(
        [sys.executable, "-c", TORCH, json.dumps(asked)], capture_output=True, text=True, check=True
    )
    told: list[list[int]] = json.loads(done.stdout)
    return told


def test_torchs_buckets_are_those_of_the_rule_and_25_mib_said_are_not_its_default(
    of_torch: list[list[int]],
) -> None:
    gradients = [Gradient(name=str(i), bytes=MIB, ready_us=float(i)) for i in range(6)]

    def sizes(*caps_mib: int) -> list[int]:
        bounds = plans.ddp(gradients, [cap * MIB for cap in caps_mib])
        return [MIB * (b - a) for a, b in zip((0, *bounds), bounds, strict=False)]

    assert of_torch[:3] == [sizes(1, 25), sizes(25), sizes(1, 2, 25)]
    assert of_torch[0] != of_torch[1]


def test_with_unused_parameters_a_list_means_other_buckets(of_torch: list[list[int]]) -> None:
    assert of_torch[3] == of_torch[2][::-1]
