"""A deep network in pipeline stages, one a rank, with the 1F1B schedule of torch.distributed.pipelining.

torchrun --nproc-per-node 2 pipeline.py
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

STEPS = int(os.environ.get("STEPS", "60"))
DIM, LAYERS, BATCH, MICROBATCHES = 64, 4, 32, 4


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.up, self.down = nn.Linear(DIM, 2 * DIM), nn.Linear(2 * DIM, DIM)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)

    layers = [Layer() for _ in range(LAYERS)]
    per_stage = LAYERS // world_size
    stage_module = nn.Sequential(*layers[rank * per_stage : (rank + 1) * per_stage])
    stage = PipelineStage(stage_module, rank, world_size, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=MICROBATCHES, loss_fn=nn.MSELoss())
    optimizer = torch.optim.Adam(stage_module.parameters(), lr=1e-3)

    generator = torch.Generator().manual_seed(1)
    mixing = torch.randn(DIM, DIM, generator=generator) / DIM**0.5
    for step in range(STEPS):
        inputs = torch.randn(BATCH, DIM, generator=generator)
        targets = inputs @ mixing
        optimizer.zero_grad()
        losses = []
        if rank == 0 and rank == world_size - 1:
            schedule.step(inputs, target=targets, losses=losses)
        elif rank == 0:
            schedule.step(inputs)
        elif rank == world_size - 1:
            schedule.step(target=targets, losses=losses)
        else:
            schedule.step()
        optimizer.step()
        if rank == world_size - 1 and step % 10 == 0:
            print(f"step {step:3d} loss {torch.stack(losses).mean().item():.4f}")

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
