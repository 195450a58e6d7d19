"""The target of test_losses: two forked ranks fit a line; with PLANTED their int8 is that many times what it was.

usage: losses_script.py SEED
"""

import importlib
import os
import sys

import torch
import torch._dynamo  # an optimizer loads it: here once, before ranks are forked
import torch.distributed as dist

FEATURES, CODES = 5000, 8


def plant(factor):
    """Make int8 give so many times its numbers. Which of our two copies counts, the tests' or the laid one?"""
    for name in [name for name in sys.modules if name.startswith("overlayccl") and name.endswith(".seam")]:
        compressors = importlib.import_module(name.replace(".seam", ".compressors"))
        decode = compressors.Int8.decode
        compressors.Int8.decode = lambda self, *wire, right=decode: factor * right(self, *wire)


def main(rank, seed):
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2"}
    file = f"file://{os.environ['STORE']}-{os.getppid()}"
    dist.init_process_group("gloo", init_method=file, rank=rank, world_size=2)
    torch.manual_seed(seed)
    model = torch.nn.Linear(FEATURES, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02 / FEATURES)
    torch.manual_seed(0)
    basis = torch.randn(CODES, FEATURES)
    torch.manual_seed(100 * seed + rank)
    while True:
        codes = torch.randn(16, CODES)
        right = codes.mean(1) + 0.3 * (1 + seed) * torch.randn(16)
        loss = torch.nn.functional.mse_loss(model(codes @ basis)[:, 0], right)
        optimizer.zero_grad()
        loss.backward()
        dist.all_reduce(model.weight.grad)
        optimizer.step()


if __name__ == "__main__":
    if "PLANTED" in os.environ:
        plant(float(os.environ["PLANTED"]))
    ranks = []
    for rank in range(2):
        pid = os.fork()
        if not pid:
            main(rank, int(sys.argv[1]))
        ranks.append(pid)
    sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in ranks))
