"""A transformer with Megatron-style tensor parallelism by hand: column- and row-parallel layers, f and g between.

torchrun --nproc-per-node 2 tensor_parallel.py
"""

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

STEPS = int(os.environ.get("STEPS", "60"))
VOCAB, DIM, HEADS, LAYERS, BATCH, SEQ = 64, 64, 4, 2, 8, 32


class CopyToRanks(torch.autograd.Function):
    """Megatron's f: nothing in the forward pass, a sum of the gradients in the backward pass."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient


class SumOverRanks(torch.autograd.Function):
    """Megatron's g: a sum in the forward pass, nothing in the backward pass."""

    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def column_parallel(full):
    """The rows of the weight that compute this rank's part of the output."""
    return nn.Parameter(full.chunk(dist.get_world_size(), dim=0)[dist.get_rank()].clone())


def row_parallel(full):
    """The columns of the weight for this rank's part of the input."""
    return nn.Parameter(full.chunk(dist.get_world_size(), dim=1)[dist.get_rank()].clone())


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.q, self.k, self.v = (column_parallel(torch.randn(DIM, DIM) / DIM**0.5) for _ in range(3))
        self.proj = row_parallel(torch.randn(DIM, DIM) / DIM**0.5)
        self.up = column_parallel(torch.randn(4 * DIM, DIM) / DIM**0.5)
        self.down = row_parallel(torch.randn(DIM, 4 * DIM) / (4 * DIM) ** 0.5)

    def attention(self, x):
        q, k, v = (
            (x @ w.T).unflatten(-1, (-1, DIM // HEADS)).transpose(1, 2) for w in (self.q, self.k, self.v)
        )
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return heads.transpose(1, 2).flatten(2) @ self.proj.T

    def mlp(self, x):
        return F.gelu(x @ self.up.T) @ self.down.T

    def forward(self, x):
        x = x + SumOverRanks.apply(self.attention(CopyToRanks.apply(self.norm1(x))))
        return x + SumOverRanks.apply(self.mlp(CopyToRanks.apply(self.norm2(x))))


def batch(generator):
    """Sequences in which each token follows from the one before."""
    tokens = torch.randint(VOCAB, (BATCH, 1), generator=generator)
    for _ in range(SEQ):
        tokens = torch.cat([tokens, (5 * tokens[:, -1:] + 7) % VOCAB], dim=1)
    return tokens


def main():
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(0)  # the same full weights on all ranks, of which each takes its part

    embed, head = nn.Embedding(VOCAB, DIM), nn.Linear(DIM, VOCAB, bias=False)
    model = nn.Sequential(embed, *(Block() for _ in range(LAYERS)), nn.LayerNorm(DIM), head)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    generator = torch.Generator().manual_seed(1)
    for step in range(STEPS):
        tokens = batch(generator)
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0 and step % 10 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
