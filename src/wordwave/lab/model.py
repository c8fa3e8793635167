"""The causal Transformer of the suite of encodings, its training sequences and its tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave.embedding import build
from wordwave.errors import WordwaveError
from wordwave.lab.sequences import Batch, SequenceTask
from wordwave.lab.suite import (
    HIGHEST,
    LONGEST_TRAINING,
    SuiteBudget,
    embedding_config,
    encoding_class,
)
from wordwave.layers import FeedForward, LayerNorm, MultiHeadAttention, TransformerLayer, n_parts
from wordwave.layers.weight import Weight
from wordwave.models.utils import count_parameters, eval_mode
from wordwave.positions import random_positions
from wordwave.tasks.classification import NO_TARGET
from wordwave.training.loop import Positions

N_LENGTHS = 32
"""Different lengths of a test on a range of them."""


class CausalTransformer(nn.Module):
    """Word vectors → pre-norm layers that attend to earlier tokens → logits of each token.

    Args:
        name: the position encoding, see `encoding_class`.
        n_words, n_classes: sizes of the vocabulary, without the start token, and of the output.
        feed_forward_dim: inner width of the feed-forward layers.
    """

    def __init__(
        self, name: str, budget: SuiteBudget, n_words: int, n_classes: int, feed_forward_dim: int
    ) -> None:
        super().__init__()
        config = embedding_config(name)
        field, dim = config.field, budget.dim
        if field == "complex":  # a complex weight is two numbers
            dim = round(dim / 2**0.5 / budget.n_heads) * budget.n_heads
        self.clamps = name == "pe"
        self.embedding = build(
            config, n_words + 1, dim, max_length=LONGEST_TRAINING, padding_idx=None
        )
        self.layers = nn.ModuleList(
            TransformerLayer(
                MultiHeadAttention(
                    dim,
                    budget.n_heads,
                    score="real",
                    position=encoding_class(name),
                    field=field,
                ),
                FeedForward(dim, feed_forward_dim, field=field),
            )
            for _ in range(budget.n_layers)
        )
        self.norm = LayerNorm(dim, field=field)
        self.head = nn.Linear(n_parts(field) * dim, n_classes)

    def forward(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        """Shape: ids (B, L), positions (B, L) or None for 1 … L -> (B, L, n_classes)"""
        if self.clamps:  # positions that were never trained are taken for the last one that was
            positions = torch.arange(1, ids.shape[1] + 1, device=ids.device)
            positions = positions.clamp(max=LONGEST_TRAINING)
        x = self.embedding(ids, positions)
        for layer in self.layers:
            x, _ = layer(x, causal=True, positions=positions)
        return self.head(self.norm(x))


class OneDNNProduct(torch.autograd.Function):
    """`F.linear` by oneDNN, forward and backward.

    torch's default in float32, MKL, has no AVX-512 kernels for AMD processors; oneDNN's take half
    the time there, and the same on others.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Shape: x (..., in), weight (out, in), bias (out,) -> (..., out)"""
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        return _onednn(x, weight, bias)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None]:
        x, weight = ctx.saved_tensors
        rows = grad.flatten(0, -2)
        of_x = _onednn(grad, weight.T) if ctx.needs_input_grad[0] else None
        of_weight = _onednn(rows.T, x.flatten(0, -2).T)
        return of_x, of_weight, rows.sum(0) if ctx.has_bias else None


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    y: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return y


def use_onednn(model: nn.Module) -> None:
    """Multiply by oneDNN in all linear layers over float32 weights, where torch is built with it.

    Results differ by rounding.
    """
    if not torch.backends.mkldnn.is_available():
        return
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return
    for module in model.modules():
        if isinstance(module, Weight) and module.a.dtype == torch.float32:
            module.product = OneDNNProduct.apply


def matched_model(name: str, budget: SuiteBudget, task: SequenceTask) -> CausalTransformer:
    """A model whose feed-forward width makes up for what its encoding adds or saves."""
    sizes = (task.n_words, task.n_classes)
    reference = count_parameters(CausalTransformer("rope", budget, *sizes, 4 * budget.dim))
    narrow, wide = (
        count_parameters(CausalTransformer(name, budget, *sizes, width)) for width in (1, 2)
    )
    width = max(round(1 + (reference - narrow) / (wide - narrow)), 1)
    model = CausalTransformer(name, budget, *sizes, width)
    found = count_parameters(model)
    if abs(found - reference) > 0.02 * reference:
        raise WordwaveError(
            f"encoding {name!r} has so many parameters that a model has {found:,}, not within 2% "
            f"of {reference:,}"
        )
    return model


@dataclass(frozen=True)
class Curriculum:
    """Fresh sequences for each step, whose longest length grows over the first half of the steps.

    All sequences of a batch have one length, so nothing is padded.
    """

    task: SequenceTask
    budget: SuiteBudget
    seed: int

    def batches(self, size: int, generator: torch.Generator) -> list[Tensor]:
        return [torch.arange(size) + step * size for step in range(self.budget.steps)]

    def draw(self, step: int) -> Batch:
        """The batch of a step."""
        generator = torch.Generator().manual_seed((1 + self.seed) * 1_000_003 + step)
        shortest = self.budget.shortest
        grown = min(2 * step / self.budget.steps, 1.0) * (LONGEST_TRAINING - shortest)
        length = int(torch.randint(shortest, shortest + int(grown) + 1, (), generator=generator))
        return self.task.sequences(self.budget.batch_size, length, generator)

    def loss(self, model: nn.Module, rows: Tensor, positions: Positions) -> tuple[Tensor, int, int]:
        batch = self.draw(int(rows[0]) // self.budget.batch_size)
        drawn = positions(batch.ids >= 0)
        logits = model(batch.ids, drawn).flatten(0, 1)
        total = F.cross_entropy(
            logits, batch.targets.flatten(), ignore_index=NO_TARGET, reduction="sum"
        )
        return total, int((batch.targets != NO_TARGET).sum()), batch.ids.numel()

    def score(self, model: nn.Module) -> dict[str, float]:
        return {}


def evaluate(
    model: nn.Module,
    task: SequenceTask,
    n: int,
    lengths: tuple[int, int],
    seed: int,
    is_random: bool = False,
) -> tuple[float, float]:
    """The fraction of answers that are right, and of their tokens, on n sequences."""
    generator = torch.Generator().manual_seed(2**40 + 7919 * seed + lengths[1])
    n_right = n_tokens_right = n_tokens = done = 0
    (low, high), size = lengths, min(n, max(2**17 // lengths[1] ** 2, 2), 64)
    if low < high:  # all lengths alike
        size = min(size, max(n // N_LENGTHS, 2))
    with eval_mode(model):
        while done < n:
            length = low + round((high - low) * done / max(n - size, 1))
            ids, targets, scored = task.sequences(min(size, n - done), length, generator, True)
            positions = None
            if is_random:
                positions = random_positions(ids >= 0, HIGHEST, generator)
            hits = model(ids, positions).argmax(-1) == targets
            n_right += int((hits | ~scored).all(1).sum())
            n_tokens_right += int((hits & scored).sum())
            n_tokens, done = n_tokens + int(scored.sum()), done + len(ids)
    return n_right / done, n_tokens_right / n_tokens


def saved_megabytes(model: nn.Module, curriculum: Curriculum) -> float:
    """What one training step on sequences of 40 tokens keeps for its backward pass."""
    seen: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    generator = torch.Generator().manual_seed(0)
    size = curriculum.budget.batch_size
    batch = curriculum.task.sequences(size, LONGEST_TRAINING, generator)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(batch.ids)
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    return sum(n for pointer, n in seen.items() if pointer not in weights) / 2**20
