"""`LanguageModel`: a trained language model, and its exact bits per character."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from wordwave.config_io import read_json
from wordwave.data.characters import UNKNOWN_CHARACTER_ID, Alphabet, Text
from wordwave.errors import WordwaveError
from wordwave.files import write_text
from wordwave.models.config import TransformerXLConfig
from wordwave.models.transformer_xl import TransformerXL
from wordwave.models.utils import eval_mode
from wordwave.progress import track
from wordwave.tasks.classifier import finite
from wordwave.tasks.config import LanguageModelConfig, Sampling
from wordwave.tasks.run import TextModel
from wordwave.tasks.run_folder import load_model, reading

SEGMENT_LENGTH = 128
"""Characters that are processed at once."""


@dataclass(frozen=True)
class Bits:
    """The cross-entropy of a text."""

    total: float
    """Bits, summed over all predictions."""
    n: int
    """Number of predictions: one for each character but the first."""

    @property
    def per_character(self) -> float:
        return self.total / self.n


def bits_of(
    model: TransformerXL,
    alphabet: Alphabet,
    text: Text,
    *,
    memory_length: int | None = None,
    batch_size: int = 16,
    segment_length: int = SEGMENT_LENGTH,
) -> Bits:
    """Score a whole text; each character attends to itself and `memory_length` others.

    The text is processed as `batch_size` streams. A character depends on M others in one layer and
    on n·M through n layers, so each stream but the first starts n·M characters early, which are
    not scored, with the positions they have in the text. Every prediction is therefore the same as
    in one pass over the text.

    Args:
        memory_length: M; the model's `eval_memory_length` if None.
    """
    if len(text) < 2:
        raise WordwaveError(
            f"{text.name} must hold at least 2 characters to score, got {len(text)}"
        )
    memory_length = model.config.eval_memory_length if memory_length is None else memory_length
    n = len(text) - 1
    early = min(len(model.layers) * memory_length, n)
    # Processing a character twice is still faster than fewer streams.
    n_streams = max(min(batch_size, n // max(early, 1)), 1)
    # The first stream scores its early characters too, so that all are equally long.
    stride = -(-(n - early) // n_streams) if n_streams > 1 else n - early
    to_read = stride + early
    starts = np.arange(n_streams) * stride
    total, past = torch.zeros((), dtype=torch.float64), None
    with eval_mode(model) as device:
        n_read: Tensor | int = 0
        if n_streams > 1:
            at = torch.from_numpy(starts)
            n_read = counted_before(text, at, alphabet, model.config).to(device)
        begins = range(0, to_read, segment_length)
        for begin in track(begins, f"scoring {n:,} characters", len(begins)):
            length = min(segment_length, to_read - begin)
            ids, counted = segment_ids(text, alphabet, starts + begin, length)
            if begin < early:
                counted[1:, : early - begin] = False
            logits, past = model.forward_cached(
                ids[:, :-1].to(device), past, memory_length=memory_length, offset=n_read
            )
            wanted = ids[:, 1:].to(device)
            losses = F.cross_entropy(logits.float().mT, wanted, reduction="none")
            total += losses.double().cpu()[counted].sum()
    return Bits(float(total) / math.log(2), n)


def segment_ids(
    text: Text, alphabet: Alphabet, starts: np.ndarray, length: int
) -> tuple[Tensor, Tensor]:
    """Characters of several streams and the next one; nothing is scored beyond the end.

    Shape: starts (B,) -> ids (B, length + 1), counted (B, length)
    """
    rows = np.zeros((len(starts), length + 1), np.int64)
    counted = np.zeros((len(starts), length), bool)
    for row, count, start in zip(rows, counted, starts.tolist(), strict=True):
        ids = alphabet.ids(text.symbols[start : start + length + 1])
        row[: len(ids)] = ids
        count[: max(len(ids) - 1, 0)] = True
    return torch.from_numpy(rows), torch.from_numpy(counted)


def counted_before(
    text: Text, starts: Tensor, alphabet: Alphabet, config: TransformerXLConfig
) -> Tensor:
    """The position counts of a model at some places of a text, see `TransformerXL.next_offset`.

    Shape: (B,) -> (B, 1)
    """
    if config.counts != "word":
        return starts.unsqueeze(1)
    limit = config.max_wave_position
    return torch.tensor([[alphabet.letters_before(text, i, limit)] for i in starts.tolist()])


class LanguageModel(TextModel):
    """Generates text, character by character.

    Args:
        model: predicts the next character.
        alphabet: numbers the characters.
        config: how it was trained; its `model` is that of `model`.
    """

    task = "lm"
    config_class = LanguageModelConfig
    model: TransformerXL
    config: LanguageModelConfig

    def __init__(
        self, model: TransformerXL, alphabet: Alphabet, config: LanguageModelConfig
    ) -> None:
        self.model, self.alphabet, self.config = model, alphabet, config

    def generate(self, prompt: str = "", length: int = 500, **options: Any) -> str:
        """The text that follows a prompt; arguments as in `stream`."""
        return "".join(self.stream(prompt, length, **options))

    @torch.no_grad()
    def stream(
        self,
        prompt: str = "",
        length: int = 500,
        *,
        sampling: Sampling | None = None,
        memory_length: int | None = None,
        cached: bool = True,
    ) -> Iterator[str]:
        """Up to `length` characters (or bytes) after the prompt, as they are generated.

        Args:
            prompt: of any length; characters that are not in the alphabet count as unknown.
            sampling: temperature, top-k, top-p and seed.
            memory_length: how many characters each one attends to.
            cached: keep the states of earlier characters; if not, recompute them for each.
        """
        sampling = sampling or Sampling()
        if length < 0:
            raise WordwaveError(f"length must be at least 0, got {length}")
        known = self.alphabet.encode(prompt or self.opening)
        device = next(self.model.parameters()).device
        ids = torch.from_numpy(known).unsqueeze(0).to(device)
        generator = torch.Generator().manual_seed(sampling.seed)
        decode = self.alphabet.decoder()
        self.model.eval()
        fresh, past = ids, None
        for _ in range(length):
            for part in fresh.split(SEGMENT_LENGTH, dim=1):
                logits, past = self.model.forward_cached(part, past, memory_length=memory_length)
            logits = finite(logits[0, -1]).float().cpu().clone()
            if self.alphabet.unit == "char":
                logits[UNKNOWN_CHARACTER_ID] = -torch.inf
            drawn = draw(logits, sampling, generator)
            fresh = torch.tensor([[drawn]], device=device)
            if not cached:
                fresh = ids = torch.cat([ids, fresh], dim=1)
                past = None
            if text := decode(drawn):
                yield text

    @property
    def opening(self) -> str:
        """What replaces an empty prompt: a line break or a space."""
        if self.alphabet.unit == "byte":
            return "\n"
        known = self.alphabet.characters
        return next((c for c in "\n " if c in known), known[0])

    def unknown_in(self, text: str) -> list[str]:
        """Characters of a text that are not in the alphabet, each once, in their order."""
        if self.alphabet.unit == "byte":
            return []
        return [c for c in dict.fromkeys(text) if c not in self.alphabet.characters]

    def bits(self, text: Text, *, memory_length: int | None = None, batch_size: int = 16) -> Bits:
        """The cross-entropy of a text."""
        bits = bits_of(
            self.model, self.alphabet, text, memory_length=memory_length, batch_size=batch_size
        )
        finite(torch.tensor(bits.total))
        return bits

    def save_vocabulary(self, folder: Path) -> None:
        saved = json.dumps(self.alphabet.to_dict(), ensure_ascii=False, indent=0)
        write_text(folder / "vocab.json", saved)

    @classmethod
    def load_parts(cls, folder: Path, config: LanguageModelConfig) -> LanguageModel:
        with reading(folder / "vocab.json", "is not an alphabet"):
            alphabet = Alphabet.from_dict(read_json(folder / "vocab.json"))
        model = load_model(folder, lambda: model_for(alphabet, config.model))
        return cls(model, alphabet, config)


def model_for(alphabet: Alphabet, config: TransformerXLConfig) -> TransformerXL:
    """An untrained model."""
    return TransformerXL(config, len(alphabet), torch.from_numpy(alphabet.letters))


def draw(logits: Tensor, sampling: Sampling, generator: torch.Generator) -> int:
    """Sample an id. Shape: logits (V,)"""
    if sampling.temperature == 0:
        return int(logits.argmax())
    order = logits.argsort(descending=True, stable=True)
    ahead = logits[order].double() - logits.max()  # at most 0, so that nothing overflows
    likely = (ahead / sampling.temperature).softmax(0)
    if sampling.top_k:
        likely = likely[: sampling.top_k]
    if sampling.top_p < 1:
        before = likely.cumsum(0) - likely
        likely = likely[before < sampling.top_p * likely.sum()]
    return int(order[torch.multinomial(likely, 1, generator=generator)])
