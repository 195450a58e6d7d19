"""A mixture of experts with one or more experts a rank: tokens go to their experts and back by all_to_all.

torchrun --nproc-per-node 2 moe.py
"""

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

STEPS = int(os.environ.get("STEPS", "60"))
DIM, EXPERTS, TOKENS, CLASSES = 64, 4, 256, 16


class Exchange(torch.autograd.Function):
    """all_to_all of rows; gradients go the way back."""

    @staticmethod
    def forward(ctx, x, give, take):
        ctx.give, ctx.take = give, take
        received = x.new_empty(sum(take), x.shape[1])
        dist.all_to_all_single(received, x, take, give)
        return received

    @staticmethod
    def backward(ctx, gradient):
        returned = gradient.new_empty(sum(ctx.give), gradient.shape[1])
        dist.all_to_all_single(returned, gradient.contiguous(), ctx.give, ctx.take)
        return returned, None, None


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(DIM, 2 * DIM), nn.Linear(2 * DIM, DIM)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class MoE(nn.Module):
    """A layer that sends each token to the expert that its router likes best."""

    def __init__(self):
        super().__init__()
        self.here = EXPERTS // dist.get_world_size()  # experts of this rank
        self.router = nn.Linear(DIM, EXPERTS)
        experts = [Expert() for _ in range(EXPERTS)]
        first = dist.get_rank() * self.here
        self.experts = nn.ModuleList(experts[first : first + self.here])

    def forward(self, x):
        weight, expert = self.router(x).softmax(-1).max(-1)
        order = expert.argsort(stable=True)
        counts = expert.bincount(minlength=EXPERTS)  # tokens of this rank for each expert
        received = torch.empty_like(counts)  # tokens of each rank for each expert of this rank
        dist.all_to_all_single(received, counts)
        received = received.view(-1, self.here)
        give = counts.view(-1, self.here).sum(1).tolist()
        take = received.sum(1).tolist()

        tokens = Exchange.apply(x[order], give, take)
        parts = list(tokens.split(received.flatten().tolist()))  # by rank, then by expert
        for index, layer in enumerate(self.experts):
            own = parts[index :: self.here]
            results = layer(torch.cat(own)).split([len(part) for part in own])
            parts[index :: self.here] = results
        returned = Exchange.apply(torch.cat(parts), take, give)

        return x + weight[:, None] * returned[order.argsort()]


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)

    model = nn.Sequential(nn.Linear(DIM, DIM), MoE(), nn.LayerNorm(DIM), nn.Linear(DIM, CLASSES))
    own = set(model[1].experts.parameters())  # the others are the same on all ranks
    shared = [parameter for parameter in model.parameters() if parameter not in own]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    generator = torch.Generator().manual_seed(1)
    centres = torch.randn(CLASSES, DIM, generator=generator)
    for step in range(STEPS):
        labels = torch.randint(CLASSES, (TOKENS,), generator=generator)
        inputs = centres[labels] + 2 * torch.randn(TOKENS, DIM, generator=generator)
        loss = F.cross_entropy(model(inputs.chunk(world_size)[rank]), labels.chunk(world_size)[rank])
        optimizer.zero_grad()
        loss.backward()
        for parameter in shared:
            dist.all_reduce(parameter.grad)
        for parameter in model.parameters():
            parameter.grad /= world_size
        optimizer.step()

        if step % 10 == 0:
            average = loss.detach().clone()
            dist.all_reduce(average)
            if rank == 0:
                print(f"step {step:3d} loss {average.item() / world_size:.4f}")

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
