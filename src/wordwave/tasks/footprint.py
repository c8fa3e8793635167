"""What a training will need in memory, worked out from shapes before anything is made."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from wordwave.memory import check_memory

BYTES_PER_CONFUSION = 32
"""A matrix of classes, the same as lists, and once more to be written."""
BYTES_PER_LOGIT = 16
"""Of a batch: logits, their probabilities and gradients, in float32."""


def check_training_fits(
    build: Callable[[], nn.Module], remedy: str, *, row_sparse: bool, besides: int = 0
) -> None:
    """Refuse a model that cannot be trained here, with what it would need.

    Args:
        build: makes the model; called where tensors have shapes and no memory.
        remedy: what makes it smaller.
        row_sparse: the tables of the embedding have no dense gradients.
        besides: bytes that are needed besides the model.
    """
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        model = build()
    needed = besides
    for name, weight in model.named_parameters():
        copies = 4  # itself, two moments of the optimiser and the best so far
        if not (row_sparse and name.startswith("embedding.")):
            copies += 1  # its gradient
        needed += copies * weight.numel() * weight.element_size()
    check_memory(needed, "training this model", remedy)


def confusion_bytes(n_classes: int) -> int:
    """Of the table of who is taken for whom."""
    return BYTES_PER_CONFUSION * n_classes**2
