"""A matrix product that runs on a CPU rank beside its calls, as a training step's computing does."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

WIDTH = 256  # of square float32 matrices: a product is short beside a sample


@contextmanager
def beside() -> Iterator[None]:
    """Multiply matrices in another thread of this rank, all the while.

    torch gives up the interpreter's lock in a product, so the rank's calls go on. On a device the product would
    take its turn in the stream of the calls: there it says nothing.
    """
    ended = threading.Event()
    x = torch.ones(WIDTH, WIDTH)

    def multiply() -> None:
        while not ended.is_set():
            torch.mm(x, x)

    thread = threading.Thread(target=multiply, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
