"""A convolutional network with DistributedDataParallel.

torchrun --nproc-per-node 2 ddp.py
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

STEPS = int(os.environ.get("STEPS", "60"))
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


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    torch.set_num_threads(1)

    data = dataset()
    sampler = DistributedSampler(data, num_replicas=world_size, rank=rank, shuffle=True)
    loader = DataLoader(data, batch_size=32 // world_size, sampler=sampler, drop_last=True)
    model = DistributedDataParallel(Net(), bucket_cap_mb=0.05)
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
