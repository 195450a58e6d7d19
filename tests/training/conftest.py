"""Tensors of these tests are small: threads of torch would only keep other workers from their core."""

import torch

torch.set_num_threads(1)
