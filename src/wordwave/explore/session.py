"""What a page shows of a trained classifier, of any encoder, computed in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

import torch
import torch.nn.functional as F
from torch import Tensor

from wordwave import complex as cx
from wordwave.angle import angle
from wordwave.embedding import WaveEmbedding
from wordwave.embedding.wave import count_positions
from wordwave.errors import WordwaveError
from wordwave.explore.bag import LONGEST, pooling_of
from wordwave.models.utils import eval_mode
from wordwave.tasks.classifier import TextClassifier, finite, logits_of
from wordwave.tasks.explain import (
    after_changes,
    effects_of_moves,
    joined,
    log_odds,
    moved,
    moves_to_try,
    nearest_rows,
    sentences_of_orders,
    token_text,
    tokenized,
    without,
)
from wordwave.text.batching import Sentences
from wordwave.text.vocabulary import SPECIALS

MOST_TEXT = 20_000
"""Characters of a text that are read."""
AT_ONCE = 1 << 10
"""Sentences of a batch."""
MOST_MOVES = 1200
"""Single moves that are tried for the order sensitivity of all words."""
MOST_SHOWN = 20_000
"""Words of the vocabulary that are drawn, the first ones, which are the most frequent."""
N_NEAREST = 10
MOST_CLASSES = 1000
MOST_EDITS = 64


class Edit(TypedDict):
    """How the waves of a word are changed: r·amplitude, ω·frequency, θ + phase, e^{−damping·p}."""

    id: int
    amplitude: float
    frequency: float
    phase: float
    damping: float
    dimension: int | None
    """Only this one, `None` for all."""


class Session:
    """A classifier, and its twin with added positions, as the page asks for them.

    A sentence is a text and an order, the old place of each word from 0; words keep their ids.

    Args:
        classifier: with any encoder and embedding.
        twin: another classifier with the same classes, shown beside it.
        name: of the model.
        examples: texts to choose from.
    """

    def __init__(
        self,
        classifier: TextClassifier,
        twin: TextClassifier | None = None,
        *,
        name: str,
        examples: Sequence[str] = (),
    ) -> None:
        if twin is not None and twin.labels != classifier.labels:
            raise WordwaveError("the twin must have the classes of the run, got others")
        n = len(classifier.labels)
        if n > MOST_CLASSES:
            raise WordwaveError(f"the explorer shows at most {MOST_CLASSES:,} classes, got {n:,}")
        self.classifier, self.twin, self.name = classifier, twin, name
        self.examples = list(examples)

    @property
    def embedding(self) -> Any:
        return self.classifier.model.embedding

    def about(self) -> dict[str, Any]:
        """What the page needs to begin."""
        classifier, embedding = self.classifier, self.embedding
        config = classifier.config.model
        views = getattr(embedding, "views", ("start",))
        is_wave = isinstance(embedding, WaveEmbedding)
        return {
            "name": self.name,
            "labels": classifier.labels,
            "encoder": config.encoder,
            "embedding": config.embedding.kind,
            "pooling": pooling_of(classifier.model),
            "dim": embedding.dim,
            "n_words": len(classifier.encoder.vocabulary),
            "longest": min(classifier.encoder.max_length, LONGEST),
            "views": [view for view in views if view != "context"] if is_wave else [],
            "context": is_wave and "context" in views,
            "bigrams": getattr(getattr(embedding, "amplitude", None), "bigrams", None) is not None,
            "ngrams": classifier.model.ngrams is not None,
            "twin": None if self.twin is None else self.twin.config.model.embedding.kind,
            "examples": self.examples,
        }

    def tokens(self, text: str) -> dict[str, Any]:
        """The words of a text, their ids, and the number of words that are cut."""
        tokens, ids, cut = self._tokenized(self.classifier, text)
        encoder = self.classifier.encoder
        words = [
            {
                "text": token_text(encoder.tokenizer, token),
                "id": i,
                "known": token in encoder.vocabulary,
            }
            for token, i in zip(tokens, ids.tolist(), strict=True)
        ]
        return {"words": words, "cut": cut}

    def predict(self, text: str, order: Sequence[int], edits: Sequence[Edit]) -> dict[str, Any]:
        """The probabilities of the classes, of the model and of its twin."""
        tokens, ids, _ = self._tokenized(self.classifier, text)
        places = self._checked(order, len(ids))
        (found,) = self._logits(tokens, ids, places.unsqueeze(0), edits).softmax(-1)
        twin = None
        if self.twin is not None:
            said = joined(self.classifier.encoder.tokenizer, [tokens[i] for i in order])
            others, same, _ = self._tokenized(self.twin, said)
            order_of_twin = torch.arange(len(same)).unsqueeze(0)
            sentences = sentences_of_orders(self.twin.encoder, others, same, order_of_twin)
            (twin,) = _logits(self.twin, sentences).softmax(-1)
        return {
            "probabilities": found.tolist(),
            "twin": None if twin is None else twin.tolist(),
        }

    def sweep(
        self, text: str, order: Sequence[int], edits: Sequence[Edit], place: int
    ) -> dict[str, Any]:
        """The probabilities with one word moved to each place."""
        tokens, ids, _ = self._tokenized(self.classifier, text)
        places = self._checked(order, len(ids))
        if not 0 <= place < len(ids):
            raise WordwaveError(f"place must be in [0, {len(ids)}), got {place}")
        moves = torch.tensor([(place, to) for to in range(len(ids))])
        found = self._logits(tokens, ids, places[moved(moves, len(ids))], edits)
        return {"probabilities": found.softmax(-1).tolist()}

    def sensitivity(self, text: str, order: Sequence[int], edits: Sequence[Edit]) -> dict[str, Any]:
        """What each word brings to the log-odds of the predicted class, and what its place brings:
        the figures of `explain`."""
        tokens, ids, _ = self._tokenized(self.classifier, text)
        places, n = self._checked(order, len(ids)), len(ids)
        original = self._logits(tokens, ids, places.unsqueeze(0), edits)
        predicted = int(original.argmax())

        def outputs(orders: Tensor) -> Tensor:
            return self._logits(tokens, ids, places[orders], edits)

        def evaluate(changes: Tensor, orders: Callable[[Tensor], Tensor]) -> Tensor:
            return after_changes(outputs, predicted, AT_ONCE, changes, orders)[0]

        (odds,), moves = log_odds(original, predicted), moves_to_try(n, MOST_MOVES)
        removed = evaluate(torch.arange(n), lambda words: without(words, n)) if n > 1 else odds
        after = evaluate(moves, lambda batch: moved(batch, n))
        change = torch.full((n, n), torch.nan, dtype=torch.double)
        change[moves[:, 0], moves[:, 1]] = after - odds
        change.fill_diagonal_(0.0)
        effects = effects_of_moves(change)
        brought = (odds - removed).expand(n).tolist() if n > 1 else [0.0]
        return {"predicted": predicted, "word": brought, "place": [mean for mean, _, _ in effects]}

    @torch.no_grad()
    def waves(self, ids: Sequence[int], before: Sequence[int]) -> dict[str, Any]:
        """Amplitudes, frequencies of each view, phases and dampings of words.

        Args:
            ids: of the words.
            before: of the word before each one, which may change its amplitude; 0 for none.
        """
        embedding = self.embedding
        if not isinstance(embedding, WaveEmbedding):
            raise WordwaveError("the embedding of this model has no waves")
        rows, others = self._ids(ids), self._ids(before)
        if len(rows) != len(others):
            raise WordwaveError(f"before must have {len(rows)} numbers, got {len(others)}")

        def numbers(values: Tensor) -> list[list[float]]:
            found = values.float().cpu().expand(-1, embedding.dim).tolist()
            return [[float(f"{x:.7g}") for x in row] for row in found]

        def of(table: Any) -> list[list[float]]:
            return numbers(table.full()[rows])

        tables = [embedding.frequency, *getattr(embedding, "more_frequencies", ())]
        views = getattr(embedding, "views", ("start",))
        counted = [of(t) for view, t in zip(views, tables, strict=True) if view != "context"]
        damping = None
        if embedding.damping is not None:
            damping = numbers(F.softplus(embedding.damping.full()[rows].float()))
        phase = None if embedding.phase is None else of(embedding.phase)
        pairs = embedding.amplitude(torch.stack([others, rows], dim=1))
        amplitude = numbers(pairs.expand(len(rows), 2, -1)[:, 1])
        return {
            "waves": [
                {
                    "id": i,
                    "amplitude": amplitude[n],
                    "frequencies": [view[n] for view in counted],
                    "phase": None if phase is None else phase[n],
                    "damping": None if damping is None else damping[n],
                }
                for n, i in enumerate(ids)
            ]
        }

    @torch.no_grad()
    def vocabulary(self) -> dict[str, Any]:
        """The words, with their δ, `None` without frequencies, and mean |amplitude|."""
        embedding, encoder = self.embedding, self.classifier.encoder
        first, end = len(SPECIALS), len(SPECIALS) + MOST_SHOWN
        words = [token_text(encoder.tokenizer, w) for w in encoder.vocabulary.words[first:end]]
        table = embedding.vectors.float().expand(embedding.vocab_size, -1)
        delta = None
        if hasattr(embedding, "sensitivity"):
            delta = _short(embedding.sensitivity()[first:end])
        return {
            "first": first,
            "words": words,
            "amplitude": _short(table.abs().mean(dim=1)[first:end]),
            "delta": delta,
        }

    def nearest(self, word: int) -> dict[str, Any]:
        """The words whose amplitudes (or vectors) are most similar, by the cosine."""
        self._ids([word])
        rows, values = nearest_rows(self.embedding, word, N_NEAREST)
        encoder = self.classifier.encoder
        shown = [token_text(encoder.tokenizer, encoder.vocabulary.words[i]) for i in rows.tolist()]
        return {
            "nearest": [
                {"id": i, "text": text, "cosine": value}
                for i, text, value in zip(rows.tolist(), shown, values.tolist(), strict=True)
            ]
        }

    def _logits(
        self, tokens: list[str], ids: Tensor, orders: Tensor, edits: Sequence[Edit]
    ) -> Tensor:
        """Shape: ids (L,), orders (N, M) -> (N, n_classes)"""
        _check_edits(self.embedding, edits)
        sentences = sentences_of_orders(self.classifier.encoder, tokens, ids, orders)
        return _logits(self.classifier, sentences, edits)

    def _tokenized(self, classifier: TextClassifier, text: str) -> tuple[list[str], Tensor, int]:
        """Tokens and ids, cut to what the explorer shows, and the number of tokens beyond."""
        tokens, ids, cut = tokenized(classifier.encoder, text[:MOST_TEXT])
        return tokens[:LONGEST], ids[:LONGEST], cut + max(len(ids) - LONGEST, 0)

    def _checked(self, order: Sequence[int], n: int) -> Tensor:
        if sorted(order) != list(range(n)):
            raise WordwaveError(f"order must hold each of the {n} places of the text once")
        return torch.tensor(order, dtype=torch.long)

    def _ids(self, ids: Sequence[int]) -> Tensor:
        n = self.embedding.vocab_size
        if len(ids) > LONGEST or not all(0 <= i < n for i in ids):
            raise WordwaveError(f"ids must be at most {LONGEST} numbers in [0, {n})")
        return torch.tensor(ids, dtype=torch.long)


def _short(values: Tensor) -> list[float]:
    return [float(f"{x:.4g}") for x in values.float().cpu().tolist()]


def _logits(classifier: TextClassifier, sentences: Sentences, edits: Sequence[Edit] = ()) -> Tensor:
    """Shape: N sentences of the same length -> (N, n_classes), float64"""
    model = classifier.model
    if not edits:
        return finite(logits_of(model, sentences)).double()
    parts = []
    with eval_mode(model) as device:
        unknown = None
        if model.ngrams is not None:
            unknown = model.ngrams.sums_of_unknown(sentences.unknown, len(sentences))
        for rows in torch.arange(len(sentences)).split(AT_ONCE):
            batch = sentences.padded(rows).to(device)
            z, position = model.embedding(batch), count_positions(batch, None)
            for edit in edits:
                z = _changed(model.embedding, edit, batch, position, z)
            x = model._encode(z, torch.ones_like(batch, dtype=torch.bool), None)
            logits = model.head(cx.magnitude(x) if model.by_magnitude else x)
            if model.ngrams is not None:
                added = model.ngram_logits(batch, None if unknown is None else unknown[rows])
                logits = model.scale * logits + added
            parts.append(logits.float().cpu())
    return finite(torch.cat(parts)).double()


def _check_edits(embedding: Any, edits: Sequence[Edit]) -> None:
    if edits and not isinstance(embedding, WaveEmbedding):
        raise WordwaveError("the embedding of this model has no waves to change")
    for edit in edits:
        if not 0 <= edit["id"] < embedding.vocab_size:
            raise WordwaveError(f"id must be in [0, {embedding.vocab_size}), got {edit['id']}")
        if edit["dimension"] is not None and not 0 <= edit["dimension"] < embedding.dim:
            raise WordwaveError(f"dimension must be in [0, {embedding.dim})")


def _changed(embedding: Any, edit: Edit, ids: Tensor, position: Tensor, z: Tensor) -> Tensor:
    """The waves of a word changed: z·a·e^{−d·p}·e^{i((f − 1)·ω·p + φ)}.

    Shape: ids (B, L), position broadcastable to (B, L, 1), z (B, L, 2·D·views) -> as z
    """
    views = getattr(embedding, "views", ("start",))
    tables = [embedding.frequency, *getattr(embedding, "more_frequencies", ())]
    is_word = (ids == edit["id"]).unsqueeze(-1)
    chosen = torch.ones(embedding.dim, dtype=torch.bool)
    if edit["dimension"] is not None:
        chosen = torch.arange(embedding.dim) == edit["dimension"]
    x, y = (part.unflatten(-1, (len(views), -1)) for part in cx.split(z))
    real, imag = [], []
    for n, (view, table) in enumerate(zip(views, tables, strict=True)):
        u, v = x[..., n, :], y[..., n, :]
        counted = position.double()
        if view in ("end", "relative"):
            end = embedding._end(ids, position).double()
            counted = end - counted if view == "end" else counted / end
        turn = torch.full((1,), edit["phase"])
        size = torch.full((1,), edit["amplitude"])
        if view != "context":
            turn = turn + angle(table(ids) * (edit["frequency"] - 1), counted)
            size = size * torch.exp(-edit["damping"] * counted).float()
        a, b = size * turn.cos(), size * turn.sin()
        here = is_word & chosen
        real.append(torch.where(here, u * a - v * b, u))
        imag.append(torch.where(here, u * b + v * a, v))
    return torch.cat([*real, *imag], dim=-1)
