"""Bits per character of a text, exact: how it is cut for reading does not change them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from wordwave.config_io import read_json
from wordwave.data.characters import UNKNOWN_ID, Alphabet, Text
from wordwave.errors import WordwaveError
from wordwave.files import write_text
from wordwave.models.config import TransformerXLConfig
from wordwave.models.eval_mode import eval_mode
from wordwave.models.transformer_xl import TransformerXL, XLState
from wordwave.tasks.classifier import finite
from wordwave.tasks.config import LanguageModelConfig, Sampling, draw
from wordwave.tasks.run import Trained, check_trained, load_model, read_config, save_config


@dataclass(frozen=True)
class Bits:
    """How well a text was predicted."""

    total: float
    """Bits of all predictions."""
    n: int
    """Predictions: one for each character but the first."""

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
    segment_length: int = 128,
) -> Bits:
    """Score a whole text, each character after `memory_length` others and itself in sight.

    The text is read at `batch_size` places at once. In a layer a character sees M others, through n
    layers n·M; so each place but the first starts n·M characters early, which do not count, where
    positions count on from the text before; every character is predicted from just what it would
    be predicted from in one go.

    Args:
        memory_length: the model's `eval_memory_length` if None.
    """
    if len(text) < 2:
        raise WordwaveError(
            f"{text.name} must hold at least 2 characters to score, got {len(text)}"
        )
    memory_length = model.config.eval_memory_length if memory_length is None else memory_length
    n = len(text) - 1
    early = min(len(model.layers) * memory_length, n)
    # XLState twice what counts once is still quicker than reading at fewer places.
    n_places = max(min(batch_size, n // max(early, 1)), 1)
    # The first place counts what the others read early, so that all have as much to read.
    stride = -(-(n - early) // n_places) if n_places > 1 else n - early
    to_read = stride + early
    starts = np.arange(n_places) * stride
    total, past = torch.zeros((), dtype=torch.float64), None
    with eval_mode(model) as device:
        n_read: Tensor | int = 0
        if n_places > 1:
            at = torch.from_numpy(starts)
            n_read = counted_before(text, at, alphabet, model.config).to(device)
        for begin in range(0, to_read, segment_length):
            length = min(segment_length, to_read - begin)
            ids, counted = _segment(text, alphabet, starts + begin, length)
            if begin < early:
                counted[1:, : early - begin] = False
            logits, past = model.read(
                ids[:, :-1].to(device), past, memory_length=memory_length, n_read=n_read
            )
            wanted = ids[:, 1:].to(device)
            losses = F.cross_entropy(logits.float().mT, wanted, reduction="none")
            total += losses.double().cpu()[counted].sum()
    return Bits(float(total) / math.log(2), n)


def _segment(
    text: Text, alphabet: Alphabet, starts: np.ndarray, length: int
) -> tuple[Tensor, Tensor]:
    """Characters at several places and the one after them; beyond the end nothing counts.

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
    """What a model has counted that read a text up to some places, see `TransformerXL.counted`.

    Shape: (B,) -> (B, 1)
    """
    if config.counts != "word":
        return starts.unsqueeze(1)
    limit = config.max_wave_position
    return torch.tensor([[alphabet.letters_before(text, i, limit)] for i in starts.tolist()])


def read_on(
    model: TransformerXL,
    ids: Tensor,
    past: XLState | None = None,
    *,
    memory_length: int | None = None,
    segment_length: int = 128,
) -> tuple[Tensor, XLState]:
    """Read a text of any length in segments; the logits after its last character.

    Shape: ids (B, L) -> (B, V)
    """
    for part in ids.split(segment_length, dim=1):
        logits, past = model.read(part, past, memory_length=memory_length)
    assert past is not None
    return logits[:, -1], past


