"""A bag of words read by looking up, for prediction at speed.

What a word at a place adds to the first layer behind the bag never changes once a model is trained,
and texts say the same words at the same places again and again. So it is worked out once for each
(word, place) and remembered; a sentence is then a sum of a few short rows.
"""

from __future__ import annotations

from threading import Lock

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave.errors import WordwaveError
from wordwave.models.classifier import Classifier
from wordwave.models.eval_mode import eval_mode
from wordwave.text.batching import Sentences

PLACES = 128
"""Sentences with more words are not read here."""
WIDEST = 1 << 11
"""Units of the first layer at most."""
MOST_WORDS = 1 << 20
"""Words of the vocabulary at most."""
MOST_ROWS = 1 << 17
"""Pairs remembered at most; when there are more, all are forgotten."""
NEVER, MET = -1, -2
"""Instead of a row: a pair that has not been met, or once; at the second time it is remembered."""
SAMPLE = 4096
"""Numbers of each table that are looked at to see whether it has changed."""
BLOCK = 512
"""Pairs worked out at once: few enough to stay in the cache of the processor."""


class CachedBag:
    """The logits of a `fasttext` classifier that reads out both parts of complex numbers.

    Equal to calling the model, up to the rounding of sums in another order.
    """

    def __init__(self, model: Classifier) -> None:
        if not self.serves(model):
            raise WordwaveError(
                "model must have the encoder 'fasttext' and the readout 'concat' or real numbers, "
                f"got {model.config.encoder!r} and {model.config.readout!r}"
            )
        self.model = model
        _, first, *rest = model.head
        assert isinstance(first, nn.Linear)
        self.first, self.rest = first, nn.Sequential(*rest)
        self.rows = torch.empty(MOST_ROWS, first.out_features)
        self.n_words = model.embedding.vocab_size
        self.slots = torch.empty(PLACES * self.n_words, dtype=torch.long)
        self.n_rows = 0
        self.lock = Lock()  # a server may ask from several threads
        self._forget()

    @staticmethod
    def serves(model: Classifier) -> bool:
        """Whether a model is a plain sum up to its first layer."""
        weight = next(model.head.parameters())
        plain = weight.device.type == "cpu" and weight.dtype == torch.float32
        if len(weight) > WIDEST or model.embedding.vocab_size > MOST_WORDS:
            return False  # what it remembers would take gigabytes
        return plain and model.config.encoder == "fasttext" and not model.readout.by_magnitude

    def reads(self, sentences: Sentences) -> bool:
        """Whether these sentences are short and few enough."""
        return int(sentences.lengths.max()) <= PLACES and len(sentences.ids) < MOST_ROWS

    @torch.no_grad()
    def logits(self, sentences: Sentences) -> Tensor:
        """Shape: N sentences that it `reads` -> (N, n_classes)"""
        with self.lock:
            return self._logits(sentences)

    def _logits(self, sentences: Sentences) -> Tensor:
        if self._weights() != self.weights:  # trained on since
            self._forget()
        owner = torch.arange(len(sentences)).repeat_interleave(sentences.lengths)
        places = torch.arange(len(owner)) - sentences.starts[owner]
        pairs = places * self.n_words + sentences.ids
        if self.n_rows + int((self.slots[pairs] < 0).sum()) > MOST_ROWS:
            self._forget()
        tokens = (self.slots[pairs] < 0).nonzero().squeeze(1)
        new, which, counts = pairs[tokens].unique(return_inverse=True, return_counts=True)
        again = (counts > 1) | (self.slots[new] == MET)
        self._learn(new[again])
        self.slots[new[~again]] = MET
        sums = F.embedding_bag(
            self.slots[pairs].clamp(min=0), self.rows, sentences.starts, mode="sum"
        )
        token_of = tokens.new_empty(len(new)).scatter_(0, which, tokens)
        sums += self._at_first_sight(new[~again], owner[token_of[~again]], len(sentences))
        if self.model.config.pooling == "mean":
            sums /= sentences.lengths.unsqueeze(1)
        with eval_mode(self.model):
            said: Tensor = self.rest(sums + self.first.bias)
        return said

    def _at_first_sight(self, pairs: Tensor, owner: Tensor, n: int) -> Tensor:
        """What pairs add to the sentences they are of; most will not come again.

        Shape: pairs (k,), owner (k,) -> (n, first layer)
        """
        sums = torch.zeros(n, self.first.in_features)
        for block, rows in zip(pairs.split(BLOCK), owner.split(BLOCK), strict=True):
            sums.index_add_(0, rows, self._embedded(block))
        return sums @ self.first.weight.T

    def _learn(self, pairs: Tensor) -> None:
        for block in pairs.split(BLOCK):
            end = self.n_rows + len(block)
            rows = self.rows[self.n_rows : end]
            torch.mm(self._embedded(block), self.first.weight.T, out=rows)
            self.slots[block] = torch.arange(self.n_rows, end)
            self.n_rows = end

    def _embedded(self, pairs: Tensor) -> Tensor:
        embedded: Tensor = self.model.embedding(
            pairs % self.n_words, positions=pairs // self.n_words + 1
        )
        return embedded

    def _forget(self) -> None:
        self.slots.fill_(NEVER)
        self.rows[0] = 0  # of what is not remembered
        self.n_rows = 1
        self.weights = self._weights()

    def _weights(self) -> list[tuple[int, int, float]]:
        """Changes when a weight does.

        Fused optimizers and `.data` change weights without a new version: a sample tells of them.
        """
        used = (*self.model.embedding.parameters(), self.first.weight)
        return [(p.data_ptr(), p._version, _sample(p.detach())) for p in used]


def _sample(weight: Tensor) -> float:
    """A sum over some of the numbers of a table."""
    numbers = weight.flatten()
    return float(numbers[:: max(len(numbers) // SAMPLE, 1)].sum())
