"""LabelledSentences sentences, as the training loop wants them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PureWindowsPath
from reprlib import repr as clipped
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from huggingface_hub import ModelCard, ModelHubMixin, snapshot_download
from torch import Tensor, nn

from wordwave.config_io import conform, read_json, to_dict
from wordwave.errors import WordwaveError
from wordwave.files import write_text, write_whole
from wordwave.models.cached_bag import CachedBag
from wordwave.models.classifier import Classifier, count_parameters
from wordwave.models.eval_mode import eval_mode
from wordwave.tasks.config import ClassificationConfig, DataConfig, TextConfig
from wordwave.tasks.run import Trained, check_trained, load_model, read_config, save_config
from wordwave.text.batching import Sentences, bucketed, by_length
from wordwave.text.encoder import TextEncoder
from wordwave.text.tokenizers import BPETokenizer, build_tokenizer
from wordwave.text.vocabulary import PADDING_ID, UNKNOWN_ID, Vocabulary
from wordwave.training.task import Positions

NO_TARGET = -100
"""The target where nothing is asked, as in torch's cross-entropy."""
BATCH_WORDS = 4096
"""Words scored at once."""
LOGITS_AT_ONCE = 1 << 24
"""Numbers that answer them: with many classes, fewer words are scored at once."""


@dataclass(frozen=True)
class LabelledSentences:
    """Sentences and their labels.

    Shape: targets (N,), or (N, L) with -100 where nothing is asked
    """

    sentences: Sentences
    targets: Tensor


@dataclass(frozen=True)
class ClassificationTask:
    """Say the class of a sentence, or one at each of its words.

    Args:
        train: what is learnt from.
        dev: what selects the best epoch, or `None`.
        group: rows that stay together in a batch, 2 for minimal pairs.
        word_dropout: share of training words that are read as unknown.
    """

    train: LabelledSentences
    dev: LabelledSentences | None = None
    group: int = 1
    word_dropout: float = 0.0

    def batches(self, size: int, generator: torch.Generator) -> list[Tensor]:
        return bucketed(self.train.sentences.lengths, size, generator=generator, group=self.group)

    def loss(self, model: nn.Module, rows: Tensor, positions: Positions) -> tuple[Tensor, int, int]:
        device = next(model.parameters()).device
        ids = self.train.sentences.padded(rows).to(device)
        targets = _cut(self.train.targets[rows], ids).to(device)
        mask = ids != PADDING_ID
        places = positions(mask)
        if self.word_dropout:
            dropped = mask & (torch.rand(ids.shape, device=device) < self.word_dropout)
            ids = ids.masked_fill(dropped, UNKNOWN_ID)
        logits = model(ids, places)
        total = F.cross_entropy(
            logits.float().flatten(0, -2),
            targets.flatten(),
            ignore_index=NO_TARGET,
            reduction="sum",
        )
        return total, int((targets != NO_TARGET).sum()), int(mask.sum())

    def score(self, model: nn.Module) -> dict[str, float]:
        if self.dev is None:
            return {}
        if self.dev.targets.dim() > 1:
            return {"accuracy": accuracy(model, self.dev)}
        right, loss = 0, 0.0
        for rows, logits in read(model, self.dev.sentences):
            targets = self.dev.targets[rows]
            right += int((logits.argmax(-1) == targets).sum())
            loss += float(F.cross_entropy(logits.double(), targets, reduction="sum"))
        n = len(self.dev.sentences)
        return {"accuracy": right / n, "likelihood": -loss / n}


