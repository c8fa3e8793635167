"""The training loop, readable from top to bottom."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave.text.batches import bucketed
from wordwave.training.positions import random_positions, spread
from wordwave.training.settings import TrainingSettings

NO_TARGET = -100


def train(
    model: nn.Module,
    ids: Tensor,
    targets: Tensor,
    settings: TrainingSettings,
    *,
    group: int = 1,
    on_epoch: Callable[[int, float], None] | None = None,
) -> None:
    """Train a classifier or tagger in place; the global random state is left as it was.

    Args:
        model: called as model(ids, positions), gives logits; its `embedding` has `meaning`.
        group: rows that stay together in a batch, 2 for minimal pairs.
        on_epoch: told the number of each finished epoch and its mean loss.

    Shape: ids (N, L) padded with 0, targets (N,) or (N, L) with -100 where nothing is asked
    """
    if getattr(model.embedding, "sparse", False):
        raise ValueError(
            "train() takes dense gradients; for sparse=True step with RowAdam yourself"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)  # dropout draws from the global state
        _run_epochs(model, ids, targets, settings, group, on_epoch)


def _run_epochs(
    model: nn.Module,
    ids: Tensor,
    targets: Tensor,
    settings: TrainingSettings,
    group: int,
    on_epoch: Callable[[int, float], None] | None,
) -> None:
    generator = torch.Generator().manual_seed(settings.seed)
    lengths = (ids != 0).sum(1)
    optimiser = optimiser_for(model, settings)
    steps_per_epoch = -(-(len(ids) // group) // max(settings.batch_size // group, 1))
    n_steps = settings.epochs * steps_per_epoch
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, one_cycle(n_steps, settings.warm_up))
    step = 0
    for epoch in range(settings.epochs):
        model.train()
        total = 0.0
        for rows in bucketed(lengths, settings.batch_size, generator=generator, group=group):
            width = int(lengths[rows].max())
            batch, wanted = ids[rows, :width], targets[rows]
            positions = None
            if settings.random_positions:
                reach = spread(step / n_steps, ids.shape[1], settings.random_positions, generator)
                positions = random_positions(batch != 0, reach, generator)
            logits = model(batch, positions)
            if wanted.dim() == 2:
                wanted = wanted[:, :width]
            loss = F.cross_entropy(logits.flatten(0, -2), wanted.flatten(), ignore_index=NO_TARGET)
            price = _rising(settings, step / n_steps) * settings.amplitude_penalty
            penalty = price * model.embedding.meaning.abs().mean() if price else 0.0  # type: ignore[union-attr, operator]
            optimiser.zero_grad(set_to_none=True)
            (loss + penalty).backward()
            nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
            optimiser.step()
            schedule.step()
            total += float(loss.detach())
            step += 1
        if on_epoch is not None:
            on_epoch(epoch + 1, total / steps_per_epoch)


def optimiser_for(model: nn.Module, settings: TrainingSettings) -> torch.optim.Optimizer:
    """Adam with a slower rate for frequencies and weight decay for all but the embedding."""
    frequencies, embedding, rest = [], [], []
    for name, parameter in model.named_parameters():
        if name.startswith("embedding.frequency"):
            frequencies.append(parameter)
        elif name.startswith("embedding."):
            embedding.append(parameter)
        else:
            rest.append(parameter)
    rate = settings.learning_rate
    groups = [
        {"params": rest, "lr": rate, "weight_decay": settings.weight_decay},
        {"params": embedding, "lr": rate},
        {"params": frequencies, "lr": rate * settings.frequency_rate},
    ]
    return torch.optim.AdamW([g for g in groups if g["params"]], weight_decay=0.0, fused=True)


def one_cycle(n_steps: int, warm_up: float) -> Callable[[int], float]:
    """The learning rate's share at each step: up evenly, then down evenly to almost 0."""
    rising = max(int(n_steps * warm_up), 1)

    def share(step: int) -> float:
        if step < rising:
            return (step + 1) / rising
        return max(1 - (step - rising) / max(n_steps - rising, 1), 1e-3)

    return share


def _rising(settings: TrainingSettings, progress: float) -> float:
    start = settings.penalty_start
    return max(progress - start, 0.0) / (1 - start)


@torch.no_grad()
def accuracy(model: nn.Module, ids: Tensor, targets: Tensor, *, batch_size: int = 256) -> float:
    """Share of right answers; a sequence is right where all of its answers are.

    Shape: ids (N, L) padded with 0, targets (N,) or (N, L) with -100 where nothing is asked
    """
    was_training = model.training
    model.eval()
    lengths = (ids != 0).sum(1)
    right = 0
    for rows in lengths.argsort().split(batch_size):
        width = int(lengths[rows].max())
        said = model(ids[rows, :width]).argmax(-1)
        wanted = targets[rows] if targets.dim() == 1 else targets[rows, :width]
        hits = (said == wanted) | (wanted == NO_TARGET)
        right += int(hits.sum() if hits.dim() == 1 else hits.all(1).sum())
    model.train(was_training)
    return right / len(ids)
