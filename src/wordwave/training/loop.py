"""The training loop, from top to bottom, and the interface of what it trains."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from wordwave.errors import WordwaveError
from wordwave.progress import TRAINING, Stage
from wordwave.training.config import TrainingConfig
from wordwave.training.devices import (
    OneProcess,
    Processes,
    average_rows,
    launched_processes,
    prepare_model,
    uses_bf16,
)
from wordwave.training.optim import clip_gradients, lr_factor, optimizers_for, scale_gradients
from wordwave.training.positions import random_positions, spread

Positions = Callable[[Tensor], Tensor | None]
"""From a mask (B, L) of where words are to their positions (B, L), `None` for 1 … L."""


def in_order(mask: Tensor) -> None:
    """Positions 1 … L."""


class Task(Protocol):
    """What a model is trained for: batches, their loss, and metrics on the validation set."""

    def batches(self, size: int, generator: torch.Generator) -> Sequence[Tensor]:
        """The row numbers of each batch of one epoch."""

    def loss(self, model: nn.Module, rows: Tensor, positions: Positions) -> tuple[Tensor, int, int]:
        """The summed loss of some rows, the number of predictions it sums over, and of words."""

    def score(self, model: nn.Module) -> dict[str, float]:
        """Metrics on the validation set, higher is better. The first one selects the best weights,
        the next ones break ties. Empty without a validation set. A task with `keeps_last` has them
        for the user only: the last weights are kept."""


class FusedSteps(Protocol):
    """Loss, gradients and update of a model, in one go instead of by autograd and optimizers."""

    def run(
        self,
        batches: Sequence[Tensor],
        begin: Callable[[int], None],
        positions: Positions,
        max_norm: float,
    ) -> list[tuple[float, int, int]]:
        """A step on each of some batches, or on the first few, with their gradients' norm clipped.

        Args:
            begin: called with the number of a batch before anything is drawn for it; sets random
                seed and learning rates.

        Returns:
            Of each step, what `Task.loss` returns. A loss that is not finite is the last, and
            changes nothing.
        """


@runtime_checkable
class FusedTask(Protocol):
    """A task that knows a faster way to train some models."""

    def fused(self, model: nn.Module, optimizers: Sequence[Optimizer]) -> FusedSteps | None:
        """It, or `None` if this model is not one of them."""


@runtime_checkable
class StatefulTask(Protocol):
    """A task that carries state from batch to batch, such as the memory of a language model."""

    def state(self) -> dict[str, Tensor]:
        """The current state, to be saved in a checkpoint."""

    def check_state(self, state: Mapping[str, Tensor], model: nn.Module) -> None:
        """Raise if the names, dtypes or shapes are not those of a state of this task."""

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Resume from what `state` returned."""


@dataclass
class Progress:
    """How far a training has come; saved in checkpoints."""

    epoch: int = 0
    """Completed epochs."""
    batch: int = 0
    """Completed batches of the current epoch."""
    step: int = 0
    n_words: int = 0
    """Words processed so far."""
    loss: float = 0.0
    """Sum of the losses of the steps since the last evaluation."""
    since_eval: int = 0
    """Number of these steps."""
    seconds: float = 0.0
    """Their duration, as of the last checkpoint."""
    since_best: int = 0
    """Evaluations without a higher first metric."""
    best_scores: list[float] = field(default_factory=list)
    """Metrics of the best evaluation; empty before the first one."""
    best_epoch: int = 0
    best_step: int = 0
    examples: str = ""
    """Fingerprint of the training data."""
    n_processes: int = 1

    @property
    def best_score(self) -> float:
        """The highest value of the metric that selects."""
        return self.best_scores[0] if self.best_scores else -math.inf


@dataclass(frozen=True)
class Step:
    """Reported for each optimizer step. Steps that were taken at once are reported one after the
    other; the weights and `Progress` are then those after the last of them."""

    step: int
    n_steps: int
    n_epochs: int
    loss: float
    n_words: int


@dataclass(frozen=True)
class Epoch:
    """Reported after each evaluation: at the end of an epoch, or every `eval_every` steps."""

    epoch: int
    step: int
    loss: float
    scores: dict[str, float]
    is_best: bool


