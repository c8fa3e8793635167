"""The suite of position encodings: causal Transformers that differ in their encoding alone.

A cell is a task, an encoding and a seed: a model of the same depth and within 2% of the same number
of parameters, trained on short sequences for the same steps, and tested up to length 2,000.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from wordwave.embedding.config import EMBEDDING_KINDS, IN_ATTENTION, EmbeddingConfig
from wordwave.errors import WordwaveError, unknown
from wordwave.grid import Count, Positive, Record, Share, fits, key_of
from wordwave.limits import check_limits
from wordwave.training.config import TrainingConfig

if TYPE_CHECKING:
    from wordwave.lab.sequences import SequenceTask
    from wordwave.positions import PositionEncoding

KEY = ("suite", "task", "encoding", "seed", "budget", "lengths", "data", "code")
"""What identifies a record; `code` is a fingerprint of an encoding of the user's own."""
SUITE = "encodings"

RANDOM = "+random"
"""The end of an encoding's name if its positions are randomised (Ruoss et al., 2023)."""
HIGHEST = 2048
"""Highest randomised position."""
ABSOLUTE = ("pe", "tpe", "complex-vanilla", "complex-order")
"""Encodings that act on word vectors, before the first layer."""
OWN = ("wave-attention", "wave-attention-frequencies", "token-clock")
"""Our own, which ran after all budgets were fixed."""
ENCODINGS = (*ABSOLUTE, "nope", *(kind for kind in IN_ATTENTION if kind not in ("nope", *OWN)))
RANDOMISED = tuple(f"{name}{RANDOM}" for name in ("tpe", "rope", "alibi", "pope"))
ALL_ENCODINGS = (*ENCODINGS, *RANDOMISED, *OWN)

Lengths = tuple[int, int]
LENGTHS: tuple[Lengths, ...] = ((8, 40), (80, 80), (200, 200), (500, 500), (1000, 1000))
LENGTHS += ((2000, 2000),)
"""Of the test sequences, in tokens: those of training first."""
QUICK_LENGTHS: tuple[Lengths, ...] = ((8, 40), (80, 80), (200, 200))
MAX_LENGTH = 2048
LONGEST_TRAINING = 40


@dataclass(frozen=True)
class SuiteBudget:
    """Sizes of model and training of a task, the same for every encoding."""

    steps: int
    """Optimizer steps."""
    shortest: int = 4
    """Length of the first training sequences, in tokens; the longest grows to 40 over the first
    half of the training."""
    dim: int = 64
    n_layers: int = 2
    n_heads: int = 4
    batch_size: int = 64
    learning_rate: float = 2e-3
    n_test: int = 512
    """Test sequences of training length; of length L, 40/L times as many, but at least 64."""

    def __post_init__(self) -> None:
        check_limits(self, {"steps": (1, 10**9), "n_test": (2, 10**9)})


BUDGETS: dict[str, SuiteBudget] = {
    "precedence": SuiteBudget(600),
    "copy": SuiteBudget(4000),
    "reverse": SuiteBudget(6000),
    "recall": SuiteBudget(3000, shortest=17),
    "index": SuiteBudget(3000),
    "indirect-index": SuiteBudget(20_000, shortest=6, n_layers=4),
    "flip-flop": SuiteBudget(2000),
    "parity": SuiteBudget(3000),
    "modular-arithmetic": SuiteBudget(6000),
    "needle": SuiteBudget(3000, shortest=20),
    "sort": SuiteBudget(4000),
    "selective-copy": SuiteBudget(3000, shortest=12),
    "swap-text": SuiteBudget(4000, shortest=10),
    "blimp": SuiteBudget(4000, shortest=10),
    "paws": SuiteBudget(4000, shortest=10),
}
CORE = tuple(BUDGETS)[:10]
"""The tasks of the suite; all others are opt-in."""
QUICK = ("flip-flop", "parity", "recall")
QUICK_SHARE = 1 / 4
"""Steps of `--quick`, as a fraction; enough for some encodings to solve its tasks."""
SEQUENCES_CHANGED = {"reverse": "distinct letters"}
"""How the sequences of a task differ from those of the first records, which are not reused."""
TEXT_TASKS = ("swap-text", "blimp", "paws")
"""Tasks on real text, see `wordwave.lab.texts`."""


@dataclass(frozen=True)
class SuiteCell:
    """One model to train and test."""

    task: str
    encoding: str
    """A name of `ALL_ENCODINGS`, any other embedding kind, or `module:Class`; with `+random`,
    positions are randomised."""
    seed: int


