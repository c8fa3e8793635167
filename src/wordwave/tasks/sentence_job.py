"""What training a classifier of texts and one of pairs share: vocabulary, vectors, labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from reprlib import repr as clipped
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from wordwave.data.registry import data_home
from wordwave.embedding.pretrained import Vectors, read_vectors
from wordwave.errors import WordwaveError
from wordwave.progress import track
from wordwave.tasks.config import IN_MEMORY, ClassificationConfig, MatchingConfig, TextConfig
from wordwave.tasks.run import Config, Data, Job
from wordwave.text.tokenizers import BPETokenizer, TextTokenizer, build_tokenizer, train_bpe
from wordwave.text.vocabulary import Vocabulary

N = TypeVar("N", bound=nn.Module)
S = TypeVar("S", bound="SentenceJob[Any, Any]")
ENDINGS = ("*.npy", ".bin", ".bin.gz", ".vec", ".vec.gz", ".txt")
"""What may follow the name of pretrained vectors in the data home."""


class SentenceJob(Job[Config, Data]):
    """What classifiers of texts and of pairs share: pretrained vectors, labels, data in memory."""

    examples: ClassVar[str]
    """What --data names, for messages."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.share_is_given = self.config.data.dev_share is not None
        """Whether the user asks for a `dev_share`; that of a run is taken over."""

    @classmethod
    def from_run(cls: type[S], folder: Path) -> S:
        job = super().from_run(folder)
        job.share_is_given = False
        return job

    def only_class(self) -> str | None:
        """The class that all training examples are predicted as, if there is one."""
        return None

    def held_out_note(self, data: Any) -> list[str]:
        """What was held out for validation, if that was chosen here and not by the user."""
        named = self.config.data
        if named.data == IN_MEMORY or not named.files or named.dev is not None:
            return []
        n, what = len(data.train), self.examples
        if data.dev is None:
            return [
                f"all {n:,} {what} are trained on; --dev-share 0.1 holds out a tenth for validation"
            ]
        if not getattr(data, "dev_is_cut", True):
            return []
        held = f"{len(data.dev):,} of {n + len(data.dev):,} {what}"
        return [f"{held} are held out for validation (--dev-share, or --dev FILE)"]

    def network(
        self, make: Callable[..., N], config: Any, vocabulary: Vocabulary, vectors: Vectors | None
    ) -> N:
        """A network with initial weights of the seed, or with pretrained vectors."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.training.seed)
            options: dict[str, Any] = {"sparse": config.training.row_sparse}
            if vectors is not None:
                scale = config.text.vector_scale
                aligned, found = vectors.aligned_to(vocabulary.words, scale=scale)
                options |= {"vectors": aligned, "freeze_vectors": config.text.freeze_vectors}
                self.notes.append(f"{int(found.sum()):,} of them have a pretrained vector")
            return make(**options)

    def class_numbers(self, labels: Sequence[str], name: str) -> Tensor:
        """The number of each label; one that the training set lacks is refused. Shape: (N,)"""
        known: list[str] = self.text_model.labels
        number = {label: i for i, label in enumerate(known)}
        try:
            found = np.fromiter(map(number.__getitem__, labels), np.int64, len(labels))
            return torch.from_numpy(found)
        except KeyError as problem:
            raise WordwaveError(
                f"{name} has the label {clipped(problem.args[0])}, which is not in the training "
                f"set; known: {', '.join(map(clipped, known[:20]))}"
            ) from None

    @property
    def may_differ(self) -> tuple[str, ...]:
        return () if self.config.text.vectors is None else ("dim",)

    def check_test_data(self, folder: Path) -> None:
        if self.config.data.data == IN_MEMORY:
            raise WordwaveError(
                f"'{folder}' was trained in memory: name {self.examples} with --data FILE"
            )
        try:
            result = self.finished(folder)
        except (WordwaveError, OSError):  # the data itself tells
            return
        if result and not any(result.get(k) is not None for k in ("test", "dev", "dev_accuracy")):
            raise WordwaveError(
                f"'{folder}' has no test set and no validation set: name {self.examples} to score "
                "with --data FILE (in training, --test FILE names a test set)"
            )

    def test_data(self, folder: Path, *, trusted: bool = False) -> Any:
        self.check_signed(folder, trusted=trusted)
        self.check_test_data(folder)
        try:
            return super().test_data(folder, trusted=trusted)
        except FileNotFoundError as problem:
            raise WordwaveError(f"{problem}; --data names other {self.examples}") from None


def check_penalty(config: ClassificationConfig | MatchingConfig) -> None:
    """Raise for settings that would change vectors and keep them."""
    if config.training.amplitude_penalty and config.text.freeze_vectors:
        raise WordwaveError(
            "amplitude_penalty changes the vectors that freeze_vectors keeps: choose one"
        )


def vocabulary_of(
    texts: Sequence[str], settings: TextConfig
) -> tuple[TextTokenizer, Vocabulary, Vectors | None]:
    """The tokenizer and vocabulary of training texts, and pretrained vectors if there are any."""
    tokenizer: TextTokenizer = (
        train_bpe(track(texts, "learning subwords", len(texts)), settings.bpe_size)
        if settings.tokenizer == "bpe"
        else build_tokenizer(settings.tokenizer)
    )
    counts: Counter[str] = Counter()
    for text in track(texts, "counting words", len(texts)):
        counts.update(tokenizer(text))
    extra_words = tokenizer.words if isinstance(tokenizer, BPETokenizer) else []
    vectors = None
    if settings.vectors is not None:
        vectors = read_vectors(
            find_vectors(settings.vectors), vocabulary=set(counts), besides=settings.extra_words
        )
        # Words of the training texts are chosen by their counts.
        extra_words = [*extra_words, *(word for word in vectors.words if word not in counts)]
    vocabulary = Vocabulary.from_counts(
        counts,
        min_count=settings.min_count,
        max_size=settings.max_vocabulary,
        extra_words=extra_words,
    )
    return tokenizer, vocabulary, vectors


def find_vectors(name: str) -> Path:
    """A file of pretrained vectors: a path, or a name under vectors/ in the data home."""
    if Path(name).exists():
        return Path(name)
    folder = data_home() / "vectors"
    ended = [] if Path(name).is_absolute() else [sorted(folder.glob(name + e)) for e in ENDINGS]
    for candidate in (folder / name, *chain(*ended)):
        if candidate.is_file():
            return candidate
    raise WordwaveError(
        f"vectors must be a file or a name in '{folder}', got {name!r}: put such a file there, or "
        "name one of your own (--vectors FILE, or vectors: in a recipe)"
    )
