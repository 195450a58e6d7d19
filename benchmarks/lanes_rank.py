"""What ranks run for `python -m benchmarks lanes`: calls in flight in one process group, or in one each."""

import json
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
import torch.distributed as dist

ROUNDS = 100
KIB = 256  # elements of float32
LOADS = {  # name -> KiB of each call in flight, in the order in which they are issued
    "1 MiB, then 16 KiB": (1024, 16),
    "2 x 512 KiB": (512, 512),
    "3 x 512 KiB, then 16 KiB": (512, 512, 512, 16),
    "8 x 64 KiB": (64,) * 8,
}


def main(folder: Path) -> None:
    """Time every load with one, two and four lanes; write samples in s: until the last issued, until all."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    ranks = list(range(dist.get_world_size()))
    lanes = [dist.new_group(ranks) for _ in range(4)]
    arms = [(name, many) for name in LOADS for many in (1, 2, 4)]
    random = np.random.default_rng(0)  # the same order on all ranks
    samples: dict[str, list[tuple[float, float]]] = {f"{name}|{many}": [] for name, many in arms}
    for number in range(-3, ROUNDS):  # the first ones connect
        for index in random.permutation(len(arms)).tolist():
            name, many = arms[index]
            values = [torch.ones(kib * KIB) for kib in LOADS[name]]
            dist.barrier()
            begin = perf_counter()
            works = [
                dist.all_reduce(value, group=lanes[one % many], async_op=True)
                for one, value in enumerate(values)
            ]
            works[-1].wait()
            last = perf_counter()
            for work in works:
                work.wait()
            if number >= 0:
                samples[f"{name}|{many}"].append((last - begin, perf_counter() - begin))
    (folder / f"timed-{dist.get_rank()}.json").write_text(json.dumps(samples))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
