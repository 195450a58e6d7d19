"""A model whose step is small enough for ranks of tests, and its tokens."""

import torch

from overlayccl_core.training.segments import Tensor
from overlayccl_core.workloads.llama import Model, Parallelism

MODEL = Model(
    name="tiny", workload="llama", parallelism=Parallelism.TENSOR, width=8, hidden=16, layers=1, heads=4,
    sequence=4, batch=1, vocabulary=256, microbatches=(1,), loss_microbatches=1,
).model_copy(update={"vocabulary": 16})  # fmt: skip  # its tokens are no bytes; a small head hides no sums


def tokens(microbatches: int, replicas: int) -> list[list[Tensor]]:
    """[replica][microbatch]: int64[1, sequence + 1]."""
    random = torch.Generator().manual_seed(2)
    shape = (1, MODEL.sequence + 1)
    return [
        [torch.randint(MODEL.vocabulary, shape, generator=random) for _ in range(microbatches)]
        for _ in range(replicas)
    ]