@dataclass
class Training:
    """A training in progress. It can be saved between any two reports of `run` and resumed to the
    same weights, bit for bit: random numbers depend on the seed and the step only."""

    model: nn.Module
    task: Task
    settings: TrainingConfig
    processes: Processes = field(default_factory=launched_processes)
    progress: Progress = field(default_factory=Progress)
    examples: str = ""
    """Fingerprint of the training data; checkpoints of other data are refused."""

    def __post_init__(self) -> None:
        self.progress.examples = self.examples
        self.progress.n_processes = self.processes.num_processes
        self.optimizers = optimizers_for(self.model.to(self.processes.device), self.settings)
        self.replica = prepare_model(self.model, self.processes)
        self.bf16 = uses_bf16(self.settings.precision, self.processes.device)
        self.best: dict[str, Tensor] = {}
        self._parameters = list(self.model.parameters())
        self._in_training_mode = False
        self.fused: FusedSteps | None = None
        is_plain = isinstance(self.processes, OneProcess) and self.settings.grad_accumulation == 1
        if is_plain and not self.settings.amplitude_penalty and isinstance(self.task, FusedTask):
            self.fused = self.task.fused(self.model, self.optimizers)
        self._epoch_batches: tuple[int, Sequence[Tensor]] = (-1, ())
        per_epoch = -(-len(self.batches(self.progress.epoch)) // self.settings.grad_accumulation)
        self.n_epochs = self.settings.n_epochs(per_epoch)
        self.n_steps = self.n_epochs * per_epoch
        if self.settings.max_steps:
            self.n_steps = min(self.n_steps, self.settings.max_steps)

    def run(self) -> Iterator[Step | Epoch]:
        """Train to the end, with a report after each step, and load the best weights."""
        stage = Stage(TRAINING)
        while True:
            if self._evaluation_is_due:
                yield self._evaluate()
            elif self.is_over:
                break
            else:
                yield from self._steps()
                stage.at(self.progress.step / self.n_steps)
        if self.best:
            self.model.load_state_dict(self.best)

    @property
    def is_over(self) -> bool:
        """Whether all steps are done, or patience is exhausted."""
        progress, patience = self.progress, self.settings.patience
        out_of_patience = patience and self.best and progress.since_best >= patience
        return progress.step >= self.n_steps or bool(out_of_patience)

    @property
    def _evaluation_is_due(self) -> bool:
        progress, every = self.progress, self.settings.eval_every
        at_mark = progress.step % every == 0 if every else progress.batch == 0
        return progress.since_eval > 0 and (at_mark or progress.step >= self.n_steps)

    def _steps(self) -> list[Step]:
        """The next step, or several at once, none of which crosses an evaluation."""
        processes, settings, progress = self.processes, self.settings, self.progress
        if not self._in_training_mode or not self.model.training:
            self._in_training_mode = bool(self.model.train())
        if self._epoch_batches[0] != progress.epoch:
            self._epoch_batches = progress.epoch, self.batches(progress.epoch)
        batches = self._epoch_batches[1]
        done: Sequence[tuple[float, float, float]]
        if self.fused is None:
            accumulated = batches[progress.batch : progress.batch + settings.grad_accumulation]
            self._begin(progress.step)
            done = [self._gradients(accumulated)]
        else:
            accumulated = batches[:1]
            most = self.n_steps - progress.step
            if every := settings.eval_every:
                most = min(most, every - progress.step % every)
            first = progress.step
            done = self.fused.run(
                batches[progress.batch : progress.batch + most],
                lambda ahead: self._begin(first + ahead),
                self._drawn,
                settings.max_grad_norm,
            )
        reports = []
        for total, n, n_words in done:
            mean = total / n
            if not math.isfinite(mean):
                raise WordwaveError(
                    f"the loss is {mean} at step {progress.step + 1}: lower learning_rate, "
                    f"got {settings.learning_rate}"
                )
            if self.fused is None:
                self._update(processes.num_processes / n)
            progress.step += 1
            progress.batch += len(accumulated)
            progress.n_words += int(n_words)
            progress.loss += mean
            progress.since_eval += 1
            reports.append(Step(progress.step, self.n_steps, self.n_epochs, mean, int(n_words)))
        # torch's fused step does not increment the version of the weights it changes.
        torch.autograd.graph.increment_version(self._parameters)
        if progress.batch == len(batches):
            progress.epoch, progress.batch = progress.epoch + 1, 0
        return reports

    def _begin(self, step: int) -> None:
        """Random seed and learning rates of a step."""
        processes, settings = self.processes, self.settings
        seed = self._seed(step, processes.process_index)
        torch.default_generator.manual_seed(seed)  # torch.manual_seed takes 20 times as long
        if processes.device.type != "cpu":
            torch.get_device_module(processes.device).manual_seed(seed)
        rate = lr_factor(settings.schedule, step, self.n_steps, settings.warmup_fraction)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * rate

    def _gradients(self, batches: Sequence[Tensor]) -> tuple[float, float, float]:
        """Summed loss, predictions and words of some batches, whose gradients are accumulated."""
        processes = self.processes
        for parameter in self._parameters:
            parameter.grad = None
        sums = torch.zeros(3, dtype=torch.float64)
        for rows in batches:
            total, n, n_words = self._loss(rows)
            sums += torch.tensor([float(total.detach()), n, n_words], dtype=torch.float64)
            with nullcontext() if rows is batches[-1] else processes.no_sync(self.replica):
                processes.backward(total)
        if not isinstance(processes, OneProcess):
            sums = processes.reduce(sums.to(processes.device))
        total_all, n_all, words_all = sums.tolist()
        return total_all, n_all, words_all

    def _update(self, factor: float) -> None:
        """One step of the optimizers. Gradients are those of a sum, averaged over processes; the
        factor makes them those of the mean loss."""
        average_rows(self.model, self.processes)
        if self.settings.amplitude_penalty:
            scale_gradients(self._parameters, factor)
            self._add_penalty()
            factor = 1.0
        clip_gradients(self._parameters, self.settings.max_grad_norm, factor=factor)
        for optimizer in self.optimizers:
            optimizer.step()

    @property
    def _drawn(self) -> Positions:
        return self._positions if self.settings.random_positions else in_order

    def _loss(self, rows: Tensor) -> tuple[Tensor, int, int]:
        """Summed loss, predictions and words of this process's part of a batch."""
        processes = self.processes
        mine = rows[processes.process_index :: processes.num_processes]
        positions = self._drawn
        with torch.autocast(processes.device.type, torch.bfloat16, enabled=self.bf16):
            if len(mine):
                return self.task.loss(self.replica, mine, positions)
            # DDP waits for all processes: one without a row computes another's, with weight 0.
            total, _, _ = self.task.loss(self.replica, rows[:1], positions)
            return 0.0 * total, 0, 0

    def _evaluate(self) -> Epoch:
        progress = self.progress
        scores = self.task.score(self.model)
        mean = progress.loss / progress.since_eval
        progress.loss, progress.since_eval = 0.0, 0
        found = list(scores.values())
        keeps_last = getattr(self.task, "keeps_last", False)
        is_best = bool(found) and (
            keeps_last or found > (progress.best_scores or [progress.best_score])
        )
        is_better = bool(found) and found[0] > progress.best_score
        progress.since_best = 0 if is_better else progress.since_best + 1
        if is_best:
            progress.best_scores = found
            progress.best_epoch, progress.best_step = progress.epoch, progress.step
            weights = self.model.state_dict()
            best = self.best or {k: torch.empty_like(v) for k, v in weights.items()}
            self.best = {}  # an interrupt must not leave the weights of two epochs
            for name, tensor in weights.items():
                best[name].copy_(tensor)
            self.best = best
        return Epoch(progress.epoch, progress.step, mean, scores, is_best)

    def batches(self, epoch: int) -> Sequence[Tensor]:
        """The row numbers of each batch of an epoch, over all processes."""
        generator = torch.Generator().manual_seed(self._seed(epoch, -1))
        return self.task.batches(self.settings.batch_size * self.processes.num_processes, generator)

    def _seed(self, *of: int) -> int:
        """A seed of its own for each training, epoch or step, and process."""
        value = self.settings.seed
        for number in of:
            value = (value * 6364136223846793005 + number + 1442695040888963407) % 2**64
        return value >> 32  # the high bits are well mixed, and torch uses no more than 32

    def _positions(self, mask: Tensor) -> Tensor:
        highest = self.settings.random_positions
        reach = spread(self.progress.step / self.n_steps, mask.shape[1], highest)
        return random_positions(mask, reach)

    def _add_penalty(self) -> None:
        """Add the gradient of the amplitude penalty, whose weight rises from 0."""
        start = self.settings.penalty_start
        rising = max(self.progress.step / self.n_steps - start, 0.0) / (1 - start)
        if weight := rising * self.settings.amplitude_penalty:
            meaning: Tensor = self.model.embedding.vectors  # type: ignore[union-attr, assignment]
            (weight * meaning.abs().mean()).backward()
