"""Classifiers of texts and of pairs, composed: embedding → encoder → read-out → head."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wordwave import complex as cx
from wordwave.embedding import Embedding, WaveEmbedding, build
from wordwave.embedding.summed import Added, bigrams_of, has_kernels, summed
from wordwave.embedding.table import Bigrams
from wordwave.embedding.views import WaveViews
from wordwave.embedding.wave import has_no_values
from wordwave.errors import WordwaveError
from wordwave.layers import (
    LSTM,
    RNN,
    BatchNorm,
    Conv1d,
    Dropout,
    Field,
    LayerNorm,
    Linear,
    Sharing,
    n_parts,
    side_by_side,
    word_mask,
)
from wordwave.layers.norm import norm_class
from wordwave.models.config import ClassifierConfig, ModelConfig, PairModelConfig
from wordwave.models.ngrams import NgramLogits
from wordwave.models.utils import transformer_layer
from wordwave.models.windows import can_pool_windows, pool_windows
from wordwave.text.batching import Batch
from wordwave.text.vocabulary import PADDING_ID


def pool_sum(x: Tensor, mask: Tensor) -> Tensor:
    """Shape: x (B, L, W), mask (B, L) -> (B, W)"""
    return (x * mask.unsqueeze(-1)).sum(dim=1)


def pool_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Shape: x (B, L, W), mask (B, L) -> (B, W)"""
    return pool_sum(x, mask) / mask.sum(1, keepdim=True).clamp(min=1)


def pool_max(x: Tensor, mask: Tensor) -> Tensor:
    """Shape: x (B, L, W), mask (B, L), true at least once in each row -> (B, W)"""
    return x.masked_fill(~mask.unsqueeze(-1), -math.inf).amax(dim=1)


