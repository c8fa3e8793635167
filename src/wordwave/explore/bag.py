"""A bag-of-waves classifier as a page can compute it: tables stored small, and a list of layers.

`Bag.describe` turns a trained classifier into this description, `Bag.probabilities` computes it in
numpy, and static/arithmetic.js does the same in a browser. What they cannot compute is refused.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from wordwave.angle import sinusoidal
from wordwave.embedding import WaveEmbedding
from wordwave.embedding.positional import (
    ComplexEmbedding,
    LearnedPositionEmbedding,
    SinusoidalPositionEmbedding,
    WordEmbedding,
)
from wordwave.embedding.table import Table
from wordwave.embedding.views import WINDOW, WaveViews
from wordwave.errors import WordwaveError
from wordwave.explore.quantization import Array, Stored, by_columns, by_rows, by_table
from wordwave.layers import Dropout
from wordwave.models.classifier import Bag as Pool
from wordwave.models.classifier import Classifier
from wordwave.tasks.classifier import TextClassifier, logits_of
from wordwave.text.batching import Sentences
from wordwave.text.encoder import TextEncoder
from wordwave.text.tokenizers import KimTokenizer, PlainTokenizer

Precision = Literal["int8", "float16", "float32"]
LONGEST = 256
"""Words of a sentence that an explorer shows: longer texts are cut."""
N_CHECKED = 200
"""Random sentences on which the description is compared with the model."""
MOST_DIFFERENCE = 1e-4
"""Of a probability that numpy and PyTorch compute from the same weights."""
MANY_PAIRS = 1 << 22
"""Vectors of pairs with more numbers than this are stored in 15 levels instead of 255: 100,000
pairs of 128 dimensions take 2 MB of the page instead of 11."""
ELSEWHERE = "; without --html the explorer computes it in PyTorch"


class Bag:
    """A classifier that sums words: its tables, and the layers from ids to probabilities.

    Args:
        tables: as stored.
        layers: each a dict with the name of its operation, `op`, and of its tables.
        n_rows: the number of words.
    """

    def __init__(
        self, tables: dict[str, Stored], layers: list[dict[str, Any]], n_rows: int
    ) -> None:
        self.tables, self.layers, self.n_rows = tables, layers, n_rows
        self.rows_of: dict[str, Array] = {}
        """Of tables that do not have all rows of the model's, those that they have."""
        self.values = {name: table.restored() for name, table in tables.items()}

    @classmethod
    def describe(cls, classifier: TextClassifier, precision: Precision = "int8") -> Bag:
        """The description of a trained classifier; one that a page cannot compute is refused.

        Args:
            precision: of amplitudes and word vectors; `"float32"` stores everything as it is.
        """
        check_texts(classifier.encoder)
        return _Builder(classifier.model, precision).bag()

    def probabilities(self, ids: Sequence[int]) -> Array:
        """The probabilities of the classes, in float64. Shape: L ids -> (n_classes,)"""
        x = np.zeros((0, 0))
        for layer in self.layers:
            x = self._apply(layer, x, np.asarray(ids))
        return x

    def _apply(self, layer: dict[str, Any], x: Array, ids: Array) -> Array:
        op = layer["op"]
        if op == "waves":
            return self._waves(layer, ids)
        if op == "words":
            return self._words(layer, ids)
        if op == "pool":
            share = {"sum": 1.0, "mean": len(x), "sqrt": math.sqrt(len(x))}
            return x.max(axis=0) if layer["kind"] == "max" else x.sum(axis=0) / share[layer["kind"]]
        if op == "magnitude":
            return np.hypot(*np.split(x, 2))
        if op == "linear":
            weight, bias = (self.values[layer[name]] for name in ("weight", "bias"))
            return weight.astype(np.float64) @ x + bias[0]
        if op == "relu":
            return np.maximum(x, 0)
        if op == "ngrams":
            return layer["scale"] * x + self._ngrams(layer, ids)
        assert op == "softmax"
        grown = np.exp(x - x.max())
        return grown / grown.sum()

    def _rows(self, name: str, ids: Array) -> Array:
        """Shape: L ids -> (L, D), or what broadcasts to it"""
        table = self.values[name].astype(np.float64)
        return table[ids] if len(table) > 1 or self.n_rows == 1 else table

    def _waves(self, layer: dict[str, Any], ids: Array) -> Array:
        """r·r₁^p·e^{i(ω·p + θ)} for each view, and r·e^{iθ} times the sum of the words before for
        the view context. Shape: L ids -> (L, 2·D·views)"""
        start = np.arange(1.0, len(ids) + 1)[:, None]
        counted = {
            "start": start,
            "end": len(ids) + 1 - start,
            "relative": start / (len(ids) + 1),
        }
        size = self._rows(layer["amplitude"], ids) + self._bigrams(layer, ids)
        if layer["damping"]:
            size = size * np.exp(-np.logaddexp(0, self._rows(layer["damping"], ids)) * start)
        phase = self._rows(layer["phase"], ids) if layer["phase"] else 0.0
        parts = []
        for view in layer["views"]:
            if view["position"] == "context":
                z = size * np.exp(1j * phase) * self._contexts(view, ids)
                parts.append((z.real, z.imag))
                continue
            angle = self._rows(view["frequency"], ids) * counted[view["position"]] + phase
            parts.append((size * np.cos(angle), size * np.sin(angle)))
        return np.concatenate([part[i] for i in range(2) for part in parts], axis=1)

    def _contexts(self, view: dict[str, Any], ids: Array) -> Array:
        """√D·Σ_k c_k·(r₁·e^{iω})^(j − k) over the words k up to `WINDOW` places before word j, by
        h_j = r₁·e^{iω}·(h_{j−1} + c_{j−1}) and without what leaves the window.

        Shape: L ids -> (L, D), complex
        """
        words = self._rows(view["vectors"], ids)
        words = math.sqrt(words.shape[1]) * words
        frequency, damping = (
            self.values[view[name]][0].astype(np.float64) for name in ("frequency", "damping")
        )
        step = np.exp(1j * frequency - np.logaddexp(0, damping))
        step = step.repeat(words.shape[1] // len(step))
        found = np.zeros(words.shape, dtype=complex)
        for j in range(1, len(ids)):
            found[j] = step * (found[j - 1] + words[j - 1])
            if j > WINDOW:
                found[j] -= step ** (WINDOW + 1) * words[j - WINDOW - 1]
        return found

    def _bigrams(self, layer: dict[str, Any], ids: Array) -> Array | float:
        """Vectors of pairs of neighbours, added to the second. Shape: L ids -> (L, D)"""
        pairs = layer["bigrams"]
        if not pairs:
            return 0.0
        vectors = self.values[pairs["vectors"]]
        found = np.zeros((len(ids), vectors.shape[1]))
        for i, pair in enumerate(pairwise(ids.tolist()), start=1):
            if pair in self._row_of:
                found[i] = pairs["scale"] * vectors[self._row_of[pair]].astype(np.float64)
        return found

    @cached_property
    def _row_of(self) -> dict[tuple[int, int], int]:
        """The row of each pair of ids that has one."""
        pairs = self.values["pairs"].tolist() if "pairs" in self.values else []
        return {(first, second): i for i, (first, second) in enumerate(pairs)}

    def _ngrams(self, layer: dict[str, Any], ids: Array) -> Array:
        """The logits of `NgramLogits`, without n-grams of unknown words. Shape: L ids -> (C,)"""

        def total(name: str, rows: Any) -> Array:
            return self.values[layer[name]][rows].sum(axis=0, dtype=np.float64)

        of_words, of_subwords = np.split(total("words", np.unique(ids)), 2)
        if layer["bigrams"]:
            known = {self._row_of[pair] for pair in pairwise(ids.tolist()) if pair in self._row_of}
            of_words = of_words + total("bigrams", list(known))
        found = total("bias", slice(None))
        for sums in (of_words, of_subwords):
            found = found + sums[:-1] / math.sqrt(max(sums[-1], 1e-12))
        return found

    def _words(self, layer: dict[str, Any], ids: Array) -> Array:
        """Word vectors, with position vectors added. Shape: L ids -> (L, D), complex (L, 2·D)"""
        x = self._rows(layer["vectors"], ids) + self._bigrams(layer, ids)
        if layer["positions"]:
            x = x + self.values[layer["positions"]].astype(np.float64)[1 : len(ids) + 1]
        if layer["phase"]:
            angle = self._rows(layer["phase"], ids)
            x = np.concatenate([x * np.cos(angle), x * np.sin(angle)], axis=1)
        return x

    def rounded(self, classifier: TextClassifier) -> TextClassifier:
        """The classifier with the rounded weights, in PyTorch: what the page must agree with."""
        model = copy.deepcopy(classifier.model)
        state = model.state_dict()
        for name, values in self.values.items():
            if name in self.rows_of:
                state[name][self.rows_of[name]] = torch.from_numpy(values)
            elif name in state:
                state[name] = torch.from_numpy(values).view_as(state[name])
        model.load_state_dict(state)
        return TextClassifier(
            model.eval(), classifier.encoder, classifier.labels, classifier.config
        )

    def check(self, classifier: TextClassifier) -> tuple[float, float]:
        """The largest difference between this and PyTorch with the same rounded weights, refused
        if it is more than rounding, and between the rounded and the original model: of the
        probabilities of random sentences."""
        rng = np.random.default_rng(0)
        longest = min(classifier.encoder.max_length, 40)
        lengths = rng.integers(1, longest + 1, N_CHECKED)
        rows = [rng.integers(1, self.n_rows, n).tolist() for n in lengths]
        if len(pairs := self.values.get("pairs", np.zeros((0, 2)))):  # which are rare otherwise
            for row in rows[1::2]:
                row[:2] = pairs[rng.integers(len(pairs))].tolist()
        for row in rows[::3]:  # repeated words and pairs, which count once as n-grams
            row[len(row) // 2 :] = row[: len(row) - len(row) // 2]
        ours = np.stack([self.probabilities(row) for row in rows])
        sentences = Sentences.from_lists(rows)

        def found(one: TextClassifier) -> Array:
            return logits_of(one.model, sentences).double().softmax(-1).numpy()

        same, original = found(self.rounded(classifier)), found(classifier)
        difference = float(np.abs(ours - same).max())
        if not difference <= MOST_DIFFERENCE:  # NaN too
            raise WordwaveError(
                f"a page does not reproduce this model (probabilities differ by {difference:.1g})"
                + ELSEWHERE
            )
        return difference, float(np.abs(same - original).max())


def check_texts(encoder: TextEncoder) -> None:
    """Refuse a way to split and number texts that a page does not have."""
    kinds = (PlainTokenizer, KimTokenizer)
    if type(encoder) is not TextEncoder or type(encoder.tokenizer) not in kinds:
        kind = getattr(encoder.tokenizer, "kind", type(encoder).__name__)
        raise WordwaveError(
            f"a page splits texts by the tokenizers plain and kim, got {kind!r}{ELSEWHERE}"
        )
    text = " ".join(encoder.vocabulary.words[:50])
    expected = encoder.vocabulary.ids(encoder.tokenizer(text), hashed=encoder.hashed)
    if encoder.encode([text]).sentences.ids.tolist() != expected[: encoder.max_length]:
        raise WordwaveError(f"a page cannot compute the ids of these words{ELSEWHERE}")


def pooling_of(model: nn.Module) -> str | None:
    """How a model pools its word vectors: sum, mean, max or sqrt, the sum divided by √length;
    `None` for an encoder that does not only pool."""
    encoder: Any = model.encoder
    if type(encoder).__name__ == "ScaledBag":
        return "sqrt"
    return model.config.pooling if type(encoder) is Pool else None  # type: ignore[union-attr, return-value]


class _Builder:
    """Collects the tables and layers of a model."""

    def __init__(self, model: Classifier, precision: Precision) -> None:
        self.model, self.precision = model, precision
        self.longest = min(model.config.max_length, LONGEST)
        self.tables: dict[str, Stored] = {}
        self.rows_of: dict[str, Array] = {}
        self.names = {id(p): name for name, p in model.named_parameters()}

    def bag(self) -> Bag:
        model, config = self.model, self.model.config
        if type(model) is not Classifier or pooling_of(model) is None:
            raise WordwaveError(
                f"a page computes sums of words only, got encoder {config.encoder!r}{ELSEWHERE}"
            )
        layers = [self._embedding(), {"op": "pool", "kind": pooling_of(model)}]
        if model.by_magnitude:
            layers.append({"op": "magnitude"})
        layers += [entry for layer in model.head for entry in self._layer(layer)]
        layers += self._ngrams(layers[0]["bigrams"])
        bag = Bag(self.tables, [*layers, {"op": "softmax"}], model.embedding.vocab_size)
        bag.rows_of = self.rows_of
        return bag

    def _embedding(self) -> dict[str, Any]:
        embedding = self.model.embedding
        if type(embedding) is WaveViews or type(embedding) is WaveEmbedding:
            views = getattr(embedding, "views", ("start",))
            more = getattr(embedding, "more_frequencies", ())
            counted: list[dict[str, Any]] = [
                {"position": view, "frequency": self._turning(table, view)}
                for view, table in zip(views, (embedding.frequency, *more), strict=True)
            ]
            if isinstance(embedding, WaveViews) and embedding.context is not None:
                counted[views.index("context")] |= {
                    "vectors": self._sized(embedding.context),
                    "damping": self._plain(*self._named(embedding.context_damping)),
                    "window": WINDOW,
                }
            return {
                "op": "waves",
                "amplitude": self._sized(embedding.amplitude),
                "bigrams": self._pairs(embedding.amplitude),
                "phase": embedding.phase and self._turning(embedding.phase, "phase"),
                "damping": embedding.damping and self._turning(embedding.damping, "start"),
                "views": counted,
            }
        layer = {"op": "words", "positions": None, "phase": None}
        if type(embedding) is ComplexEmbedding:
            layer["phase"] = self._turning(embedding.phase, "phase")
        elif type(embedding) is SinusoidalPositionEmbedding:
            layer["positions"] = self._plain("positions", _sinusoids(embedding, self.longest))
        elif type(embedding) is LearnedPositionEmbedding:
            layer["positions"] = self._plain(
                "positions", embedding.places.detach().float().numpy()[: self.longest + 1]
            )
        elif type(embedding) is not WordEmbedding:
            raise WordwaveError(
                f"a page cannot compute the embedding {type(embedding).__name__}{ELSEWHERE}"
            )
        assert isinstance(embedding, WordEmbedding)
        pairs = self._pairs(embedding.words)
        return layer | {"vectors": self._sized(embedding.words), "bigrams": pairs}

    def _layer(self, layer: nn.Module) -> list[dict[str, Any]]:
        if isinstance(layer, (nn.Dropout, Dropout, nn.Identity)):
            return []
        if type(layer) is nn.ReLU:
            return [{"op": "relu"}]
        if type(layer) is nn.Linear:
            weight, bias = layer.weight, layer.bias
            if bias is not None:
                names = self.names[id(weight)], self.names[id(bias)]
                self._plain(names[0], weight.detach().float().cpu().numpy())
                self._plain(names[1], bias.detach().float().cpu().numpy()[None])
                return [{"op": "linear", "weight": names[0], "bias": names[1]}]
        raise WordwaveError(f"a page cannot compute the layer {type(layer).__name__}{ELSEWHERE}")

    def _plain(self, name: str, values: Array) -> str:
        self.tables[name] = Stored(np.ascontiguousarray(values, np.float32))
        return name

    def _sized(self, table: Table) -> str:
        """Amplitudes or word vectors."""
        name, values = self._named(table)
        if self.precision == "float32" or len(values) == 1 or values.shape[1] == 1:
            return self._plain(name, values)
        half = self.precision == "float16"
        if half and float(np.abs(values).max()) > np.finfo(np.float16).max:
            raise WordwaveError(f"{name} has numbers that are too large for float16{ELSEWHERE}")
        self.tables[name] = Stored(values.astype(np.float16)) if half else by_rows(values)
        return name

    @torch.no_grad()
    def _pairs(self, words: Table) -> dict[str, Any] | None:
        """Of a model with bigrams, the pairs of ids that it knows, their vectors, and how much of a
        vector is added to that of the second word."""
        bigrams: Any = getattr(words, "bigrams", None)
        if bigrams is None:
            return None
        name, values = self._named(bigrams)
        rows = bigrams.keys.nonzero().squeeze(1).cpu()
        keys, order = bigrams.keys[rows].cpu().sort()
        rows, values = rows[order].numpy(), values[rows[order].numpy()]
        pairs = torch.stack([keys // bigrams.n_words, keys % bigrams.n_words], dim=1)
        scale = 0.0
        if len(pairs) and values.any():
            i = int(np.abs(values).max(axis=1).argmax())
            added = bigrams(pairs[i : i + 1].to(bigrams.keys.device))[0, 1].float().cpu().numpy()
            scale = float(added @ values[i] / (values[i] @ values[i]))
        is_exact = self.precision == "float32"
        levels = 127 if values.size <= MANY_PAIRS else 7
        self.tables[name] = Stored(values) if is_exact else by_table(values, levels)
        self.tables["pairs"] = Stored(pairs.numpy().astype(np.int32))
        self.rows_of[name] = rows
        return {"vectors": name, "pairs": "pairs", "scale": scale}

    def _ngrams(self, pairs: dict[str, Any] | None) -> list[dict[str, Any]]:
        """Of a model with n-grams, the sums of each word and of each pair that has a vector."""
        ngrams = self.model.ngrams
        if ngrams is None:
            return []
        layer = {"op": "ngrams", "words": "ngrams.words", "bigrams": None, "bias": "ngrams.bias"}
        self._halved("ngrams.words", _finite(ngrams.words))
        self._plain("ngrams.bias", _finite(ngrams.bias)[None])
        if pairs:
            rows = self.rows_of["ngrams.bigrams"] = self.rows_of[pairs["vectors"]]
            layer["bigrams"] = self._halved("ngrams.bigrams", _finite(ngrams.bigrams)[rows])
        return [layer | {"scale": float(self.model.scale)}]

    def _halved(self, name: str, values: Array) -> str:
        """float16, or float32 for numbers that are too large: the n-grams of a word of hundreds of
        letters have such a sum of squares."""
        fits = np.abs(values).max(initial=0) <= np.finfo(np.float16).max
        is_exact = self.precision == "float32" or not fits
        self.tables[name] = Stored(values.astype(np.float32 if is_exact else np.float16))
        return name

    def _turning(self, table: Table, view: str) -> str:
        """Frequencies or phases: rounding must not turn a wave by much."""
        name, values = self._named(table)
        if self.precision == "float32" or len(values) == 1 or values.shape[1] == 1:
            return self._plain(name, values)
        # Errors of phases and of frequencies of relative positions are the same at all positions.
        longest = 10 if view in ("phase", "relative") else self.longest
        self.tables[name] = by_columns(values, longest)
        return name

    def _named(self, table: Table) -> tuple[str, Array]:
        return self.names[id(table.weight)], _finite(table.weight)


def _finite(weight: torch.Tensor) -> Array:
    values: Array = weight.detach().float().cpu().numpy()
    if not math.isfinite(float(np.abs(values).sum(dtype=np.float64))):
        raise WordwaveError("the weights of the model must be finite numbers")
    return values


def _sinusoids(embedding: SinusoidalPositionEmbedding, longest: int) -> Array:
    """The position vectors of `tpe`. Shape: (longest + 1, D)"""
    frequencies = sinusoidal(embedding.dim // 2).double().numpy()
    angle = frequencies * np.arange(longest + 1.0)[:, None]
    pairs = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(longest + 1, -1)
    return (float(embedding.position_scale) * pairs).astype(np.float32)