def read(model: nn.Module, sentences: Sentences) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows of sentences, the short ones first, and the logits of each: some at a time.

    Shape: (B,), (B, n_classes)
    """
    at_once = max(LOGITS_AT_ONCE // getattr(model, "n_classes", 1), 1)
    with eval_mode(model) as device:
        for batch in by_length(sentences.lengths, BATCH_WORDS):
            for rows in batch.split(at_once):
                yield rows, model(sentences.padded(rows).to(device)).float().cpu()


def logits_of(model: nn.Module, sentences: Sentences) -> Tensor:
    """What a classifier says of each sentence, in their order. Shape: (N, n_classes)"""
    rows, logits = zip(*read(model, sentences), strict=True)
    return torch.cat(logits)[torch.cat(rows).argsort()]


def classes_of(model: nn.Module, sentences: Sentences) -> Tensor:
    """The likeliest class of each sentence, without the logits of all at once. Shape: (N,)"""
    said = torch.empty(len(sentences), dtype=torch.long)
    for rows, logits in read(model, sentences):
        said[rows] = finite(logits).argmax(-1)
    return said


def finite(logits: Tensor) -> Tensor:
    """The same logits; refuses those that are no numbers, which have no probabilities."""
    if not logits.isfinite().all():
        raise WordwaveError("the model gives no finite scores: its weights are too large")
    return logits


def accuracy(model: nn.Module, data: LabelledSentences) -> float:
    """Share of right answers; a sequence is right where all of its answers are."""
    if data.targets.dim() == 1:
        return float((classes_of(model, data.sentences) == data.targets).double().mean())
    return _sequences_right(model, data)


def _sequences_right(model: nn.Module, data: LabelledSentences) -> float:
    right = 0
    with eval_mode(model) as device:
        for rows in by_length(data.sentences.lengths, BATCH_WORDS):
            ids = data.sentences.padded(rows).to(device)
            wanted = _cut(data.targets[rows], ids).to(device)
            hits = (model(ids).argmax(-1) == wanted) | (wanted == NO_TARGET)
            right += int(hits.all(1).sum())
    return right / len(data.sentences)


def _cut(targets: Tensor, ids: Tensor) -> Tensor:
    return targets if targets.dim() == 1 else targets[:, : ids.shape[1]]


CARD = """\
---
{{ card_data }}
---

# A text classifier whose words are waves

It says which of {{ labels | length }} classes a text is of: {{ labels | join(", ") }}.

```python
from wordwave.tasks.classifier import TextClassifier

classifier = TextClassifier.from_pretrained("{{ repo_id | default("USER/THIS-MODEL") }}")
classifier.predict(["a text", "another"])
```

| | |
|---|---|
| encoder | {{ model.encoder }} |
| embedding | {{ model.embedding }}, {{ model.dim }} dimensions |
| words | {{ "{:,}".format(n_words) }} |
| parameters | {{ "{:,}".format(n_parameters) }} |
| trained on | {{ data }} |
{%- if result %}
{%- if result.test %}
| test accuracy | {{ "%.4f" | format(result.test.accuracy) }}, 95% interval \
{{ "%.4f to %.4f" | format(*result.test.interval) }}, {{ result.test.n }} examples |
| test macro-F1 | {{ "%.4f" | format(result.test.macro_f1) }} |
{%- endif %}
| dev accuracy | {{ "%.4f" | format(result.dev_accuracy) }} |
{%- endif %}

