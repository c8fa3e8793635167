"""Fast prediction with a bag of words, by caching the first layer.

In a trained model, what a word at a position adds to the first layer after the bag is constant, and
texts repeat the same words at the same positions. So it is computed once for each (word, position)
pair and cached; a sentence is then a sum of a few short rows.
"""

from __future__ import annotations

from threading import Lock

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave.errors import WordwaveError
from wordwave.models.classifier import Classifier
from wordwave.models.utils import eval_mode
from wordwave.text.batching import Sentences

MAX_POSITIONS = 128
"""Longest sentence, in words."""
MAX_UNITS = 1 << 11
"""Widest first layer."""
MAX_WORDS = 1 << 20
"""Largest vocabulary."""
MAX_ROWS = 1 << 17
"""Cached pairs; when there are more, the cache is cleared."""
NEW, SEEN_ONCE = -1, -2
"""Instead of a row: a pair is cached when it occurs for the second time."""
SAMPLE = 4096
"""Numbers of each table that are compared to detect a change."""
BLOCK = 512
"""Pairs computed at a time: few enough to stay in the CPU cache."""


class CachedBag:
    """The logits of a `fasttext` classifier over real numbers or with the readout `concat`.

    Equal to calling the model, up to the rounding of sums in another order.
    """

    def __init__(self, model: Classifier) -> None:
        if not self.supports(model):
            raise WordwaveError(
                "model must have the encoder 'fasttext' and the readout 'concat' or real numbers, "
                f"got {model.config.encoder!r} and {model.config.readout!r}"
            )
        self.model = model
        _, first, *rest = model.head
        assert isinstance(first, nn.Linear)
        self.first, self.rest = first, nn.Sequential(*rest)
        self.rows = torch.empty(MAX_ROWS, first.out_features)
        self.n_words = model.embedding.vocab_size
        self.slots = torch.empty(MAX_POSITIONS * self.n_words, dtype=torch.long)
        self.n_rows = 0
        self.lock = Lock()  # a server may call it from several threads
        self._clear()

    @staticmethod
    def supports(model: Classifier) -> bool:
        """Whether a model is a plain sum up to its first layer, and the cache of modest size."""
        weight = next(model.head.parameters())
        plain = weight.device.type == "cpu" and weight.dtype == torch.float32
        if len(weight) > MAX_UNITS or model.embedding.vocab_size > MAX_WORDS:
            return False
        # The word's position alone must decide what it adds.
        counts_from_start = model.config.embedding.views == ("start",)
        is_sum = model.config.encoder == "fasttext" and not model.by_magnitude
        is_sum = is_sum and model.config.pooling != "max"
        return plain and is_sum and counts_from_start

    def accepts(self, sentences: Sentences) -> bool:
        """Whether these sentences are short and few enough."""
        return int(sentences.lengths.max()) <= MAX_POSITIONS and len(sentences.ids) < MAX_ROWS

    def logits(self, sentences: Sentences) -> Tensor:
        """Shape: N sentences that it `accepts` -> (N, n_classes)"""
        with self.lock, eval_mode(self.model):
            if self._fingerprint() != self.fingerprint:  # trained since
                self._clear()
            owner = torch.arange(len(sentences)).repeat_interleave(sentences.lengths)
            positions = torch.arange(len(owner)) - sentences.starts[owner]
            pairs = positions * self.n_words + sentences.ids
            if self.n_rows + int((self.slots[pairs] < 0).sum()) > MAX_ROWS:
                self._clear()
            tokens = (self.slots[pairs] < 0).nonzero().squeeze(1)
            new, which, counts = pairs[tokens].unique(return_inverse=True, return_counts=True)
            repeated = (counts > 1) | (self.slots[new] == SEEN_ONCE)
            self._cache(new[repeated])
            self.slots[new[~repeated]] = SEEN_ONCE
            sums = F.embedding_bag(
                self.slots[pairs].clamp(min=0), self.rows, sentences.starts, mode="sum"
            )
            token_of = tokens.new_empty(len(new)).scatter_(0, which, tokens)
            sums += self._uncached(new[~repeated], owner[token_of[~repeated]], len(sentences))
            if self.model.config.pooling == "mean":
                sums /= sentences.lengths.unsqueeze(1)
            return self.rest(sums + self.first.bias)

    def _uncached(self, pairs: Tensor, owner: Tensor, n: int) -> Tensor:
        """What pairs that occur for the first time add to their sentences.

        Shape: pairs (k,), owner (k,) -> (n, first layer)
        """
        sums = torch.zeros(n, self.first.in_features)
        for block, rows in zip(pairs.split(BLOCK), owner.split(BLOCK), strict=True):
            sums.index_add_(0, rows, self._embed(block))
        return sums @ self.first.weight.T

    def _cache(self, pairs: Tensor) -> None:
        for block in pairs.split(BLOCK):
            end = self.n_rows + len(block)
            rows = self.rows[self.n_rows : end]
            torch.mm(self._embed(block), self.first.weight.T, out=rows)
            self.slots[block] = torch.arange(self.n_rows, end)
            self.n_rows = end

    def _embed(self, pairs: Tensor) -> Tensor:
        return self.model.embedding(pairs % self.n_words, pairs // self.n_words + 1)

    def _clear(self) -> None:
        self.slots.fill_(NEW)
        self.rows[0] = 0  # for pairs that are not cached
        self.n_rows = 1
        self.fingerprint = self._fingerprint()

    def _fingerprint(self) -> list[tuple[int, int, float]]:
        """Changes when a weight does.

        Fused optimizers and `.data` change weights without a new version: a sample detects them.
        """
        used = (*self.model.embedding.parameters(), self.first.weight)
        numbers = [p.detach().flatten() for p in used]
        samples = [float(n[:: max(len(n) // SAMPLE, 1)].sum()) for n in numbers]
        return [(p.data_ptr(), p._version, s) for p, s in zip(used, samples, strict=True)]