class LanguageModel(Trained):
    """Writes a text on, character by character.

    Args:
        model: predicts the next character.
        alphabet: numbers the characters.
        config: how it was trained; its `model` is that of `model`.
    """

    task = "lm"
    model: TransformerXL
    config: LanguageModelConfig

    def __init__(
        self, model: TransformerXL, alphabet: Alphabet, config: LanguageModelConfig
    ) -> None:
        self.model, self.alphabet, self.config = model, alphabet, config

    @torch.no_grad()
    def write(
        self,
        prompt: str,
        n: int,
        sampling: Sampling | None = None,
        *,
        memory_length: int | None = None,
        cached: bool = True,
    ) -> Iterator[str]:
        """Up to n characters (or bytes) after the prompt, as they come.

        Args:
            prompt: read first, of any length; an unknown character in it is read as unknown.
            sampling: how the next one is drawn.
            memory_length: how far back each character looks.
            cached: remember what was read; otherwise all is read anew for each character.
        """
        sampling = sampling or Sampling()
        if n < 0:
            raise WordwaveError(f"n must be at least 0, got {n}")
        known = self.alphabet.encode(prompt or self.opening)
        device = next(self.model.parameters()).device
        ids = torch.from_numpy(known).unsqueeze(0).to(device)
        generator = torch.Generator().manual_seed(sampling.seed)
        decoder = self.alphabet.decoder()
        self.model.eval()
        fresh, past = ids, None
        for _ in range(n):
            logits, past = read_on(self.model, fresh, past, memory_length=memory_length)
            number = draw(self._sayable(logits[0]), sampling, generator)
            said = torch.tensor([[number]], device=device)
            if cached:
                fresh = said
            else:
                fresh = ids = torch.cat([ids, said], dim=1)
                past = None
            if text := decoder.add(number):
                yield text

    def read(self, text: str, past: XLState | None = None) -> tuple[Tensor, XLState]:
        """Logits of what comes after a text. Shape: (V,)"""
        ids = torch.from_numpy(self.alphabet.encode(text)).unsqueeze(0)
        with eval_mode(self.model) as device:
            logits, past = read_on(self.model, ids.to(device), past)
        return logits[0], past

    @property
    def opening(self) -> str:
        """What stands before the first character when there is no prompt: a new line or a space."""
        if self.alphabet.unit == "byte":
            return "\n"
        known = self.alphabet.characters
        return next((c for c in "\n " if c in known), known[0])

    def unknown_in(self, text: str) -> list[str]:
        """Characters of a text that training never saw, each once, in their order."""
        if self.alphabet.unit == "byte":
            return []
        return [c for c in dict.fromkeys(text) if c not in self.alphabet.characters]

    def bits(self, text: Text, *, memory_length: int | None = None, batch_size: int = 16) -> Bits:
        """How well it predicts a text."""
        bits = bits_of(
            self.model, self.alphabet, text, memory_length=memory_length, batch_size=batch_size
        )
        finite(torch.tensor(bits.total))
        return bits

    def _sayable(self, logits: Tensor) -> Tensor:
        logits = finite(logits).float().cpu().clone()
        if self.alphabet.unit == "char":
            logits[UNKNOWN_ID] = -torch.inf
        return logits

    def save_all_but_weights(self, folder: Path) -> None:
        save_config(folder, self.task, self.config)
        saved = json.dumps(self.alphabet.to_dict(), ensure_ascii=False, indent=0)
        write_text(folder / "vocab.json", saved)

    @classmethod
    def load(cls, folder: str | Path) -> LanguageModel:
        """Read what `save` wrote; ready to write."""
        folder = Path(folder)
        config = read_config(folder, cls.task, LanguageModelConfig)
        check_trained(folder)
        try:
            alphabet = Alphabet.from_dict(read_json(folder / "vocab.json"))
        except (OSError, ValueError) as problem:
            raise WordwaveError(
                f"'{folder / 'vocab.json'}' is not an alphabet: {problem}"
            ) from None
        model = load_model(folder, lambda: model_for(alphabet, config.model), dim=config.model.dim)
        return cls(model, alphabet, config)


def model_for(alphabet: Alphabet, config: TransformerXLConfig) -> TransformerXL:
    """A model that has learnt nothing yet."""
    return TransformerXL(config, len(alphabet), torch.from_numpy(alphabet.letters))
