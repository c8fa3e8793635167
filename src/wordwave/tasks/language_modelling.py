"""Language modelling: the training task, and the job."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave.data.characters import UNIT_NAMES, Alphabet, Text, Unit, read_text
from wordwave.data.corpora import TextSplits, load_text
from wordwave.errors import WordwaveError
from wordwave.models.transformer_xl import TransformerXL
from wordwave.models.utils import count_parameters
from wordwave.tasks.config import LanguageModelConfig
from wordwave.tasks.language_model import (
    LanguageModel,
    bits_of,
    counted_before,
    model_for,
    segment_ids,
)
from wordwave.tasks.run import Evaluation, Job
from wordwave.tensor_files import check_like
from wordwave.training.loop import Epoch, Positions, Training


@dataclass(frozen=True)
class Segments(Sequence[Tensor]):
    """The batches of one epoch, computed on demand: a text may have millions.

    Batch k contains the starts of the k-th segments of all streams; a stream is a part of the text
    that is processed from its start to its end.
    """

    n_streams: int
    stream_length: int
    length: int
    start: int = 0

    def __len__(self) -> int:
        return self.stream_length // self.length

    def __getitem__(self, index: Any) -> Any:
        """A batch, or a list of batches for a slice. Shape: (n_streams,)"""
        first = range(self.start, self.start + len(self) * self.length, self.length)[index]
        streams = torch.arange(self.n_streams) * self.stream_length
        return [streams + i for i in first] if isinstance(first, range) else streams + first


@dataclass
class LanguageModelTask:
    """Predict the next character in several streams of a text, each with its memory."""

    train: Text
    valid: Text | None
    """The validation set."""
    alphabet: Alphabet
    length: int
    """Characters of a segment."""
    counted: Callable[[Tensor], Tensor] | None = None
    """The position counts at some places of the text, if they depend on the text and not only on
    the number of characters before. Shape: (B,) -> (B, 1)"""

    def __post_init__(self) -> None:
        self.segment = self.length
        """Length of a segment, at most that of a stream."""
        self._reset()

    def _reset(self) -> None:
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
        # Characters that do not fill a segment are left out, at another place in each epoch.
        spare = stream % length
        start = int(torch.randint(spare + 1, (), generator=generator))
        return Segments(size, stream, length, start)

    def loss(self, model: nn.Module, rows: Tensor, positions: Positions) -> tuple[Tensor, int, int]:
        device = next(model.parameters()).device
        if not torch.equal(rows, self.next):  # a new epoch, which starts elsewhere
            self._reset()
        ids = segment_ids(self.train, self.alphabet, rows.numpy(), self.segment)[0].to(device)
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
        return {"states": self.states, "next": self.next, "n_read": torch.tensor(self.n_read)}

    def check_state(self, state: Mapping[str, Tensor], model: nn.Module) -> None:
        if not state:
            return
        assert isinstance(model, TransformerXL)
        n, kept = state.get("next", self.next).numel(), state.get("states", model.bias)
        # The length and the precision of the memory depend on the text so far.
        length = min(kept.shape[-2] if kept.dim() == 4 else 0, model.config.memory_length)
        size = (model.config.n_layers, n, length, model.embedding.out_dim)
        states = torch.empty(size, dtype=kept.dtype, device="meta")
        number = torch.zeros((), dtype=torch.long)
        check_like(state, {"states": states, "next": number.expand((n,)), "n_read": number})
        if not kept.is_floating_point():
            raise WordwaveError(f"states must be floating-point, got {kept.dtype}")
        if not state["n_read"].is_meta and not 0 <= int(state["n_read"]) < 2**53:
            raise WordwaveError(f"n_read must be at least 0, got {int(state['n_read'])}")

    def load_state(self, state: dict[str, Tensor]) -> None:
        self._reset()
        if state:
            self.states, self.next = state["states"], state["next"].cpu()
            self.n_read = int(state["n_read"])


class _Optional(TypedDict, total=False):
    examples: str
    unit: Unit
    valid_bpc: float
    valid_characters: int
    test_bpc: float
    test_characters: int


class _Result(_Optional):
    best_step: int
    parameters: int
    characters_per_second: float | None


class LanguageModelJob(Job[LanguageModelConfig, TextSplits]):
    """Train or evaluate a language model."""

    model_class, result_schema, unit = LanguageModel, _Result, "characters"
    next_command = 'wordwave generate {run} --prompt "The "'
    config: LanguageModelConfig
    text_model: LanguageModel
    task: LanguageModelTask
    data: TextSplits
    scored: tuple[str, ...] = ("valid", "test")
    """What the finished model is scored on."""

    def load_data(self) -> TextSplits:
        return load_text(self.config.data.data, self.config.data.unit)

    def prepare(self, data: TextSplits) -> LanguageModelJob:
        config, unit = self.config, UNIT_NAMES[data.unit]
        alphabet = Alphabet.of(data.train, data.unit)
        model = self.built(
            lambda: model_for(alphabet, config.model),
            "fewer or narrower layers (--n-layers, --dim, --feed-forward-dim)",
        )
        valid = head(data.valid, config.data.eval_chars)
        self.notes = [
            f"{len(data.train):,} {unit}s to train on, {len(alphabet)} different ones; "
            f"{count_parameters(model):,} parameters"
        ]
        if unknown := alphabet.n_unknown(valid):
            self.notes.append(
                f"{unknown:,} of {len(valid):,} {unit}s for validation are not in the training set"
            )
        counted = partial(counted_before, data.train, alphabet=alphabet, config=config.model)
        self.task = LanguageModelTask(
            data.train,
            valid,
            alphabet,
            length=config.model.segment_length,
            counted=None if config.model.counts in (None, "segment") else counted,
        )
        self.text_model = LanguageModel(model, alphabet, config)
        self.data, self.fingerprint = data, data.fingerprint()
        return self

    def _scored(self) -> dict[str, Text]:
        n = self.config.data.test_chars
        return {name: head(getattr(self.data, name), n) for name in self.scored}

    @property
    def scored_at_end(self) -> str:
        n = sum(len(part) for part in self._scored().values())
        return f"{n:,} {UNIT_NAMES[self.data.unit]}s of the {' and '.join(self.scored)} set"

    def final_scores(self, training: Training, folder: Path) -> dict[str, Any]:
        scores: dict[str, Any] = {
            "judged_bpc": -training.progress.best_score,
            "judged_characters": len(self.task.valid or ()),
            "unit": self.data.unit,
            "characters_read": training.progress.n_words,
        }
        for name, text in self._scored().items():
            scores[f"{name}_bpc"] = self.text_model.bits(text).per_character
            scores[f"{name}_characters"] = len(text)
        return scores

    @property
    def run_name(self) -> str:
        data, model = Path(self.config.data.data).name.split(".")[0], self.config.model
        kind = model.embedding.kind.replace("none", "real")
        return f"{data}-lm-{kind}" + ("" if model.position == "relative" else f"-{model.position}")

    def describe(self, result: dict[str, Any]) -> list[str]:
        unit = UNIT_NAMES[result.get("unit", "char")]
        scored = [p for p in ("valid", "test") if {f"{p}_bpc", f"{p}_characters"} <= result.keys()]
        bits = ", ".join(f"{part} {result[f'{part}_bpc']:.4f}" for part in scored)
        lengths = " and ".join(f"{result[f'{part}_characters']:,}" for part in scored)
        step = f"weights of step {result['best_step']:,}"
        return [f"{bits} bits per {unit} ({lengths} {unit}s; {step})"]

    def show_loss(self, loss: float) -> str:
        return f"{loss / math.log(2):.4f} bits"

    def show_scores(self, report: Epoch) -> str:
        validation = f"  validation {-report.scores['minus_bpc']:.4f} bits" if report.scores else ""
        return f"training {self.show_loss(report.loss)}{validation}"

    def read_data(self, **files: Any) -> Text:
        """Args: data: a text file."""
        return read_text(files["data"], self.text_model.alphabet.unit)

    def test_part(self, data: TextSplits, folder: Path) -> Text:
        if (self.finished(folder) or {}).get("examples") not in (None, data.fingerprint()):
            raise WordwaveError(
                f"{self.config.data.data!r} is no longer the text that '{folder}' was trained on: "
                "name a text to score with --data"
            )
        return data.test

    def evaluate(self, data: Text, **options: Any) -> Evaluation:
        """Args: characters: how many to score, 0 for all; memory_length, batch_size: as in
        `LanguageModel.bits`."""
        language_model = self.text_model
        text = head(data, options.pop("characters", 0))
        bits = language_model.bits(text, **options)
        memory_length = options.get("memory_length")
        if memory_length is None:
            memory_length = self.config.model.eval_memory_length
        scores = {
            "text": text.name,
            "unit": language_model.alphabet.unit,
            "bpc": bits.per_character,
            "characters": bits.n,
            "unknown": language_model.alphabet.n_unknown(text),
            "memory_length": memory_length,
        }
        unit = UNIT_NAMES[language_model.alphabet.unit]
        lines = [
            f"{text.name}: {bits.n:,} {unit}s",
            f"{bits.per_character:.4f} bits per {unit}, memory length {memory_length}",
        ]
        if scores["unknown"]:
            lines.append(f"{scores['unknown']:,} of them are not in the training set")
        return Evaluation(scores, lines)


def head(text: Text, n: int) -> Text:
    """The first n characters of a text, all of it for 0."""
    if not n or n >= len(text):
        return text
    return text.part(0, n, f"the first {n:,} characters of {text.name}")
