"""Language modelling, as the training loop wants it: streams of text, and what was read there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, TypedDict, overload

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave.data.characters import UNIT_NAMES, Alphabet, Text, Unit, read_text
from wordwave.data.corpora import TextSplits, load_text
from wordwave.errors import WordwaveError
from wordwave.memory import check_training_fits
from wordwave.models.classifier import count_parameters
from wordwave.models.transformer_xl import TransformerXL
from wordwave.tasks.config import LanguageModelConfig
from wordwave.tasks.language_model import LanguageModel, bits_of, counted_before, model_for
from wordwave.tasks.made_here import check_made_here
from wordwave.tasks.run import Prepared, check_same, finished
from wordwave.tensor_files import check_like
from wordwave.training.loop import Training
from wordwave.training.task import Positions


@dataclass(frozen=True)
class Segments(Sequence[Tensor]):
    """The batches of one epoch, made when asked for: a text may have millions.

    Batch k holds where the k-th segments of all streams begin; a stream is a part of the text that
    is read from its start to its end.
    """

    n_streams: int
    stream_length: int
    length: int
    start: int = 0

    def __len__(self) -> int:
        return self.stream_length // self.length

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> list[Tensor]: ...
    def __getitem__(self, index: int | slice) -> Tensor | list[Tensor]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        streams = torch.arange(self.n_streams) * self.stream_length
        return streams + self.start + index * self.length


class LanguageModelTask:
    """Predict the next character at several places of a text, and remember what was read there.

    Args:
        train: what is learnt from.
        valid: what selects the best weights, or `None`.
        alphabet: numbers the characters.
        length: characters of a segment.
        counted: what the model has counted at some places of the text, where it depends on the
            text and not only on how far was read. Shape: (B,) -> (B, 1)
    """

    def __init__(
        self,
        train: Text,
        valid: Text | None,
        alphabet: Alphabet,
        *,
        length: int,
        counted: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.train, self.valid, self.alphabet, self.length = train, valid, alphabet, length
        self.counted = counted
        self.segment = length
        """Characters read at once: fewer where a stream is shorter than a segment."""
        self._forget()

    def _forget(self) -> None:
        self.states: Tensor | None = None
        self.next = torch.zeros(0, dtype=torch.long)
        self.n_read = 0

    def batches(self, size: int, generator: torch.Generator) -> Sequence[Tensor]:
        stream = (len(self.train) - 1) // size
        if stream < 1:
            raise WordwaveError(
                f"{self.train.name} must hold more than batch_size={size} characters, "
                f"got {len(self.train)}"
            )
        self.segment = length = min(self.length, stream)
        # What does not fill a segment is left out, at another place in each epoch.
        spare = stream % length
        start = int(torch.randint(spare + 1, (), generator=generator))
        return Segments(size, stream, length, start)

    def loss(self, model: nn.Module, rows: Tensor, positions: Positions) -> tuple[Tensor, int, int]:
        device = next(model.parameters()).device
        if not torch.equal(rows, self.next):  # a new epoch, which starts elsewhere
            self._forget()
        ids = self._ids(rows, self.segment + 1).to(device)
        n_read = self.n_read if self.counted is None else self.counted(rows).to(device)
        logits, self.states = model(ids[:, :-1], self.states, n_read)
        self.next, self.n_read = rows + self.segment, self.n_read + self.segment
        total = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten(), reduction="sum")
        n = ids[:, 1:].numel()
        return total, n, n

    def score(self, model: nn.Module) -> dict[str, float]:
        if self.valid is None:
            return {}
        assert isinstance(model, TransformerXL)
        return {"minus_bpc": -bits_of(model, self.alphabet, self.valid).per_character}

    def state(self) -> dict[str, Tensor]:
        if self.states is None:
            return {}
        return {
            "states": self.states,
            "next": self.next,
            "n_read": torch.tensor(self.n_read),
        }

    def check_state(self, state: Mapping[str, Tensor], model: nn.Module) -> None:
        if not state:
            return
        assert isinstance(model, TransformerXL)
        n, kept = state.get("next", self.next).numel(), state.get("states", model.bias)
        # How much is remembered, and in which precision, depends on what was read.
        length = min(kept.shape[-2] if kept.dim() == 4 else 0, model.config.memory_length)
        size = (model.config.n_layers, n, length, model.embedding.out_dim)
        number = torch.zeros((), dtype=torch.long)
        check_like(
            state,
            {
                "states": torch.empty(size, dtype=kept.dtype, device="meta"),
                "next": number.expand((n,)),
                "n_read": number,
            },
        )
        if not kept.is_floating_point():
            raise WordwaveError(f"states must be of real numbers, got {kept.dtype}")
        if not state["n_read"].is_meta and not 0 <= int(state["n_read"]) < 2**53:
            raise WordwaveError(f"n_read must be at least 0, got {int(state['n_read'])}")

    def load_state(self, state: dict[str, Tensor]) -> None:
        self._forget()
        if state:
            self.states, self.next = state["states"], state["next"].cpu()
            self.n_read = int(state["n_read"])

    def _ids(self, starts: Tensor, length: int) -> Tensor:
        """Shape: (B,) -> (B, length)"""
        symbols = self.train.symbols
        rows = [self.alphabet.ids(symbols[i : i + length]) for i in starts.tolist()]
        return torch.from_numpy(np.stack(rows))


class _MayHave(TypedDict, total=False):
    examples: str
    unit: Unit
    valid_bpc: float
    valid_characters: int
    test_bpc: float
    test_characters: int


class Result(_MayHave):
    """What is shown of result.json."""

    best_step: int
    parameters: int
    characters_per_second: float | None


@dataclass(frozen=True)
class PreparedLanguageModel(Prepared):
    """A language model before its training."""

    writer: LanguageModel
    task: LanguageModelTask
    parts: TextSplits
    notes: list[str]
    fingerprint: str
    scored: tuple[str, ...] = ("valid", "test")
    """The parts that the finished model is scored on."""

    @property
    def trained(self) -> LanguageModel:
        return self.writer

    @property
    def to_score(self) -> str:
        n = sum(len(part) for part in self._scored().values())
        named = " and the ".join(self.scored)
        return f"{n:,} {UNIT_NAMES[self.parts.unit]}s of the {named} part"

    def _scored(self) -> dict[str, Text]:
        n = self.writer.config.data.test_chars
        return {name: head(getattr(self.parts, name), n) for name in self.scored}

    def result(
        self, training: Training, journal: list[dict[str, Any]], folder: Path
    ) -> dict[str, Any]:
        writer, progress = self.writer, training.progress
        figures: dict[str, Any] = {}
        for name, text in self._scored().items():
            figures[f"{name}_bpc"] = writer.bits(text).per_character
            figures[f"{name}_characters"] = len(text)
        return {
            "examples": self.fingerprint,
            "judged_bpc": -progress.best_score,
            "judged_characters": len(self.task.valid or ()),
            **figures,
            "unit": self.parts.unit,
            "best_step": progress.best_step,
            "steps": progress.step,
            "parameters": count_parameters(writer.model),
            "characters_read": progress.n_words,
            "seconds": round(sum(r["seconds"] for r in journal), 1),
            "characters_per_second": (
                median(r["words_per_second"] for r in journal) if journal else None
            ),
        }


def prepare(config: LanguageModelConfig, parts: TextSplits) -> PreparedLanguageModel:
    """Number the characters of a text and make the model.

    The alphabet is that of the training part. The model depends on the config and the data alone,
    not on the global random state.
    """
    unit = UNIT_NAMES[parts.unit]
    alphabet = Alphabet.of(parts.train, parts.unit)
    check_training_fits(
        lambda: model_for(alphabet, config.model),
        "fewer or narrower layers (--n-layers, --dim, --feed-forward-dim)",
        row_sparse=False,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        model = model_for(alphabet, config.model)
    judged = head(parts.valid, config.data.eval_chars)
    notes = [
        f"{len(parts.train):,} {unit}s to learn from, {len(alphabet)} different ones; "
        f"{count_parameters(model):,} parameters"
    ]
    if unknown := alphabet.n_unknown(judged):
        notes.append(
            f"{unknown:,} of the {len(judged):,} {unit}s scored in training are never seen in it"
        )
    counted = partial(counted_before, parts.train, alphabet=alphabet, config=config.model)
    task = LanguageModelTask(
        parts.train,
        judged,
        alphabet,
        length=config.model.segment_length,
        counted=None if config.model.counts in (None, "segment") else counted,
    )
    writer = LanguageModel(model, alphabet, config)
    return PreparedLanguageModel(writer, task, parts, notes, parts.fingerprint())


def check_same_run(config: LanguageModelConfig, folder: Path) -> None:
    """Refuse to go on with a run that was begun with other settings."""
    check_same(folder, LanguageModel.task, config)


def evaluate_language_model(
    run: Path,
    file: Path | None = None,
    *,
    memory_length: int | None = None,
    characters: int = 0,
    batch_size: int = 16,
    trusted: bool = False,
) -> dict[str, Any]:
    """Bits per character of a run on any file, by default on its own test part.

    Args:
        characters: how many are scored, from the start; 0 for all.
        trusted: open the file that its config names even if the run was not trained here.
    """
    writer = LanguageModel.load(run)
    unit = writer.alphabet.unit
    if file is None:
        check_made_here(run, writer.config.data.files, trusted=trusted)
    text = _test_part(writer, run) if file is None else read_text(file, unit)
    text = head(text, characters)
    bits = writer.bits(text, memory_length=memory_length, batch_size=batch_size)
    model = writer.config.model
    return {
        "text": text.name,
        "unit": unit,
        "bpc": bits.per_character,
        "characters": bits.n,
        "unknown": writer.alphabet.n_unknown(text),
        "memory_length": model.eval_memory_length if memory_length is None else memory_length,
    }


def _test_part(writer: LanguageModel, run: Path) -> Text:
    """The part that the run has not learnt from, if its text is still the same."""
    parts = load_text(writer.config.data.data, writer.alphabet.unit)
    if (finished(run, Result) or {}).get("examples") not in (None, parts.fingerprint()):
        raise WordwaveError(
            f"{writer.config.data.data!r} is not the text any more that '{run}' learnt from: "
            "--data names a text to score"
        )
    return parts.test


def head(text: Text, n: int) -> Text:
    """The first n characters of a text, all of it for 0."""
    if not n or n >= len(text):
        return text
    return text.part(0, n, f"the first {n:,} characters of {text.name}")