`model.safetensors` holds the weights, `config.yaml` all settings, `vocab.json` words and classes.
"""
"""The page of a model on the hub; `result` is what `wordwave train` leaves in result.json."""


C = TypeVar("C", DataConfig, TextConfig)

CHUNK = 2048
"""Texts read at once."""

FILES = ("config.yaml", "vocab.json", "tokenizer.json", "model.safetensors")


class TextClassifier(
    Trained,
    ModelHubMixin,
    library_name="wordwave",
    pipeline_tag="text-classification",
    tags=["complex-valued", "word-order"],
    model_card_template=CARD,
):
    """Says the class of a text.

    Args:
        model: gives logits for word ids.
        encoder: makes word ids of texts.
        labels: the name of each class.
        config: how it was trained; its `model` is that of `model`.
    """

    task = "classify"
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
        self._bag: CachedBag | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_bag": None}  # what is remembered can be worked out again

    def logits(self, texts: Sequence[str]) -> Tensor:
        """Shape: N texts -> (N, n_classes)"""
        return self.read(texts)[0]

    def read(self, texts: Sequence[str]) -> tuple[Tensor, int]:
        """Logits, and how many texts were cut to the greatest length.

        Shape: N texts -> (N, n_classes)
        """
        parts, n_cut = [torch.zeros(0, len(self.labels))], 0
        for i in range(0, len(texts), CHUNK):
            sentences, cut = self.encoder.encode(texts[i : i + CHUNK])
            parts.append(self._logits(sentences))
            n_cut += cut
        return finite(torch.cat(parts)), n_cut

    def _logits(self, sentences: Sentences) -> Tensor:
        if CachedBag.serves(self.model):
            bag = self._bag or CachedBag(self.model)
            self._bag = bag
            if bag.reads(sentences):
                return bag.logits(sentences)
        return logits_of(self.model, sentences)

    def forget(self) -> None:
        """Drop what was remembered of earlier texts, which makes reading fast and costs memory."""
        self._bag = None
        self.encoder.forget()

    def probabilities(self, texts: Sequence[str]) -> Tensor:
        """Shape: N texts -> (N, n_classes), rows of sum 1"""
        return self.logits(texts).softmax(-1)

    def predict(self, texts: Sequence[str]) -> list[str]:
        """The likeliest class of each text."""
        return [self.labels[i] for i in self.logits(texts).argmax(-1).tolist()]

    def save_all_but_weights(self, folder: Path) -> None:
        save_config(folder, self.task, self.config)
        words = {**self.encoder.vocabulary.to_dict(), "labels": self.labels}
        write_text(folder / "vocab.json", json.dumps(words, ensure_ascii=False, indent=0))
        if isinstance(self.encoder.tokenizer, BPETokenizer):
            write_whole(folder / "tokenizer.json", self.encoder.tokenizer.save)

    @classmethod
    def load(cls, folder: str | Path) -> TextClassifier:
        """Read what `save` wrote; ready to predict."""
        folder = Path(folder)
        config = read_config(folder, cls.task, ClassificationConfig)
        check_trained(folder)
        try:
            saved = read_json(folder / "vocab.json")
            vocabulary, labels = Vocabulary.from_dict(saved), _names(saved.get("labels"))
        except (OSError, ValueError) as problem:
            raise WordwaveError(
                f"'{folder / 'vocab.json'}' is not a vocabulary: {problem}"
            ) from None
        kind = config.text.tokenizer
        file = folder / "tokenizer.json" if kind == "bpe" else None
        encoder = TextEncoder(
            build_tokenizer(kind, file=file), vocabulary, max_length=config.model.max_length
        )
        model = load_model(
            folder,
            lambda: Classifier(config.model, len(vocabulary), len(labels)),
            dim=config.model.dim,
        )
        return cls(model, encoder, labels, config)

    def generate_model_card(self, *args: Any, **details: Any) -> ModelCard:
        """The README.md for the hub; `result` adds a run's figures, `repo_id` the model's name."""
        about = {
            "labels": [f"`{label}`" for label in self.labels],
            "model": self.config.model,
            "n_words": len(self.encoder.vocabulary),
            "n_parameters": count_parameters(self.model),
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


def _without_folders(config: ClassificationConfig) -> ClassificationConfig:
    """Files by their names alone: no one's folders are told to the hub, nor believed from there."""

    def bare(settings: C, *names: str) -> C:
        files: dict[str, Any] = {name: getattr(settings, name) for name in names}
        for name, path in files.items():
            files[name] = path and PureWindowsPath(path).name  # which knows both / and \
        return replace(settings, **files)

    return replace(
        config, data=bare(config.data, "data", "dev", "test"), text=bare(config.text, "vectors")
    )


def _names(labels: Any) -> list[str]:
    conform(labels, list[str], where="labels")
    if len(set(labels)) < len(labels):
        raise WordwaveError(f"labels must differ, got {clipped(labels)}")
    return labels
