"""A small transformer with FSDP2 (fully_shard): parameters, gradients and optimizer states are sharded.

torchrun --nproc-per-node 2 fsdp2.py
"""

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.distributed.fsdp import fully_shard

STEPS = int(os.environ.get("STEPS", "60"))
VOCAB, DIM, HEADS, LAYERS, BATCH, SEQ = 64, 64, 4, 3, 8, 32


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.proj = nn.Linear(DIM, DIM, bias=False)
        self.norm2 = nn.LayerNorm(DIM)
        self.up = nn.Linear(DIM, 4 * DIM, bias=False)
        self.down = nn.Linear(4 * DIM, DIM, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(heads.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def batch(generator):
    """Sequences in which each token follows from the one before."""
    tokens = torch.randint(VOCAB, (BATCH, 1), generator=generator)
    for _ in range(SEQ):
        tokens = torch.cat([tokens, (5 * tokens[:, -1:] + 7) % VOCAB], dim=1)
    return tokens


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)

    model = Transformer()
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    generator = torch.Generator().manual_seed(1)
    for step in range(STEPS):
        tokens = batch(generator).chunk(world_size)[rank]
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        optimizer.zero_grad()

        if step % 10 == 0:
            average = loss.detach().clone()
            dist.all_reduce(average)
            if rank == 0:
                print(f"step {step:3d} loss {average.item() / world_size:.4f}")

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
