"""The operations that a workload says a step has are those that torch counts in it."""

import pytest
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from overlayccl_core.configuration import models
from overlayccl_core.training.pieces import pieces_of


@pytest.mark.parametrize("name", ["nano-dp", "nano-parallel", "nano-pp", "nano-moe", "nano-moe-v"])
def test_flops_of_a_replica_are_those_that_torch_counts(name: str) -> None:
    model = models.load(name)
    cls = pieces_of(model)
    pieces = cls(model, cls.full_parameters(model, seed=1))
    batch = cls.batch(model, seed=1, step=0, replica=0)
    for parameter in pieces.parameters.values():
        parameter.requires_grad_()
    with (
        sdpa_kernel(SDPBackend.MATH),
        FlopCounterMode(display=False) as counter,
    ):  # of fused attention it counts none
        pieces.whole(batch).backward()
    replicas = len(set(model.replicas(4)))
    work = model.work(1, 4)
    assert work is not None
    heads = 4 if name == "nano-parallel" else 1  # tensor parallel ranks each compute the head
    head = 6 * model.batch * 64 * 256 * 128
    assert work.flops == (counter.get_total_flops() + (heads - 1) * head) * replicas
