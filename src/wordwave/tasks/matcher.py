"""`TextMatcher`: a trained matcher of sentence pairs, and its sentence vectors."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from reprlib import repr as clipped

import torch
from torch import Tensor

from wordwave.config_io import conform, read_json
from wordwave.errors import WordwaveError
from wordwave.files import write_text, write_whole
from wordwave.models.classifier import PairNetwork
from wordwave.models.utils import eval_mode
from wordwave.tasks.classifier import encode_texts, finite
from wordwave.tasks.config import MatchingConfig
from wordwave.tasks.run import TextModel
from wordwave.tasks.run_folder import load_model, reading
from wordwave.text.batching import Sentences, by_length
from wordwave.text.encoder import TextEncoder
from wordwave.text.tokenizers import BPETokenizer, build_tokenizer
from wordwave.text.vocabulary import Vocabulary

CHUNK = 2048
"""Pairs encoded at once."""
BATCH_WORDS = 4096
"""Words in a batch."""
Pair = tuple[str, str]


class TextMatcher(TextModel):
    """Predicts the class of a pair of sentences, or a score such as their similarity.

    Args:
        model: computes logits from the word ids of both sentences.
        encoder: turns sentences into word ids.
        labels: the name of each class; empty if scores are predicted.
        config: how it was trained.
        score_range: lowest and highest score of the training set.
    """

    task = "match"
    config_class = MatchingConfig
    model: PairNetwork
    config: MatchingConfig

    def __init__(
        self,
        model: PairNetwork,
        encoder: TextEncoder,
        labels: Sequence[str],
        config: MatchingConfig,
        score_range: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        self.model, self.encoder, self.labels, self.config = model, encoder, list(labels), config
        self.score_range = score_range

    def predict(self, pairs: Sequence[Pair]) -> list[str]:
        """The most probable class of each pair."""
        self._check_predicts("classes")
        return [self.labels[i] for i in self.logits(pairs).argmax(-1).tolist()]

    def probabilities(self, pairs: Sequence[Pair]) -> Tensor:
        """Shape: N pairs -> (N, n_classes), rows sum to 1"""
        self._check_predicts("classes")
        return self.logits(pairs).softmax(-1)

    def scores(self, pairs: Sequence[Pair]) -> Tensor:
        """The score of each pair, within the range of the training set. Shape: (N,), float64"""
        self._check_predicts("scores")
        return self.scores_of(self.logits(pairs)).squeeze(-1)

    def scores_of(self, logits: Tensor) -> Tensor:
        """Logits as scores. Shape: (N, 1) -> (N, 1), float64"""
        low, high = self.score_range
        return (low + (high - low) * logits.double().sigmoid()).clamp(low, high)

    def _check_predicts(self, asked: str) -> None:
        found, method = ("classes", "predict") if self.labels else ("scores", "scores")
        if found != asked:
            raise WordwaveError(f"this matcher predicts {found}, not {asked}: use {method}()")

    def logits(self, pairs: Sequence[Pair]) -> Tensor:
        """Shape: N pairs -> (N, n_classes), with scores (N, 1)"""
        return self.logits_and_truncated(pairs)[0]

    def logits_and_truncated(self, pairs: Sequence[Pair]) -> tuple[Tensor, int]:
        """Logits, and the number of sentences that were truncated.

        Shape: N pairs -> (N, n_classes), with scores (N, 1)
        """
        check_pairs(pairs)
        parts, n_truncated = [torch.zeros(0, self.model.n_classes)], 0
        for i in range(0, len(pairs), CHUNK):
            chunk = pairs[i : i + CHUNK]
            first, n = self.encoder.encode(a for a, _ in chunk)
            second, m = self.encoder.encode(b for _, b in chunk)
            parts.append(pair_logits(self.model, first, second))
            n_truncated += n + m
        return finite(torch.cat(parts)), n_truncated

    def encode(self, texts: Sequence[str]) -> Tensor:
        """The vectors that are compared, one a sentence. Shape: N texts -> (N, width)"""
        return self.encode_and_truncated(texts)[0]

    def encode_and_truncated(self, texts: Sequence[str]) -> tuple[Tensor, int]:
        """Vectors, and the number of texts that were truncated. Shape: N texts -> (N, width)"""
        return encode_texts(self.model, self.model.normalized, self.encoder, texts)

    def save_vocabulary(self, folder: Path) -> None:
        words: dict[str, object] = {**self.encoder.vocabulary.to_dict(), "labels": self.labels}
        words["score_range"] = self.score_range
        write_text(folder / "vocab.json", json.dumps(words, ensure_ascii=False, indent=0))
        if isinstance(self.encoder.tokenizer, BPETokenizer):
            write_whole(folder / "tokenizer.json", self.encoder.tokenizer.save)

    @classmethod
    def load_parts(cls, folder: Path, config: MatchingConfig) -> TextMatcher:
        with reading(folder / "vocab.json", "is not a vocabulary"):
            saved = read_json(folder / "vocab.json")
            vocabulary = Vocabulary.from_dict(saved)
            labels = conform(saved.get("labels"), list[str], where="labels")
            if len(set(labels)) < len(labels) or len(labels) == 1:
                raise WordwaveError(f"labels must differ, got {clipped(labels)}")
            if bool(labels) == config.data.predicts_scores:
                raise WordwaveError("there must be labels of classes, and none of scores")
            limits = conform(saved.get("score_range"), tuple[float, float], where="score_range")
            if not 0 < limits[1] - limits[0] < math.inf:
                raise WordwaveError(f"score_range must be low < high, got {clipped(limits)}")
        kind = config.text.tokenizer
        file = folder / "tokenizer.json" if kind == "bpe" else None
        tokenizer = build_tokenizer(kind, file=file)
        hashed = config.text.unknown_words == "hashed"
        length = config.model.max_length
        encoder = TextEncoder(tokenizer, vocabulary, max_length=length, hashed=hashed)
        n_classes = len(labels) or 1
        model = load_model(folder, lambda: PairNetwork(config.model, len(vocabulary), n_classes))
        return cls(model, encoder, labels, config, limits)


def check_pairs(pairs: Sequence[Pair]) -> None:
    """Raise unless each pair is two strings."""
    for i, pair in enumerate(pairs):
        two = isinstance(pair, (tuple, list)) and len(pair) == 2
        if not two or not all(isinstance(text, str) for text in pair):
            raise WordwaveError(f"a pair must be two texts, got {clipped(pair)} at {i}")


def batched_pair_logits(
    model: PairNetwork, first: Sentences, second: Sentences
) -> Iterator[tuple[Tensor, Tensor]]:
    """Row numbers and logits, batch by batch. Shape: (B,), (B, n_classes)"""
    with eval_mode(model) as device:
        for rows in by_length(torch.maximum(first.lengths, second.lengths), BATCH_WORDS):
            one, other = first.padded(rows).to(device), second.padded(rows).to(device)
            yield rows, model(one, other).float().cpu()


def pair_logits(model: PairNetwork, first: Sentences, second: Sentences) -> Tensor:
    """The logits of each pair, in their order. Shape: (N, n_classes)"""
    rows, logits = zip(*batched_pair_logits(model, first, second), strict=True)
    return finite(torch.cat(logits)[torch.cat(rows).argsort()])