class _SuiteRecord(TypedDict):
    """The fields of a record that tables and figures need."""

    suite: Annotated[str, SUITE.__eq__]
    task: Annotated[str, BUDGETS.__contains__]
    encoding: Annotated[str, lambda name: re.fullmatch(r"[\w.:+-]{1,200}", name) is not None]
    seed: int
    budget: Annotated[dict[str, Any], lambda budget: fits(budget.get("steps"), Count)]
    accuracy: dict[str, Share]
    token_accuracy: dict[str, Share]
    parameters: Count
    ms_per_step: Positive
    megabytes: Positive


def is_record(record: Record) -> bool:
    """Whether a record has all fields that tables and figures need, with the right types."""
    return (
        fits(record, _SuiteRecord)
        and bool(record["accuracy"])
        and all(_is_range(name) for name in record["accuracy"])
        and set(record["accuracy"]) == set(record["token_accuracy"])
    )


def _is_range(text: str) -> bool:
    low, _, high = text.partition("-")
    return low.isdecimal() and high.isdecimal() and int(low) <= int(high) <= MAX_LENGTH


@dataclass(frozen=True)
class Suite:
    """The conditions that all cells share.

    Args:
        lengths: shortest and longest test sequence, in tokens, of each test set.
        steps: optimizer steps in place of those of the budgets.
        share: fraction of the steps of the budgets.
        text: a file of sentences for `swap-text`; by default Wikipedia's of the data home.
    """

    lengths: tuple[Lengths, ...] = LENGTHS
    steps: int | None = None
    share: float = 1.0
    text: Path | None = None

    def budget(self, task: str) -> SuiteBudget:
        budget = BUDGETS[task]
        steps = self.steps or max(round(budget.steps * self.share), 1)
        return SuiteBudget(**{**asdict(budget), "steps": steps})

    def key(self, cell: SuiteCell) -> Record:
        """The fields that identify a cell's record."""
        return {
            "suite": SUITE,
            **asdict(cell),
            "budget": asdict(self.budget(cell.task)),
            "lengths": [list(span) for span in self.lengths],
            "data": self._fingerprint(cell.task),
            "code": code_of(cell.encoding),
        }

    def ran(self, record: Record) -> bool:
        """Whether a record was made under these conditions, by any version of its encoding."""
        cell = SuiteCell(record["task"], "rope", 0)
        names = ("budget", "lengths", "data")
        return key_of(record, names) == key_of(self.key(cell), names)

    def _fingerprint(self, task: str) -> str | None:
        if task not in TEXT_TASKS:
            return SEQUENCES_CHANGED.get(task)
        from wordwave.lab.texts import fingerprint

        return fingerprint(task, self.text)

    def task(self, name: str) -> SequenceTask:
        """A task by name, with its texts if it has any."""
        if name in TEXT_TASKS:
            from wordwave.lab.texts import text_task

            return text_task(name, self.text)
        from wordwave.lab.sequences import SEQUENCES

        return SEQUENCES[name]

    def cost(self, cell: SuiteCell) -> float:
        """About the relative time of a cell, for the time left."""
        slow = {"cope": 2.0, "fire": 1.7, "pope": 1.3}
        name, _ = split_name(cell.encoding)
        factor = 1.6 if name.startswith("complex") else slow.get(name, 1.0)
        budget = self.budget(cell.task)
        # A step of few tokens takes longer than their share: calls of Python and torch.
        of_step = 0.2 + 0.8 * budget.batch_size / 64 * budget.n_layers / 2
        tests = 350 * budget.n_layers / 2 if self.lengths[-1][1] >= 1000 else 0  # in steps
        return factor * (of_step * budget.steps + tests)

    def run(self, cell: SuiteCell) -> Record:
        """Train and test a model, on one thread."""
        import torch

        from wordwave.lab.model import Curriculum, evaluate, matched_model, saved_megabytes
        from wordwave.models.utils import count_parameters
        from wordwave.training.loop import Training

        torch.set_num_threads(1)
        torch.manual_seed(cell.seed)
        task, budget = self.task(cell.task), self.budget(cell.task)
        name, is_random = split_name(cell.encoding)
        model = matched_model(name, budget, task)
        training = TrainingConfig(
            epochs=1,
            batch_size=budget.batch_size,
            learning_rate=budget.learning_rate,
            schedule="one-cycle",
            row_sparse=False,
            word_dropout=0.0,
            random_positions=HIGHEST if is_random else 0,
            precision="fp32",
            seed=cell.seed,
        )
        curriculum = Curriculum(task, budget, cell.seed)
        # CPU time: other processes of the machine do not count.
        start, cpu_start = time.perf_counter(), time.process_time()
        for _ in Training(model, curriculum, training).run():
            pass
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu_start
        exact, by_token = {}, {}
        for low, high in self.lengths:
            if task.longest is None or high <= task.longest:
                label = f"{low}-{high}"
                n = min(max(budget.n_test * LONGEST_TRAINING // high, 64), budget.n_test)
                scores = evaluate(model, task, n, (low, high), cell.seed, is_random)
                exact[label], by_token[label] = scores
        return {
            **self.key(cell),
            "accuracy": exact,
            "token_accuracy": by_token,
            "parameters": count_parameters(model),
            "seconds": round(seconds, 2),
            "ms_per_step": round(1000 * cpu / budget.steps, 3),
            "megabytes": round(saved_megabytes(model, curriculum), 3),
            "torch": torch.__version__,
        }


def split_name(encoding: str) -> tuple[str, bool]:
    """The name without `+random`, and whether it was there."""
    return encoding.removesuffix(RANDOM), encoding.endswith(RANDOM)


def encoding_class(name: str) -> Callable[..., PositionEncoding] | None:
    """What builds an encoding inside attention; None if it acts on word vectors.

    `module:Class` imports the module, from the current folder or wherever Python finds it, and so
    runs its code.
    """
    from functools import partial

    from wordwave.positions import POSITIONS, PositionEncoding, WaveAttention

    if name in ABSOLUTE:
        return None
    if name == "wave-attention-frequencies":
        return partial(WaveAttention, frequencies=True)
    if name in POSITIONS:
        return POSITIONS[name]
    found = _imported(name)
    if not (isinstance(found, type) and issubclass(found, PositionEncoding)):
        raise WordwaveError(
            f"encoding {name!r} must be a subclass of wordwave.positions.PositionEncoding, "
            f"got {type(found).__name__ if not isinstance(found, type) else found.__name__}"
        )
    return found


def _imported(name: str) -> Any:
    """The object that `module:Class` names."""
    import importlib

    module, _, attribute = name.partition(":")
    if not attribute or not all(part.isidentifier() for part in (*module.split("."), attribute)):
        raise unknown("encoding", name, (*ALL_ENCODINGS, "module:Class"))
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # the user's module is there, and lacks another one
        raise WordwaveError(
            f"encoding {name!r}: there is no module {module!r} in this folder or on Python's path"
        ) from None
    if not hasattr(loaded, attribute):
        raise WordwaveError(f"encoding {name!r}: module {module!r} has no {attribute!r}")
    return getattr(loaded, attribute)


def code_of(encoding: str) -> str | None:
    """A fingerprint of the source of an encoding of the user's own."""
    name, _ = split_name(encoding)
    if ":" not in name:
        return None
    try:
        source = inspect.getsource(_imported(name))
    except OSError:
        raise WordwaveError(f"encoding {name!r}: its source, a .py file, cannot be read") from None
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def check_encoding(encoding: str) -> None:
    """Raise one clear error unless an encoding can be built and attends to something."""
    name, is_random = split_name(encoding)
    if is_random and name in ("nope", "cope", "complex-vanilla", "pe"):
        raise WordwaveError(f"{encoding!r}: {name!r} has no use for randomised positions")
    if name in EMBEDDING_KINDS or name in OWN:
        return
    build = encoding_class(name)
    if build is not None:
        import torch

        heads = torch.randn(1, 4, 3, 16)
        try:
            made = build(4, 16)(heads, heads, heads, causal=True)
        except Exception as error:
            raise WordwaveError(
                f"encoding {name!r} fails on 3 tokens of 4 heads of width 16: "
                f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            ) from error
        if made.shape != heads.shape:
            raise WordwaveError(
                f"encoding {name!r} must return heads of shape {tuple(heads.shape)}, "
                f"got {tuple(made.shape)}"
            )


def suite_cells(tasks: list[str], encodings: list[str], seeds: int) -> list[SuiteCell]:
    """All combinations, one seed after the other, and of a seed the cheapest tasks first."""

    def cost(task: str) -> float:
        return Suite().cost(SuiteCell(task, "rope", 0))

    return [
        SuiteCell(task, encoding, seed)
        for seed in range(seeds)
        for task in sorted(dict.fromkeys(tasks), key=cost)
        for encoding in dict.fromkeys(encodings)
    ]


def embedding_config(name: str) -> EmbeddingConfig:
    """Word vectors of a model with an encoding."""
    kind: Any = name if name in ABSOLUTE else "none"
    return EmbeddingConfig(kind=kind, word_scale=1.0, phase=kind == "complex-order")
