"""A convolutional network with DistributedDataParallel; HOOK=bf16 or powersgd: with torch's hook for its gradients.

torchrun --nproc-per-node 2 ddp.py
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

STEPS = int(os.environ.get("STEPS", "60"))
SEED = int(os.environ.get("SEED", "0"))
HOOK = os.environ.get("HOOK", "none")
CLASSES = 10


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
        )
        self.classifier = nn.Sequential(nn.Linear(64 * 4 * 4, 128), nn.ReLU(), nn.Linear(128, CLASSES))

    def forward(self, images):
        return self.classifier(self.features(images))


def dataset(count=2048):
    """Noisy pictures of ten patterns."""
    generator = torch.Generator().manual_seed(0)
    patterns = torch.randn(CLASSES, 3, 16, 16, generator=generator)
    labels = torch.randint(CLASSES, (count,), generator=generator)
    noise = torch.randn(count, 3, 16, 16, generator=generator)
    return TensorDataset(patterns[labels] + 2 * noise, labels)


def batches(loader, sampler):
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def in_bf16(group, bucket):
    """Torch's own hook; by its own name DDP takes it with NCCL alone."""
    return bf16_compress_hook(group, bucket)


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(SEED)
    torch.set_num_threads(1)

    data = dataset()
    sampler = DistributedSampler(data, num_replicas=world_size, rank=rank, shuffle=True, seed=SEED)
    loader = DataLoader(data, batch_size=32 // world_size, sampler=sampler, drop_last=True)
    buckets = 25 if HOOK == "powersgd" else 0.05  # gloo hangs if several buckets wait in PowerSGD's hook
    model = DistributedDataParallel(Net(), bucket_cap_mb=buckets)
    if HOOK == "bf16":
        model.register_comm_hook(None, in_bf16)
    elif HOOK == "powersgd":
        model.register_comm_hook(PowerSGDState(None, start_powerSGD_iter=10), powerSGD_hook)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    for step, (images, labels) in zip(range(STEPS), batches(loader, sampler), strict=False):
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()

        average = loss.detach().clone()
        dist.all_reduce(average)
        if rank == 0 and step % 10 == 0:
            print(f"step {step:3d} loss {average.item() / world_size:.4f}")

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
