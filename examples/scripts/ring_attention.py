"""A transformer over a long sequence in parts, one a rank: keys and values go around the ring of ranks.

torchrun --nproc-per-node 2 ring_attention.py
"""

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

STEPS = int(os.environ.get("STEPS", "60"))
VOCAB, DIM, HEADS, LAYERS, BATCH, SEQ = 16, 64, 4, 2, 8, 64


def to_next_rank(tensor):
    """Give a tensor to the next rank, and return the one of the rank before."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if world_size == 1:
        return tensor
    received = torch.empty_like(tensor)
    send = dist.P2POp(dist.isend, tensor.contiguous(), (rank + 1) % world_size)
    recv = dist.P2POp(dist.irecv, received, (rank - 1) % world_size)
    for work in dist.batch_isend_irecv([send, recv]):
        work.wait()
    return received


class RingAttention(torch.autograd.Function):
    """Attention of this rank's queries to all keys, without a mask."""

    @staticmethod
    def forward(ctx, q, k, v):
        kv = torch.stack([k, v])
        out, lse = torch.zeros_like(q), torch.full((*q.shape[:-1], 1), float("-inf"))
        for step in range(dist.get_world_size()):
            scores = q @ kv[0].transpose(-1, -2) / q.shape[-1] ** 0.5
            part_lse = scores.logsumexp(-1, keepdim=True)
            new_lse = torch.logaddexp(lse, part_lse)
            out = (lse - new_lse).exp() * out + (scores - new_lse).exp() @ kv[1]
            lse = new_lse
            if step < dist.get_world_size() - 1:
                kv = to_next_rank(kv)
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, d_out):
        q, k, v, out, lse = ctx.saved_tensors
        kv, d_q, scale = torch.stack([k, v]), torch.zeros_like(q), q.shape[-1] ** -0.5
        d_kv = torch.zeros_like(kv)
        delta = (d_out * out).sum(-1, keepdim=True)
        for step in range(dist.get_world_size()):
            p = (q @ kv[0].transpose(-1, -2) * scale - lse).exp()
            d_scores = p * (d_out @ kv[1].transpose(-1, -2) - delta) * scale
            d_q = d_q + d_scores @ kv[0]
            d_kv = d_kv + torch.stack([d_scores.transpose(-1, -2) @ q, p.transpose(-1, -2) @ d_out])
            if step < dist.get_world_size() - 1:
                kv = to_next_rank(kv)
            d_kv = to_next_rank(d_kv)  # after the last step: home
        return d_q, d_kv[0], d_kv[1]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.proj = nn.Linear(DIM, 3 * DIM, bias=False), nn.Linear(DIM, DIM, bias=False)
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.proj(RingAttention.apply(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)

    embed, head = nn.Embedding(VOCAB, DIM), nn.Linear(DIM, VOCAB)
    model = nn.Sequential(embed, *(Block() for _ in range(LAYERS)), nn.LayerNorm(DIM), head)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    generator = torch.Generator().manual_seed(1)
    for step in range(STEPS):
        common = torch.randint(VOCAB, (BATCH, 1), generator=generator)  # what each sequence has most of
        noise = torch.randint(VOCAB, (BATCH, SEQ), generator=generator)
        tokens = torch.where(torch.rand(BATCH, SEQ, generator=generator) < 0.3, common, noise)
        mine = tokens.chunk(world_size, dim=1)[rank]
        loss = F.cross_entropy(model(mine).flatten(0, 1), common.expand_as(mine).flatten())
        optimizer.zero_grad()
        loss.backward()
        gradients = [parameter.grad for parameter in model.parameters()]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        for gradient, total in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(total.view_as(gradient) / world_size)
        optimizer.step()
        if step % 10 == 0:
            average = loss.detach().clone()
            dist.all_reduce(average)
            if rank == 0:
                print(f"step {step:3d} loss {average.item() / world_size:.4f}")

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
