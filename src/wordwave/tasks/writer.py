"""A trained language model: writes on, scores texts, goes to a folder and back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from wordwave.data.characters import UNKNOWN_ID, Alphabet, Text
from wordwave.files import write_text
from wordwave.models.evaluating import evaluating
from wordwave.models.transformer_xl import Reading, TransformerXL
from wordwave.models.xl_config import XLConfig
from wordwave.plain import read_json
from wordwave.tasks.bits import Bits, bits_of, read_on
from wordwave.tasks.lm_config import LmConfig
from wordwave.tasks.run_folder import (
    check_trained,
    load_model,
    read_config,
    save_config,
)
from wordwave.tasks.sampling import Sampling, draw
from wordwave.tasks.sentences import finite
from wordwave.tasks.trained import Trained


class Writer(Trained):
    """Writes a text on, character by character.

    Args:
        model: predicts the next character.
        alphabet: numbers the characters.
        config: how it was trained; its `model` is that of `model`.
    """

    task = "lm"
    model: TransformerXL
    config: LmConfig

    def __init__(self, model: TransformerXL, alphabet: Alphabet, config: LmConfig) -> None:
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
            raise ValueError(f"n must be at least 0, got {n}")
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

    def read(self, text: str, past: Reading | None = None) -> tuple[Tensor, Reading]:
        """Logits of what comes after a text. Shape: (V,)"""
        ids = torch.from_numpy(self.alphabet.encode(text)).unsqueeze(0)
        with evaluating(self.model) as device:
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
    def load(cls, folder: str | Path) -> Writer:
        """Read what `save` wrote; ready to write."""
        folder = Path(folder)
        config = read_config(folder, cls.task, LmConfig)
        check_trained(folder)
        try:
            alphabet = Alphabet.from_dict(read_json(folder / "vocab.json"))
        except (OSError, ValueError) as problem:
            raise ValueError(f"'{folder / 'vocab.json'}' is not an alphabet: {problem}") from None
        model = load_model(folder, lambda: model_for(alphabet, config.model), dim=config.model.dim)
        return cls(model, alphabet, config)


def model_for(alphabet: Alphabet, config: XLConfig) -> TransformerXL:
    """A model that has learnt nothing yet."""
    return TransformerXL(config, len(alphabet), torch.from_numpy(alphabet.letters))
