"""The training loop, readable from top to bottom."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from wordwave.errors import WordwaveError
from wordwave.tensor_files import check_finite, check_like
from wordwave.training.config import TrainingConfig
from wordwave.training.distributed import (
    OneProcess,
    Processes,
    average_rows,
    launched_processes,
    shared,
)
from wordwave.training.optim import (
    RowAdam,
    clip_gradients,
    lr_factor,
    optimizers_for,
    scale_gradients,
)
from wordwave.training.positions import random_positions, spread
from wordwave.training.precision import uses_bf16
from wordwave.training.task import Epoch, Progress, StatefulTask, Step, Task, read_progress


@dataclass
class Training:
    """A training under way. Between two reports of `run` it may be saved, and goes on from there
    exactly as if it had never stopped: whatever is drawn at random depends on the seed and the
    step alone."""

    model: nn.Module
    task: Task
    settings: TrainingConfig
    processes: Processes = field(default_factory=launched_processes)
    progress: Progress = field(default_factory=Progress)
    examples: str = ""
    """A fingerprint of what is learnt from; a state of other examples is refused."""

    def __post_init__(self) -> None:
        self.progress.examples = self.examples
        self.progress.n_processes = self.processes.num_processes
        self.optimizers = optimizers_for(self.model.to(self.processes.device), self.settings)
        self.copy = shared(self.model, self.processes)
        self.bf16 = uses_bf16(self.settings.precision, self.processes.device)
        self.best: dict[str, Tensor] = {}
        self._made_for = -1
        self._made: Sequence[Tensor] = ()
        per_epoch = -(-len(self._batches(self.progress.epoch)) // self.settings.grad_accumulation)
        self.n_steps = self.settings.epochs * per_epoch
        if self.settings.max_steps:
            self.n_steps = min(self.n_steps, self.settings.max_steps)

    def run(self) -> Iterator[Step | Epoch]:
        """Train to the end and leave the best weights in the model, telling of each step."""
        while True:
            if self._evaluation_is_due:
                yield self._evaluate()
            elif self.is_over:
                break
            else:
                yield self._step()
        if self.best:
            self.model.load_state_dict(self.best)

    @property
    def is_over(self) -> bool:
        """Whether all steps are done, or too many looks brought no better score."""
        progress, patience = self.progress, self.settings.patience
        out_of_patience = patience and self.best and progress.since_best >= patience
        return progress.step >= self.n_steps or bool(out_of_patience)

    @property
    def _evaluation_is_due(self) -> bool:
        progress, every = self.progress, self.settings.eval_every
        at_mark = progress.step % every == 0 if every else progress.batch == 0
        return progress.since_eval > 0 and (at_mark or progress.step >= self.n_steps)

    def _step(self) -> Step:
        processes, settings, progress = self.processes, self.settings, self.progress
        self.model.train()
        self._reseed(self._seed(progress.step, processes.process_index))
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        batches = self._epoch()
        turn = batches[progress.batch : progress.batch + settings.grad_accumulation]
        sums = torch.zeros(3, dtype=torch.float64)
        for rows in turn:
            total, n, n_words = self._loss(rows)
            sums += torch.tensor([float(total.detach()), n, n_words], dtype=torch.float64)
            with nullcontext() if rows is turn[-1] else processes.no_sync(self.copy):
                processes.backward(total)
        total_all, n_all, words_all = self._summed(sums)
        mean = total_all / n_all
        if not math.isfinite(mean):
            raise WordwaveError(
                f"the loss is {mean} at step {progress.step + 1}: lower learning_rate, "
                f"got {settings.learning_rate}"
            )
        average_rows(self.model, processes)
        # Gradients are of a sum, averaged over processes; of the mean over all answers is wanted.
        scale_gradients(self.model, processes.num_processes / n_all)
        self._add_penalty()
        clip_gradients(self.model, settings.max_grad_norm)
        self._set_rates()
        for optimizer in self.optimizers:
            optimizer.step()
        # torch's fused step does not say that it changed the weights.
        torch.autograd.graph.increment_version(list(self.model.parameters()))
        progress.step += 1
        progress.batch += len(turn)
        progress.n_words += int(words_all)
        progress.loss += mean
        progress.since_eval += 1
        if progress.batch == len(batches):
            progress.epoch, progress.batch = progress.epoch + 1, 0
        return Step(progress.step, self.n_steps, mean, int(words_all))

    def _epoch(self) -> Sequence[Tensor]:
        """The batches of the current epoch, made once."""
        if self._made_for != self.progress.epoch:
            epoch = self.progress.epoch
            self._made_for, self._made = epoch, self._batches(epoch)
        return self._made

    def _loss(self, rows: Tensor) -> tuple[Tensor, int, int]:
        """The summed loss, answers and words of this process's part of a batch."""
        processes = self.processes
        mine = rows[processes.process_index :: processes.num_processes]
        with torch.autocast(processes.device.type, torch.bfloat16, enabled=self.bf16):
            if len(mine):
                return self.task.loss(self.copy, mine, self._positions)
            # DDP waits for all processes: one without a row reads another's, which does not count.
            total, _, _ = self.task.loss(self.copy, rows[:1], self._positions)
            return 0.0 * total, 0, 0

    def _evaluate(self) -> Epoch:
        progress = self.progress
        scores = self.task.score(self.model)
        mean = progress.loss / progress.since_eval
        progress.loss, progress.since_eval = 0.0, 0
        found = list(scores.values())
        is_best = bool(found) and found > (progress.best_scores or [progress.best_score])
        is_better = bool(found) and found[0] > progress.best_score
        progress.since_best = 0 if is_better else progress.since_best + 1
        if is_best:
            progress.best_scores = found
            progress.best_epoch, progress.best_step = progress.epoch, progress.step
            self.best = {k: v.detach().clone() for k, v in self.model.state_dict().items()}
        return Epoch(progress.epoch, progress.step, mean, scores, is_best)

    def _batches(self, epoch: int) -> Sequence[Tensor]:
        generator = torch.Generator().manual_seed(self._seed(epoch, -1))
        return self.task.batches(self.settings.batch_size * self.processes.num_processes, generator)

    def _seed(self, *of: int) -> int:
        """A seed of its own for each training, epoch or step, and process."""
        value = self.settings.seed
        for number in of:
            value = (value * 6364136223846793005 + number + 1442695040888963407) % 2**64
        return value >> 32  # the high bits are well mixed, and torch uses no more than 32

    def _reseed(self, seed: int) -> None:
        torch.default_generator.manual_seed(seed)  # torch.manual_seed takes 20 times as long
        if self.processes.device.type != "cpu":
            torch.get_device_module(self.processes.device).manual_seed(seed)

    def _summed(self, figures: Tensor) -> list[float]:
        """The same figures over all processes. Shape: (n,) -> n numbers"""
        if not isinstance(self.processes, OneProcess):
            figures = self.processes.reduce(figures.to(self.processes.device))
        return figures.tolist()

    def _set_rates(self) -> None:
        settings = self.settings
        share = lr_factor(
            settings.schedule, self.progress.step, self.n_steps, settings.warmup_fraction
        )
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * share

    def _positions(self, mask: Tensor) -> Tensor | None:
        highest = self.settings.random_positions
        if not highest:
            return None
        reach = spread(self.progress.step / self.n_steps, mask.shape[1], highest)
        return random_positions(mask, reach)

    def _add_penalty(self) -> None:
        """Add to the gradient that of the price of amplitude, which rises from 0."""
        start = self.settings.penalty_start
        rising = max(self.progress.step / self.n_steps - start, 0.0) / (1 - start)
        if price := rising * self.settings.amplitude_penalty:
            meaning: Tensor = self.model.embedding.meaning  # type: ignore[union-attr, assignment]
            (price * meaning.abs().mean()).backward()

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All that is needed to go on: named tensors, and figures that JSON can hold."""
        tensors = {f"model.{k}": v for k, v in self.model.state_dict().items()}
        tensors |= {f"best.{k}": v for k, v in self.best.items()}
        for name, parameter in self.model.named_parameters():
            for optimizer in self.optimizers:
                moments = optimizer.state.get(parameter, {})
                tensors |= {f"optimizer.{key}.{name}": v for key, v in moments.items()}
        if isinstance(self.task, StatefulTask):
            tensors |= {f"task.{k}": v for k, v in self.task.state().items()}
        return tensors, asdict(self.progress)

    def check_state(self, tensors: Mapping[str, Tensor], progress: Any) -> Progress:
        """Refuse what `state` of such a training cannot have given; the numbers in the tensors are
        not looked at."""
        there, here = read_progress(progress), self.progress
        if there.examples != here.examples:
            raise WordwaveError("it has learnt from other examples")
        if there.n_processes != here.n_processes:
            raise WordwaveError(f"it needs {there.n_processes} processes, got {here.n_processes}")
        if there.step > self.n_steps:
            raise WordwaveError(f"progress: step must be at most {self.n_steps}, got {there.step}")
        n_batches = len(self._batches(there.epoch))
        if there.batch >= n_batches:
            raise WordwaveError(f"progress: batch must be below {n_batches}, got {there.batch}")
        of_task = _under("task.", tensors)
        if isinstance(self.task, StatefulTask):
            self.task.check_state(of_task, self.model)
        elif of_task:
            raise WordwaveError("the task has no state")
        weights = self.model.state_dict()
        wanted = {f"model.{name}": tensor for name, tensor in weights.items()}
        if there.best_scores:
            wanted |= {f"best.{name}": tensor for name, tensor in weights.items()}
        for _, _, moments in self._moments():
            if moments.keys() & tensors.keys():  # a parameter without a gradient has none
                wanted |= moments
        check_like({k: v for k, v in tensors.items() if not k.startswith("task.")}, wanted)
        return there

    def load_state(self, tensors: dict[str, Tensor], progress: dict[str, Any]) -> None:
        """Resume from where `state` was taken; what it cannot have given changes nothing."""
        there = self.check_state(tensors, progress)
        check_finite(tensors)
        for _, _, moments in self._moments():
            for name in moments.keys() & tensors.keys():
                if name.split(".")[1] not in ("exp_avg", "mean") and (tensors[name] < 0).any():
                    raise WordwaveError(f"the tensor {name!r} holds a number below 0")
        on_device = {name: tensor.to(self.processes.device) for name, tensor in tensors.items()}
        self.model.load_state_dict(_under("model.", on_device))
        self.best = _under("best.", on_device)
        for optimizer, parameter, moments in self._moments():
            for name in moments.keys() & tensors.keys():
                optimizer.state[parameter][name.split(".")[1]] = on_device[name]
        if isinstance(self.task, StatefulTask):
            self.task.load_state(_under("task.", on_device))
        self.progress = there

    def _moments(self) -> Iterator[tuple[Optimizer, nn.Parameter, dict[str, Tensor]]]:
        """Of each trained parameter its optimizer, and tensors like those kept of it."""
        names = {parameter: name for name, parameter in self.model.named_parameters()}
        for optimizer in self.optimizers:
            is_sparse = isinstance(optimizer, RowAdam)
            mean, square = ("mean", "square") if is_sparse else ("exp_avg", "exp_avg_sq")
            for parameter in (p for group in optimizer.param_groups for p in group["params"]):
                like = {"step": torch.zeros(()), mean: parameter, square: parameter}
                kept = {f"optimizer.{key}.{names[parameter]}": t for key, t in like.items()}
                yield optimizer, parameter, kept


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
