"""A trained text classifier: from texts to classes, to a folder and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import ModelHubMixin, snapshot_download
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from wordwave import __version__
from wordwave.files import write_text, write_whole
from wordwave.models.classifier import Classifier
from wordwave.plain import dump_yaml, from_plain, read_yaml, to_plain
from wordwave.tasks.config import ClassifyConfig
from wordwave.tasks.sentences import logits_of
from wordwave.text.bpe import BpeTokeniser
from wordwave.text.encode import TextEncoder
from wordwave.text.tokenise import build_tokeniser
from wordwave.text.vocabulary import Vocabulary

FILES = ("config.yaml", "vocab.json", "tokenizer.json", "model.safetensors")


class TextClassifier(
    ModelHubMixin,
    library_name="wordwave",
    tags=["text-classification", "complex-valued", "word-order"],
):
    """Says the class of a text.

    Args:
        model: gives logits for word ids.
        encoder: makes word ids of texts.
        labels: the name of each class.
        config: how it was trained; its `model` is that of `model`.
    """

    def __init__(
        self, model: Classifier, encoder: TextEncoder, labels: Sequence[str], config: ClassifyConfig
    ) -> None:
        self.model, self.encoder, self.labels, self.config = model, encoder, list(labels), config

    def logits(self, texts: Sequence[str]) -> Tensor:
        """Shape: N texts -> (N, n_classes)"""
        if not texts:
            return torch.zeros(0, len(self.labels))
        sentences, _ = self.encoder.encode(texts)
        return logits_of(self.model, sentences)

    def probabilities(self, texts: Sequence[str]) -> Tensor:
        """Shape: N texts -> (N, n_classes), rows of sum 1"""
        return self.logits(texts).softmax(-1)

    def predict(self, texts: Sequence[str]) -> list[str]:
        """The likeliest class of each text."""
        return [self.labels[i] for i in self.logits(texts).argmax(-1).tolist()]

    def save(self, folder: Path) -> None:
        """Write config.yaml, vocab.json and model.safetensors, which other tools can read."""
        self.save_words(folder)
        self.save_weights(folder)

    def save_words(self, folder: Path) -> None:
        """All but the weights: what is known before training."""
        about = {"task": "classify", "version": __version__, **to_plain(self.config)}
        write_text(folder / "config.yaml", dump_yaml(about))
        words = {**self.encoder.vocabulary.to_dict(), "labels": self.labels}
        write_text(folder / "vocab.json", json.dumps(words, ensure_ascii=False, indent=0))
        if isinstance(self.encoder.tokeniser, BpeTokeniser):
            write_whole(folder / "tokenizer.json", self.encoder.tokeniser.save)

    def save_weights(self, folder: Path, weights: dict[str, Tensor] | None = None) -> None:
        """The model's weights, or others of the same shapes, such as the best so far."""
        weights = self.model.state_dict() if weights is None else weights
        whole = {name: w.detach().cpu().contiguous() for name, w in weights.items()}
        header = {"format": "pt", "task": "classify"}
        write_whole(
            folder / "model.safetensors", lambda new: save_file(whole, new, metadata=header)
        )

    @classmethod
    def load(cls, folder: str | Path) -> TextClassifier:
        """Read what `save` wrote; ready to predict."""
        folder = Path(folder)
        config = read_run(folder)
        if not (folder / "model.safetensors").exists():
            raise ValueError(f"'{folder}' holds no trained model yet: train it first")
        try:
            told = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
            vocabulary, labels = Vocabulary.from_dict(told), list(told["labels"])
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise ValueError(f"'{folder / 'vocab.json'}' is not a vocabulary: {problem}") from None
        kind = config.text.tokeniser
        file = folder / "tokenizer.json" if kind == "bpe" else None
        encoder = TextEncoder(
            build_tokeniser(kind, file=file), vocabulary, max_length=config.model.max_length
        )
        model = Classifier(config.model, len(vocabulary), len(labels))
        try:
            model.load_state_dict(load_file(folder / "model.safetensors"))
        except (SafetensorError, RuntimeError) as problem:
            reason = str(problem).splitlines()[-1].strip()[:200]
            raise ValueError(
                f"'{folder / 'model.safetensors'}' does not hold this model: {reason}"
            ) from None
        return cls(model.eval(), encoder, labels, config)

    def _save_pretrained(self, save_directory: Path) -> None:
        self.save(save_directory)

    @classmethod
    def _from_pretrained(cls, *, model_id: str, **options: Any) -> TextClassifier:
        if Path(model_id).is_dir():
            return cls.load(model_id)
        known = ("revision", "cache_dir", "force_download", "local_files_only", "token")
        asked = {name: options[name] for name in known if name in options}
        return cls.load(snapshot_download(model_id, allow_patterns=list(FILES), **asked))


def read_run(folder: Path) -> ClassifyConfig:
    """The config of a run folder of text classification."""
    path = folder / "config.yaml"
    if not folder.is_dir() or not path.exists():
        raise ValueError(f"'{folder}' is not a run folder: it has no config.yaml")
    plain = read_yaml(path)
    task = plain.pop("task", None)
    plain.pop("version", None)
    if task != "classify":
        raise ValueError(f"'{folder}' is a run of {task!r}, wanted one of 'classify'")
    return from_plain(ClassifyConfig, plain, where=f"'{path}'")
