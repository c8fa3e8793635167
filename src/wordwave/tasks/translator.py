"""A trained translation model: from sentences to sentences, to a folder and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wordwave.models.decode import Hypothesis, beam_search, check_search
from wordwave.models.evaluating import evaluating
from wordwave.models.translation import TranslationModel, translation_model
from wordwave.models.words import END, START
from wordwave.tasks.pieces import Pieces
from wordwave.tasks.run_folder import (
    check_trained,
    load_model,
    read_config,
    save_config,
)
from wordwave.tasks.trained import Trained
from wordwave.tasks.translate_config import TranslateConfig
from wordwave.text.batches import by_length
from wordwave.text.sentences import Sentences


@dataclass(frozen=True)
class Search:
    """How translations are looked for."""

    beam: int = 5
    """Hypotheses kept in each step; 1 is greedy."""
    n_best: int = 1
    """Translations of each sentence."""
    length_penalty: float = 1.0
    """0 prefers short translations; with 1 nearly the mean of a piece counts."""
    batch_words: int = 1024
    """Source pieces translated at once."""

    def __post_init__(self) -> None:
        check_search(beam=self.beam, n_best=self.n_best, length_penalty=self.length_penalty)


@dataclass(frozen=True)
class Translation:
    """One way to say it."""

    text: str
    tokenised: str
    """Words and marks between spaces."""
    score: float
    log_probability: float
    ids: tuple[int, ...] = ()
    """Its pieces, if it comes from a model and not from a file."""

    def plain(self) -> dict[str, Any]:
        """For JSON: what others understand."""
        return {name: value for name, value in asdict(self).items() if name != "ids"}


class Translator(Trained):
    """Says a sentence in another language.

    Args:
        model: gives logits for ids of pieces.
        pieces: makes ids of texts, and texts of ids.
        config: how it was trained.
    """

    task = "translate"
    model: TranslationModel
    config: TranslateConfig

    def __init__(self, model: TranslationModel, pieces: Pieces, config: TranslateConfig) -> None:
        self.model, self.pieces, self.config = model, pieces, config

    def translate(self, texts: Sequence[str], *, beam: int = 5) -> list[str]:
        """The best translation of each text."""
        return [best[0].text for best in self.translations(texts, Search(beam=beam))[0]]

    def translations(
        self, texts: Sequence[str], search: Search | None = None
    ) -> tuple[list[list[Translation]], int]:
        """The n best translations of each text, and how many texts were cut to the greatest
        length; nothing is translated by nothing."""
        search = search or Search()
        tokenised = [self.pieces.source.tokenised(text) for text in texts]
        said = [i for i, words in enumerate(tokenised) if words]
        sources, _ = self.pieces.encode(tokenised[i] for i in said)
        n_cut = int((sources.lengths > self.pieces.max_length).sum())
        answers = [[Translation("", "", 0.0, 0.0)] for _ in texts]
        for rows in by_length(sources.lengths, search.batch_words):
            for row, found in zip(rows.tolist(), self._search(sources, rows, search), strict=True):
                answers[said[row]] = [self._translation(hypothesis) for hypothesis in found]
        return answers, n_cut

    def _search(self, sources: Sentences, rows: Tensor, search: Search) -> list[list[Hypothesis]]:
        if not len(rows):
            return []
        most = self.pieces.max_length
        with evaluating(self.model) as device:
            return beam_search(
                self.model,
                sources.padded(rows)[:, :most].to(device),
                longest=[min(2 * n + 20, most) for n in sources.lengths[rows].tolist()],
                beam=search.beam,
                n_best=search.n_best,
                length_penalty=search.length_penalty,
            )

    def _translation(self, hypothesis: Hypothesis) -> Translation:
        tokenised = self.pieces.tokenised(hypothesis.ids)
        text = self.pieces.written(tokenised)
        return Translation(
            text, tokenised, hypothesis.score, hypothesis.log_probability, tuple(hypothesis.ids)
        )

    def attention(
        self, text: str, translation: str | Translation
    ) -> tuple[list[str], list[str], Tensor]:
        """Source pieces, target pieces, and how much each target piece hears of each source one.

        Shape: (layers, T, S), T with the end of the sentence
        """
        source = self._ids(self.pieces.source.tokenised(text))
        if isinstance(translation, Translation):
            target = torch.tensor([translation.ids], dtype=torch.long)
        else:
            target = self._ids(self.pieces.target.tokenised(translation))
        before = torch.cat([torch.full((1, 1), START), target], dim=1)
        with evaluating(self.model) as device:
            heard = self.model.attention_map(source.to(device), before.to(device))[0].cpu()
        after = [*target[0].tolist(), END]
        return self._names(source[0].tolist()), self._names(after), heard

    def _ids(self, tokenised: str) -> Tensor:
        """Shape: (1, L)"""
        return self.pieces.encode([tokenised])[0].padded([0])[:, : self.pieces.max_length]

    def _names(self, ids: list[int]) -> list[str]:
        """Pieces as they are read; a new word begins with a space."""
        decode = self.pieces.tokeniser.decode
        words = self.pieces.vocabulary.words
        return ["END" if i == END else decode(["Ġ", words[i]]) for i in ids]

    def save_all_but_weights(self, folder: Path) -> None:
        save_config(folder, self.task, self.config)
        self.pieces.save(folder)

    @classmethod
    def load(cls, folder: str | Path) -> Translator:
        """Read what `save` wrote; ready to translate."""
        folder = Path(folder)
        config = read_config(folder, cls.task, TranslateConfig)
        check_trained(folder)
        pieces = Pieces.load(folder, config)
        model = load_model(
            folder, lambda: translation_model(config.model, len(pieces)), dim=config.model.dim
        )
        return cls(model, pieces, config)
