"""A tensor-parallel MLP that calls its sums through a deployed module. Start it beside tp_mlp.py:

torchrun --nproc-per-node 4 own_training.py
"""

import torch
import torch.distributed as dist
import tp_mlp  # results/<deployment>/deploy/tp_mlp.py: copy it beside this file
from torch.nn.functional import rms_norm, silu

dist.init_process_group("gloo")
entry_sums = tp_mlp.connect("tp_mlp/n4-m4-l8-64KiB-entry-f32")  # sums gradients, in the backward pass
sums = tp_mlp.connect("tp_mlp/n4-m4-l8-64KiB-f32")  # sums activations, in the forward pass
torch.manual_seed(dist.get_rank())  # every rank holds its own part of the weights
up = torch.nn.ModuleList(torch.nn.Linear(128, 384 // 4, bias=False) for _ in range(8))
down = torch.nn.ModuleList(torch.nn.Linear(384 // 4, 128, bias=False) for _ in range(8))
optimizer = torch.optim.AdamW([*up.parameters(), *down.parameters()], lr=1e-3)
torch.manual_seed(0)  # all ranks see the same 4 microbatches
inputs, targets = torch.randn(2, 4, 2, 64, 128)
for step in range(10):
    xs = list(inputs)
    for layer in range(8):
        hs = entry_sums.group(layer)([rms_norm(x, (128,)) for x in xs])
        parts = [down[layer](silu(up[layer](h))) for h in hs]
        xs = [x + total for x, total in zip(xs, sums.group(layer)(parts), strict=True)]
    loss = (torch.stack(xs) - targets).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if dist.get_rank() == 0:
        print(
            f"step {step}: loss {loss.item():.4f}, sums {sums.stamp()['calls']} {entry_sums.stamp()['calls']}"
        )
dist.destroy_process_group()
