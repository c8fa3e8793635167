"""A trained text classifier: from texts to classes, to a folder and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PureWindowsPath
from reprlib import repr as clipped
from typing import Any, TypeVar

import torch
from huggingface_hub import ModelCard, ModelHubMixin, snapshot_download
from torch import Tensor

from wordwave.files import write_text, write_whole
from wordwave.models.classifier import Classifier, count_parameters
from wordwave.models.remembered import RememberedBag
from wordwave.plain import conform, read_json, to_plain
from wordwave.tasks.card import CARD
from wordwave.tasks.config import ClassifyConfig, DataSettings, TextSettings
from wordwave.tasks.run_folder import (
    check_trained,
    load_model,
    read_config,
    save_config,
)
from wordwave.tasks.sentences import finite, logits_of
from wordwave.tasks.trained import Trained
from wordwave.text.bpe import BpeTokeniser
from wordwave.text.encode import TextEncoder
from wordwave.text.sentences import Sentences
from wordwave.text.tokenise import build_tokeniser
from wordwave.text.vocabulary import Vocabulary

C = TypeVar("C", DataSettings, TextSettings)

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
    config: ClassifyConfig

    def __init__(
        self, model: Classifier, encoder: TextEncoder, labels: Sequence[str], config: ClassifyConfig
    ) -> None:
        self.model, self.encoder, self.labels, self.config = model, encoder, list(labels), config
        self._bag: RememberedBag | None = None

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
        if RememberedBag.serves(self.model):
            bag = self._bag or RememberedBag(self.model)
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
        if isinstance(self.encoder.tokeniser, BpeTokeniser):
            write_whole(folder / "tokenizer.json", self.encoder.tokeniser.save)

    @classmethod
    def load(cls, folder: str | Path) -> TextClassifier:
        """Read what `save` wrote; ready to predict."""
        folder = Path(folder)
        config = read_config(folder, cls.task, ClassifyConfig)
        check_trained(folder)
        try:
            saved = read_json(folder / "vocab.json")
            vocabulary, labels = Vocabulary.from_dict(saved), _names(saved.get("labels"))
        except (OSError, ValueError) as problem:
            raise ValueError(f"'{folder / 'vocab.json'}' is not a vocabulary: {problem}") from None
        kind = config.text.tokeniser
        file = folder / "tokenizer.json" if kind == "bpe" else None
        encoder = TextEncoder(
            build_tokeniser(kind, file=file), vocabulary, max_length=config.model.max_length
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
        about = {"library_name": "wordwave", "task": self.task, **to_plain(config.model)}
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


def _without_folders(config: ClassifyConfig) -> ClassifyConfig:
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
        raise ValueError(f"labels must differ, got {clipped(labels)}")
    return labels
