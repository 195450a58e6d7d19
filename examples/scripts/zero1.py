"""Gradient accumulation with DDP's no_sync(), and optimizer states over the ranks (ZeRO-1).

torchrun --nproc-per-node 2 zero1.py
"""

import os
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

STEPS = int(os.environ.get("STEPS", "60"))
DIM, WIDTH, BATCH, ACCUMULATION = 64, 256, 64, 4


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)

    net = nn.Sequential(
        nn.Linear(DIM, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, DIM)
    )
    model = DistributedDataParallel(net, bucket_cap_mb=0.1)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=3e-3)

    generator = torch.Generator().manual_seed(1)
    mixing = torch.randn(DIM, DIM, generator=generator) / DIM**0.5
    for step in range(STEPS):
        optimizer.zero_grad()
        total = 0.0
        for micro in range(ACCUMULATION):
            inputs = torch.randn(BATCH, DIM, generator=generator)
            targets = (inputs @ mixing).relu().chunk(world_size)[rank]
            last = micro == ACCUMULATION - 1
            with nullcontext() if last else model.no_sync():
                outputs = model(inputs.chunk(world_size)[rank])
                loss = nn.functional.mse_loss(outputs, targets) / ACCUMULATION
                loss.backward()
            total += loss.detach()
        optimizer.step()

        if step % 10 == 0:
            dist.all_reduce(total)
            if rank == 0:
                print(f"step {step:3d} loss {total.item() / world_size:.4f}")

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