class Bag(nn.Module):
    """Pooled embeddings: word order counts only as far as the embedding encodes it."""

    def __init__(self, config: ModelConfig, field: Field) -> None:
        super().__init__()
        self.pool = {"sum": pool_sum, "mean": pool_mean, "max": pool_max}[config.pooling]
        self.out_dim = n_parts(field) * config.dim

    def hidden_states(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        """What is pooled, a vector a word. Shape: x (B, L, W), mask (B, L) -> (B, L, out)"""
        return x

    def forward(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        """Shape: x (B, L, W), mask (B, L) -> (B, out)"""
        return self.pool(self.hidden_states(x, mask, positions), mask)


class ScaledBag(Bag):
    """The sum of the embeddings divided by √length: of the same size for short and long texts, as
    random vectors add up, while a mean would shrink."""

    vector_lr_scale = 10.0
    """Word vectors are in few batches, and start small, so that what they were drawn as hardly
    counts: they learn faster than other weights."""

    def forward(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        """Shape: x (B, L, W), mask (B, L) -> (B, out)"""
        return pool_sum(x, mask) / mask.sum(1, keepdim=True).clamp(min=1).sqrt()


class Recurrent(Bag):
    """A bidirectional LSTM, or basic RNN (Eq. 11), and mean or max pooling."""

    def __init__(self, config: ModelConfig, field: Field) -> None:
        super().__init__(config, field)
        self.lstm = (RNN if config.encoder == "rnn" else LSTM)(
            config.dim,
            config.state_dim or config.dim,
            n_layers=config.n_layers,
            bidirectional=True,
            dropout=config.dropout,
            field=field,
            share=config.share,
        )
        if config.pooling == "sum":
            self.pool = pool_mean
        self.out_dim = n_parts(field) * self.lstm.out_dim

    def hidden_states(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        return self.lstm(x, mask.sum(1))[0]


class Transformer(Bag):
    """Pre-norm Transformer layers, a final norm, and pooling."""

    norm: LayerNorm | BatchNorm

    def __init__(self, config: ModelConfig, field: Field) -> None:
        super().__init__(config, field)
        self.layers = nn.ModuleList(transformer_layer(config) for _ in range(config.n_layers))
        self.norm = norm_class(config.normalization)(config.dim, field=field)

    def hidden_states(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            x, _ = layer(x, mask=mask, positions=positions)
        return self.norm(x, mask) if isinstance(self.norm, BatchNorm) else self.norm(x)


class CNN(nn.Module):
    """Convolutions of several widths, ReLU and max pooling over the sentence.

    Windows are wide, every one that has a word in it, with zeros on both sides of the sentence, or
    narrow, those that lie within it.
    """

    def __init__(self, config: ModelConfig, field: Field) -> None:
        super().__init__()
        self.field: Field = field
        self.widths, self.is_wide = config.widths, config.padding == "wide"
        sizes = config.dim, config.n_filters
        self.convolutions = nn.ModuleList(
            Conv1d(*sizes, k, padding=(k - 1) * self.is_wide, field=field, share=config.share)
            for k in config.widths
        )
        self.out_dim = n_parts(field) * config.n_filters * len(config.widths)

    def forward(self, x: Tensor, mask: Tensor, positions: Tensor | None = None) -> Tensor:
        """Shape: x (B, L, W), mask (B, L) -> (B, parts·filters·widths)"""
        lengths = mask.sum(1)
        if not self.is_wide:
            x = F.pad(x, (0, 0, 0, max(max(self.widths) - x.shape[1], 0)))
        pooled = []
        for convolution, width in zip(self.convolutions, self.widths, strict=True):
            assert isinstance(convolution, Conv1d)
            # A sentence shorter than the filter still has one window, padded with zeros.
            windows = (lengths + 2 * convolution.padding - width + 1).clamp(min=1)
            if can_pool_windows(x, convolution):
                pooled.append(pool_windows(x, convolution, windows))
                continue
            # Wide windows reach beyond the sentence, where words are 0.
            y = F.relu(convolution(x * mask.unsqueeze(-1) if self.is_wide else x))
            pooled.append(pool_max(y, word_mask(windows, y.shape[1])))
        return side_by_side(self.field, pooled)


_ENCODERS: dict[str, Any] = {
    "bag": ScaledBag,
    "fasttext": Bag,
    "cnn": CNN,
    "lstm": Recurrent,
    "rnn": Recurrent,
    "transformer": Transformer,
}


SMALL = 1 << 22
"""Products of so many numbers take less time in fp32 than their conversion to bf16."""


class Head(nn.Sequential):
    """Real layers from vectors of sentences to logits, with one hidden layer or none.

    Args:
        hidden_dim: units of the hidden layer; 0 for none.
        dropout: probability before each linear layer.
        max_norm: weight vectors of classes that are longer are scaled to this length in training,
            as those of `torch.nn.Embedding`; 0 for no limit.
    """

    def __init__(
        self, in_dim: int, hidden_dim: int, out_dim: int, *, dropout: float, max_norm: float = 0.0
    ) -> None:
        # Of wide vectors, the mask of nn.Dropout would take a tenth of the training.
        layers: list[nn.Module] = [Dropout(dropout, field="real")]
        if hidden_dim:
            layers += [nn.Linear(in_dim, hidden_dim), nn.ReLU(), Dropout(dropout, field="real")]
        super().__init__(*layers, nn.Linear(hidden_dim or in_dim, out_dim))
        self.max_norm = max_norm
        self.n_weights = max(hidden_dim * in_dim, (hidden_dim or in_dim) * out_dim)

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (B, in_dim) -> (B, out_dim)"""
        if self.max_norm and self.training:
            last = self[-1]
            assert isinstance(last, nn.Linear)
            with torch.no_grad():
                last.weight.copy_(torch.renorm(last.weight, 2, 0, self.max_norm))
        if x.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
            is_small = len(x) * self.n_weights <= SMALL
            with torch.autocast("cpu", enabled=not is_small):
                return super().forward(x)  # type: ignore[no-untyped-call]
        return super().forward(x)  # type: ignore[no-untyped-call]


class Magnitude(nn.Module):
    """|z| of complex numbers."""

    def forward(self, z: Tensor) -> Tensor:
        """Shape: (..., 2·D) -> (..., D)"""
        return cx.magnitude(z)


class ComplexHead(nn.Sequential):
    """Complex layers from vectors of sentences to a complex number for each class, whose magnitude
    is the logit: "taking their norm as the final prediction" (App. B).

    Args:
        in_dim, hidden_dim: widths, in complex numbers; hidden_dim 0 for no hidden layer.
        dropout: probability before each linear layer, of both parts together.
        share: as in `Linear`.
    """

    def __init__(
        self, in_dim: int, hidden_dim: int, out_dim: int, *, dropout: float, share: Sharing
    ) -> None:
        layers: list[nn.Module] = [Dropout(dropout)]
        if hidden_dim:
            layers += [Linear(in_dim, hidden_dim, share=share), nn.ReLU(), Dropout(dropout)]
        super().__init__(*layers, Linear(hidden_dim or in_dim, out_dim, share=share), Magnitude())


class SentenceModel(nn.Module):
    """A real vector for each sentence of word ids: embedding → encoder → read-out."""

    def __init__(self, config: ModelConfig, vocab_size: int, **options: Any) -> None:
        super().__init__()
        self.config = config
        self.embedding = self._build_embedding(vocab_size, padding_idx=PADDING_ID, **options)
        field = self.embedding.field
        self.dropout: nn.Module = Dropout(config.word_vector_dropout, field=field)
        if isinstance(config, ClassifierConfig) and config.encoder == "bag":
            self.dropout = nn.Identity()  # dropout is applied to the sum, in the head
            self._make_bag(config)
        width = self.embedding.out_dim // n_parts(field)
        self.encoder = _ENCODERS[config.encoder](replace(config, dim=width), field)
        self.by_magnitude = field == "complex" and config.readout == "magnitude"
        self.sentence_dim = self.encoder.out_dim // 2 if self.by_magnitude else self.encoder.out_dim
        self.block = config.dim if config.encoder == "fasttext" else self.sentence_dim

    def _build_embedding(self, vocab_size: int, **options: Any) -> Embedding:
        config = self.config
        sizes = vocab_size, config.dim
        return build(config.embedding, *sizes, max_length=config.max_length, **options)

    def _make_bag(self, config: ClassifierConfig) -> None:
        """Bigrams beside the words, and the learning rate of both."""
        embedding = self.embedding
        words = embedding.amplitude if isinstance(embedding, WaveEmbedding) else embedding.words
        words.lr_scale = ScaledBag.vector_lr_scale
        if isinstance(embedding, WaveViews) and embedding.context is not None:
            embedding.context.lr_scale = ScaledBag.vector_lr_scale
        if config.n_bigrams and words.per_word:
            sizes = config.n_bigrams, config.dim
            options: dict[str, Any] = {"sparse": words.sparse, "dropout": config.bigram_dropout}
            words.bigrams = Bigrams(*sizes, n_words=embedding.vocab_size, **options)
            words.bigrams.lr_scale = ScaledBag.vector_lr_scale

    @property
    def bigrams(self) -> Bigrams | None:
        """Of a bag, the table of pairs of neighbours, if it has one."""
        embedding = self.embedding
        words = embedding.amplitude if isinstance(embedding, WaveEmbedding) else embedding.words
        return words.bigrams

    def sentence_vectors(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        """Shape: ids (B, L), positions (B, L) or None for 1 … L -> (B, sentence_dim)"""
        embedding, mask = self.embedding, ids != PADDING_ID
        if self._is_sum and isinstance(embedding, WaveViews) and not self._drops:
            x = embedding.summed(ids, positions)
            x = x / mask.sum(1, keepdim=True).clamp(min=1) ** self._power
        else:
            x = self._encode(self.dropout(embedding(ids, positions)), mask, positions)
        return cx.magnitude(x) if self.by_magnitude else x

    def normalized(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        """Sentence vectors, layer-normalized in blocks. Shape: (B, L) -> (B, sentence_dim)"""
        vectors = self.sentence_vectors(ids, positions).unflatten(-1, (-1, self.block))
        return F.layer_norm(vectors, (self.block,)).flatten(-2)

    def added_bigrams(self, batch: Batch) -> Added | None:
        """What `batch_vectors` adds to the words of sentences."""
        # Graphs and torch.func have no kernels, and bigrams are then found in padded sentences.
        if self.bigrams is None or not self.sums_words or has_no_values(batch.ids):
            return None
        return bigrams_of(self.bigrams, batch)

    def batch_vectors(self, batch: Batch, added: Added | None = None) -> Tensor:
        """`sentence_vectors` of sentences without padding; `added` are their `added_bigrams`, if
        these are known. Shape: (B, sentence_dim)"""
        added = added or self.added_bigrams(batch)
        if not self.sums_words or (self.bigrams is not None and added is None):
            return self.sentence_vectors(*batch.padded())
        x = summed(self.embedding, batch, **self.sum_options(), added=added)
        return cx.magnitude(x) if self.by_magnitude else x

    def sum_options(self) -> dict[str, float]:
        """How a model that `sums_words` does it: options of `summed`."""
        dropout = self.config.word_vector_dropout if self._drops else 0.0
        return {"power": self._power, "dropout": dropout}

    @property
    def _power(self) -> float:
        """Of the length that a sum is divided by."""
        if isinstance(self.encoder, ScaledBag):
            return 0.5
        return 1.0 if self.config.pooling == "mean" else 0.0

    @property
    def sums_words(self) -> bool:
        """Whether sentences need no padding."""
        if not self._is_sum or isinstance(self.embedding, WaveViews):
            return False
        # Without kernels, bigrams are found in padded sentences.
        return self.bigrams is None or has_kernels(self.embedding, self.bigrams)

    @property
    def _is_sum(self) -> bool:
        is_bag = type(self.encoder) is Bag and self.config.pooling != "max"
        return is_bag or type(self.encoder) is ScaledBag

    @property
    def _drops(self) -> bool:
        return self.training and not isinstance(self.dropout, nn.Identity)

    def _encode(self, x: Tensor, mask: Tensor, positions: Tensor | None) -> Tensor:
        return self.encoder(x, mask, positions)

    def _head(self, in_dim: int, out_dim: int) -> Head | ComplexHead:
        config = self.config
        if config.readout == "logit-magnitude" and self.embedding.field == "complex":
            options: dict[str, Any] = {"dropout": config.dropout, "share": config.share}
            return ComplexHead(in_dim // 2, config.hidden_dim, out_dim, **options)
        options = {"dropout": self.config.dropout, "max_norm": self.config.max_norm}
        return Head(in_dim, self.config.hidden_dim, out_dim, **options)


class Classifier(SentenceModel):
    """Logits for sentences of word ids, padded with 0; options are passed on to the embedding."""

    def __init__(
        self, config: ModelConfig, vocab_size: int, n_classes: int, **options: Any
    ) -> None:
        super().__init__(config, vocab_size, **options)
        self.n_classes = n_classes
        self.head = self._head(self.sentence_dim, n_classes)
        self.ngrams: NgramLogits | None = None
        if config.has_ngrams:
            assert isinstance(config, ClassifierConfig)
            sizes = {"n_bigrams": config.n_bigrams or 0, "n_subwords": config.n_subwords or 0}
            self.ngrams = NgramLogits(vocab_size, n_classes, **sizes)
            self.register_buffer("scale", torch.ones(()))

    scale: Tensor
    """What the logits of the head are multiplied by before those of n-grams are added."""

    def forward(
        self,
        ids: Tensor | Batch,
        positions: Tensor | None = None,
        unknown: Tensor | None = None,
    ) -> Tensor:
        """Args: unknown: of a model with `ngrams`, its `sums_of_unknown` words.

        Shape: ids (B, L), positions (B, L) or None for 1 … L; or a batch -> (B, n_classes)
        """
        added = None
        if isinstance(ids, Batch):
            added = self.added_bigrams(ids)
            logits = self.head(self.batch_vectors(ids, added))
        else:
            logits = self.head(self.sentence_vectors(ids, positions))
        if self.ngrams is None or self.training:  # they are fitted after the head
            return logits
        return self.scale * logits + self.ngram_logits(ids, unknown, added)

    def ngram_logits(
        self, ids: Tensor | Batch, unknown: Tensor | None = None, added: Added | None = None
    ) -> Tensor:
        """The part of the logits that does not depend on positions; `added` as of `batch_vectors`.

        Shape: (B, n_classes)
        """
        assert self.ngrams is not None
        if isinstance(ids, Batch):
            pairs = None if added is None else added.rows
            return self.ngrams.of_batch(ids, self.bigrams, unknown, pairs)
        return self.ngrams(ids, None if self.bigrams is None else self.bigrams.pairs(ids), unknown)


class PairNetwork(SentenceModel):
    """Logits for pairs of sentences: both by the same encoder, normalized, compared, classified.

    Of the vectors u and v, layer-normalized in blocks of the embedding's width, the head sees
    |u − v|, u∘v and u + v, which do not depend on the order of the pair, or |u − v|, u∘v, u and v.
    """

    def __init__(
        self, config: PairModelConfig, vocab_size: int, n_classes: int, **options: Any
    ) -> None:
        super().__init__(config, vocab_size, **options)
        self.n_classes, self.symmetric = n_classes, config.symmetric
        self.dropout = nn.Identity()  # word vectors are compared as they are
        width = (3 if self.symmetric else 4) * self.sentence_dim
        self.head = self._head(width, n_classes)

    def forward(
        self, first: Tensor, second: Tensor, positions: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """Shape: first (B, L), second (B, M), positions of both or None -> (B, n_classes)"""
        of_first, of_second = positions or (None, None)
        u, v = self.normalized(first, of_first), self.normalized(second, of_second)
        return self.compare(u, v)

    def compare(self, u: Tensor, v: Tensor) -> Tensor:
        """Logits of pairs of normalized vectors. Shape: two (B, sentence_dim) -> (B, n_classes)"""
        both = [u + v] if self.symmetric else [u, v]
        return self.head(torch.cat([(u - v).abs(), u * v, *both], dim=-1))


class Tagger(Classifier):
    """Logits of every word of a sentence, (B, L, n_classes), from its hidden state."""

    def __init__(self, config: ModelConfig, *sizes: int, **options: Any) -> None:
        if config.encoder not in ("lstm", "rnn", "transformer"):
            raise WordwaveError(
                f"a tagger needs the encoder 'lstm', 'rnn' or 'transformer', got {config.encoder!r}"
            )
        super().__init__(config, *sizes, **options)

    def _encode(self, x: Tensor, mask: Tensor, positions: Tensor | None) -> Tensor:
        return self.encoder.hidden_states(x, mask, positions)
