"""`TextClassifier`: a trained classifier, on texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PureWindowsPath
from reprlib import repr as clipped
from typing import Any

import torch
from huggingface_hub import ModelCard, ModelHubMixin, snapshot_download
from torch import Tensor, nn

from wordwave.config_io import conform, read_json, to_dict
from wordwave.errors import WordwaveError
from wordwave.files import write_text, write_whole
from wordwave.models.classifier import Classifier, SentenceModel
from wordwave.models.utils import count_fitted, eval_mode
from wordwave.tasks.config import ClassificationConfig
from wordwave.tasks.run import TextModel
from wordwave.tasks.run_folder import WEIGHTS, load_model, reading
from wordwave.text.batching import Sentences, by_length, consecutive
from wordwave.text.encoder import TextEncoder
from wordwave.text.tokenizers import BPETokenizer, build_tokenizer
from wordwave.text.vocabulary import Vocabulary

CHUNK = 2048
"""Texts encoded at once."""
BATCH_WORDS = 4096
"""Words in a batch."""
LOGITS_AT_ONCE = 1 << 24
"""Logits in a batch: with many classes, batches have fewer words."""
FILES = ("config.yaml", "vocab.json", "tokenizer.json", "model.safetensors")
"""What is downloaded from the hub."""
CARD = Path(__file__).with_name("model_card.md")
"""The template of the model card on the hub; its `result` is the content of result.json."""


class TextClassifier(
    TextModel,
    ModelHubMixin,
    library_name="wordwave",
    pipeline_tag="text-classification",
    tags=["complex-valued", "word-order"],
    model_card_template=CARD.read_text(encoding="utf-8"),
):
    """Predicts the class of a text.

    Args:
        model: computes logits from word ids.
        encoder: turns texts into word ids.
        labels: the name of each class.
        config: how it was trained; its `model` is that of `model`.
    """

    task = "classify"
    config_class = ClassificationConfig
    model: Classifier
    config: ClassificationConfig

    def __init__(
        self,
        model: Classifier,
        encoder: TextEncoder,
        labels: Sequence[str],
        config: ClassificationConfig,
    ) -> None:
        self.model, self.encoder, self.labels, self.config = model, encoder, list(labels), config

    @property
    def multi_label(self) -> bool:
        """Whether a text may have several labels, or none."""
        return self.config.data.multi_label is not None

    def predict(self, texts: Sequence[str]) -> list[str]:
        """The most probable class of each text; of several labels, those of `predict_labels` as in
        the column of labels, such as `sport|politics`."""
        if self.config.data.multi_label is not None:
            return [self.config.data.multi_label.join(row) for row in self.predict_labels(texts)]
        return [self.labels[i] for i in self.logits(texts).argmax(-1).tolist()]

    def predict_labels(self, texts: Sequence[str], threshold: float = 0.5) -> list[list[str]]:
        """The labels of each text whose probability is at least a threshold."""
        found = self.probabilities(texts) >= threshold
        return [[self.labels[i] for i in row.nonzero().flatten().tolist()] for row in found]

    def probabilities(self, texts: Sequence[str]) -> Tensor:
        """Shape: N texts -> (N, n_classes), rows sum to 1 unless a text may have several labels"""
        return self.probabilities_of(self.logits(texts))

    def probabilities_of(self, logits: Tensor) -> Tensor:
        """Shape: (N, n_classes) -> the same"""
        return logits.sigmoid() if self.multi_label else logits.softmax(-1)

    def logits(self, texts: Sequence[str]) -> Tensor:
        """Shape: N texts -> (N, n_classes)"""
        return self.logits_and_truncated(texts)[0]

    def logits_and_truncated(self, texts: Sequence[str]) -> tuple[Tensor, int]:
        """Logits, and the number of texts that were truncated to `max_length` words.

        Shape: N texts -> (N, n_classes)
        """
        parts, n_truncated = [torch.zeros(0, len(self.labels))], 0
        for i in range(0, len(texts), CHUNK):
            sentences, n = self.encoder.encode(texts[i : i + CHUNK])
            parts.append(logits_of(self.model, sentences))
            n_truncated += n
        return finite(torch.cat(parts)), n_truncated

    def encode(self, texts: Sequence[str]) -> Tensor:
        """The vectors that the head classifies, one a text. Shape: N texts -> (N, width)"""
        return self.encode_and_truncated(texts)[0]

    def encode_and_truncated(self, texts: Sequence[str]) -> tuple[Tensor, int]:
        """Vectors, and the number of texts that were truncated. Shape: N texts -> (N, width)"""
        return encode_texts(self.model, self.model.sentence_vectors, self.encoder, texts)

    def nearest_words(self, word: str, n: int = 10) -> list[tuple[str, float]]:
        """The n words whose amplitudes (without waves, whose vectors) are most similar to those of
        a word of the vocabulary, and their cosines, the most similar first."""
        from wordwave.tasks.explain import nearest_words  # which uses this module

        return nearest_words(self, word, n)

    def clear_cache(self) -> None:
        """Free the cached words of earlier texts, which make predictions fast."""
        self.encoder.clear_cache()

    def save_vocabulary(self, folder: Path) -> None:
        words = {**self.encoder.vocabulary.to_dict(), "labels": self.labels}
        write_text(folder / "vocab.json", json.dumps(words, ensure_ascii=False, indent=0))
        if isinstance(self.encoder.tokenizer, BPETokenizer):
            write_whole(folder / "tokenizer.json", self.encoder.tokenizer.save)

    @classmethod
    def load_parts(cls, folder: Path, config: ClassificationConfig) -> TextClassifier:
        with reading(folder / "vocab.json", "is not a vocabulary"):
            saved = read_json(folder / "vocab.json")
            vocabulary, labels = Vocabulary.from_dict(saved), saved.get("labels")
            conform(labels, list[str], where="labels")
            if len(set(labels)) < len(labels):
                raise WordwaveError(f"labels must differ, got {clipped(labels)}")
        kind = config.text.tokenizer
        file = folder / "tokenizer.json" if kind == "bpe" else None
        tokenizer, length = build_tokenizer(kind, file=file), config.model.max_length
        hashed = config.text.unknown_words == "hashed"
        encoder = TextEncoder(
            tokenizer,
            vocabulary,
            max_length=length,
            hashed=hashed,
            keep_unknown=config.model.has_ngrams,
        )
        model = load_model(folder, lambda: Classifier(config.model, len(vocabulary), len(labels)))
        with reading(folder / WEIGHTS, "does not hold this model"):
            for part in (model.bigrams, model.ngrams):
                if part is not None:
                    part.check_keys()
        return cls(model, encoder, labels, config)

    def generate_model_card(self, *args: Any, **details: Any) -> ModelCard:
        """The README.md for the hub; `result` adds a run's scores, `repo_id` the model's name."""
        about = {
            "labels": [f"`{label}`" for label in self.labels],
            "model": self.config.model,
            "n_words": len(self.encoder.vocabulary),
            "n_parameters": count_fitted(self.model),
            "data": _without_folders(self.config).data.data,
        }
        return super().generate_model_card(*args, **about | details)

    def _save_pretrained(self, save_directory: Path) -> None:
        config = _without_folders(self.config)
        TextClassifier(self.model, self.encoder, self.labels, config).save(save_directory)
        # The hub counts downloads of this file; without it ModelHubMixin writes one with all paths.
        about = {"library_name": "wordwave", "task": self.task, **to_dict(config.model)}
        write_text(save_directory / "config.json", json.dumps(about, indent=2) + "\n")

    @classmethod
    def _from_pretrained(cls, *, model_id: str, **options: Any) -> TextClassifier:
        if Path(model_id).is_dir():
            return cls.load(model_id)
        known = ("revision", "cache_dir", "force_download", "local_files_only", "token")
        asked = {name: options[name] for name in known if name in options}
        classifier = cls.load(snapshot_download(model_id, allow_patterns=list(FILES), **asked))
        classifier.config = _without_folders(classifier.config)
        return classifier


def batched_logits(model: nn.Module, sentences: Sentences) -> Iterator[tuple[Tensor, Tensor]]:
    """Row numbers, short sentences first, and their logits, batch by batch.

    Shape: (B,), (B, n_classes)
    """
    at_once = max(LOGITS_AT_ONCE // getattr(model, "n_classes", 1), 1)
    with eval_mode(model) as device:
        ngrams = getattr(model, "ngrams", None)

        def options(rows: Tensor) -> dict[str, Tensor]:
            if ngrams is None:
                return {}
            unknown = ngrams.sums_of_unknown(sentences.unknown_of(rows), len(rows))
            return {} if unknown is None else {"unknown": unknown}

        if isinstance(model, Classifier) and model.sums_words:
            for rows in consecutive(sentences.lengths, 4 * BATCH_WORDS, min(at_once, CHUNK)):
                batch = sentences.batch(rows).to(device)
                yield rows, model(batch, **options(rows)).float().cpu()
            return
        for longest in by_length(sentences.lengths, BATCH_WORDS):
            for rows in longest.split(at_once):
                ids = sentences.padded(rows).to(device)
                yield rows, model(ids, **options(rows)).float().cpu()


def logits_of(model: nn.Module, sentences: Sentences) -> Tensor:
    """The logits of each sentence, in their order. Shape: (N, n_classes)"""
    rows, logits = zip(*batched_logits(model, sentences), strict=True)
    return torch.cat(logits)[torch.cat(rows).argsort()]


def classes_of(model: nn.Module, sentences: Sentences) -> Tensor:
    """The most probable class of each sentence, without all logits in memory. Shape: (N,)"""
    predicted = torch.empty(len(sentences), dtype=torch.long)
    for rows, logits in batched_logits(model, sentences):
        predicted[rows] = finite(logits).argmax(-1)
    return predicted


def vectors_of(
    model: SentenceModel, compute: Callable[[Tensor], Tensor], sentences: Sentences
) -> Tensor:
    """What `compute`, a method of the model, returns for each sentence, in their order.

    Shape: compute (B, L) -> (B, W); returns (N, W)
    """
    vectors = torch.zeros(len(sentences), model.sentence_dim)
    with eval_mode(model) as device:
        for rows in by_length(sentences.lengths, BATCH_WORDS):
            vectors[rows] = compute(sentences.padded(rows).to(device)).float().cpu()
    return vectors


def encode_texts(
    model: SentenceModel,
    compute: Callable[[Tensor], Tensor],
    encoder: TextEncoder,
    texts: Sequence[str],
) -> tuple[Tensor, int]:
    """`vectors_of` texts, and the number of texts that were truncated. Shape: (N, W)"""
    parts, n_truncated = [torch.zeros(0, model.sentence_dim)], 0
    for i in range(0, len(texts), CHUNK):
        sentences, n = encoder.encode(texts[i : i + CHUNK])
        parts.append(vectors_of(model, compute, sentences))
        n_truncated += n
    return finite(torch.cat(parts), "vectors"), n_truncated


def finite(found: Tensor, what: str = "logits") -> Tensor:
    """The same logits or vectors; raises if they are not finite."""
    # A finite sum has finite terms, and takes less time.
    if not (found.sum().isfinite() or found.isfinite().all()):
        raise WordwaveError(f"the model's {what} are not finite: its weights are too large")
    return found


def _without_folders(config: ClassificationConfig) -> ClassificationConfig:
    """Only the names of files: folders are neither published on the hub nor accepted from it."""

    def bare(settings: Any, *names: str) -> Any:
        paths = {name: getattr(settings, name) for name in names}
        # Windows paths are split at both / and \.
        return replace(settings, **{k: p and PureWindowsPath(p).name for k, p in paths.items()})

    return replace(
        config, data=bare(config.data, "data", "dev", "test"), text=bare(config.text, "vectors")
    )
