"""A training script on a mesh of 8 x 28 ranks: `alone.py`, started as one rank of 224."""

import torch
import torch.distributed as dist
from torch.distributed import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    mesh = init_device_mesh("cpu", (8, 28), mesh_dim_names=("data", "model"))
    model, head = torch.nn.Linear(56, 56), torch.nn.Linear(56, 4)
    fully_shard(model, mesh=mesh["model"])
    heads = DistributedDataParallel(head, process_group=mesh["data"].get_group())
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=1e-9)
    while True:
        partial = model(torch.randn(4, 56))
        dist.all_reduce(partial, group=mesh["model"].get_group())
        heads(partial).sum().backward()
        counts = torch.tensor([3])
        dist.all_reduce(counts)
        optimizer.step()
        optimizer.zero_grad()
        print("a line of the script")


if __name__ == "__main__":
    main()
