"""A training script that profiles itself and dumps its flight recorder: `profiled.py FOLDER`, by torchrun."""

import os
import sys

os.environ["TORCH_FR_BUFFER_SIZE"] = "2000"

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

FOLDER = sys.argv[1]


def main() -> None:
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(torch.nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_stack=True) as profiler:
        for _ in range(4):
            data = torch.ones(8)
            model(torch.randn(4, 64)).sum().backward()
            dist.all_gather([torch.empty(8) for _ in range(size)], data)
            dist.reduce_scatter_tensor(torch.empty(8 // size), data)
            dist.all_to_all_single(
                data, data.clone(), [3, 5] if rank == 0 else [5, 3], [3, 5] if rank == 0 else [5, 3]
            )
            if rank == 0:
                dist.send(data, 1)
            else:
                dist.recv(data, 0)
            dist.all_reduce(torch.ones(2, 3, dtype=torch.bfloat16))
            optimizer.step()
    profiler.export_chrome_trace(f"{FOLDER}/trace-{rank}.json")
    with open(f"{FOLDER}/dump-{rank}.pkl", "wb") as file:
        file.write(c._dump_fr_trace())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
