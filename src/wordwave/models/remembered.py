"""A bag of words read by looking up, for prediction at speed.

What a word at a place adds to the first layer behind the bag never changes once a model is trained,
and texts say the same words at the same places again and again. So it is worked out once for each
(word, place) and remembered; a sentence is then a sum of a few short rows.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave.models.classifier import Classifier
from wordwave.text.sentences import Sentences

PLACES = 128
"""Sentences with more words are not read here."""
MOST_ROWS = 1 << 17
"""Pairs remembered at most; when there are more, all are forgotten."""
BLOCK = 512
"""Pairs worked out at once: few enough to stay in the cache of the processor."""


class RememberedBag:
    """The logits of a `fasttext` classifier that reads out both parts of complex numbers.

    Equal to calling the model, up to the rounding of sums in another order.
    """

    def __init__(self, model: Classifier) -> None:
        if not self.serves(model):
            raise ValueError(
                "model must have the encoder 'fasttext' and the readout 'concat' or real numbers, "
                f"got {model.config.encoder!r} and {model.config.readout!r}"
            )
        self.model = model
        _, first, *rest = model.head
        assert isinstance(first, nn.Linear)
        self.first, self.rest = first, nn.Sequential(*rest)
        self.rows = torch.empty(MOST_ROWS, first.out_features)
        self.n_words: int = model.embedding.vocab_size  # type: ignore[assignment]
        self.slots = torch.empty(PLACES * self.n_words, dtype=torch.long)
        self.n_rows = 0
        self._forget()

    @staticmethod
    def serves(model: Classifier) -> bool:
        """Whether a model is a plain sum up to its first layer."""
        on_cpu = next(model.parameters()).device.type == "cpu"
        return on_cpu and model.config.encoder == "fasttext" and not model.readout.by_magnitude

    def reads(self, sentences: Sentences) -> bool:
        """Whether these sentences are short and few enough."""
        return int(sentences.lengths.max()) <= PLACES and len(sentences.ids) <= MOST_ROWS

    @torch.no_grad()
    def logits(self, sentences: Sentences) -> Tensor:
        """Shape: N sentences that it `reads` -> (N, n_classes)"""
        if self._weights() != self.weights:  # trained on since
            self._forget()
        places = torch.arange(len(sentences.ids)) - sentences.starts.repeat_interleave(
            sentences.lengths
        )
        pairs = places * self.n_words + sentences.ids
        new = pairs[self.slots[pairs] < 0].unique()
        if self.n_rows + len(new) > MOST_ROWS:
            self._forget()
            new = pairs.unique()
        self._learn(new)
        sums = F.embedding_bag(self.slots[pairs], self.rows, sentences.starts, mode="sum")
        if self.model.config.pooling == "mean":
            sums /= sentences.lengths.unsqueeze(1)
        was_training = self.model.training
        self.model.eval()
        said: Tensor = self.rest(sums + self.first.bias)
        self.model.train(was_training)
        return said

    def _learn(self, pairs: Tensor) -> None:
        for block in pairs.split(BLOCK):
            embedded = self.model.embedding(
                block % self.n_words, positions=block // self.n_words + 1
            )
            end = self.n_rows + len(block)
            torch.mm(embedded, self.first.weight.T, out=self.rows[self.n_rows : end])
            self.slots[block] = torch.arange(self.n_rows, end)
            self.n_rows = end

    def _forget(self) -> None:
        self.slots.fill_(-1)
        self.n_rows = 0
        self.weights = self._weights()

    def _weights(self) -> list[tuple[int, int]]:
        """Changes when a weight does."""
        used = (*self.model.embedding.parameters(), self.first.weight)
        return [(p.data_ptr(), p._version) for p in used]
