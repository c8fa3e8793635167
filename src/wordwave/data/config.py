"""What data a task is given. Needs no torch, so that the command line starts at once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wordwave.data.pairs import pair_set_names
from wordwave.data.registry import BUILT_IN, dataset_named, names
from wordwave.errors import WordwaveError
from wordwave.limits import COUNT, check_limits

IN_MEMORY = "(in memory)"
"""The `data` of examples that were not read from a file."""


@dataclass(frozen=True)
class DataConfig:
    """The labelled texts of a classifier."""

    data: str = ""
    """A data set by name (wordwave data list), or a file of your own: .csv, .tsv or .jsonl,
    also .gz; or hf:NAME for a data set of the Hugging Face hub."""
    dev: str | None = None
    """Validation set: a file; by default a tenth of the training examples. It selects the best
    epoch."""
    test: str | None = None
    """Test set: a file, evaluated once at the end."""
    text: str = "text"
    """The column of texts in files of your own."""
    label: str = "label"
    """The column of labels in files of your own."""
    fold: int = 0
    """Cross-validation fold of data sets without a test set (mr, subj, cr, mpqa): which tenth is
    tested on."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files, and data sets of the hub, that it names; none for a data set by name."""
        named = tuple(name for name in (self.data, self.dev, self.test) if name)
        known = [IN_MEMORY, *names("classification")]
        return () if len(named) == 1 and named[0] in known else named


@dataclass(frozen=True)
class PairDataConfig:
    """The pairs of sentences of a matcher."""

    data: str = ""
    """built-in (a part of PAWS-Wiki, no download), another data set by name (paws-wiki, paws-qqp,
    sts-b, sick), or a file of your own: .csv, .tsv or .jsonl, also .gz."""
    dev: str | None = None
    """Validation set: a file; by default a tenth of the training pairs, cut so that it shares no
    sentence with the others. It selects the best epoch."""
    test: str | None = None
    """Test set: a file, evaluated once at the end."""
    text_a: str = "text_a"
    """The column of first sentences in files of your own."""
    text_b: str = "text_b"
    """The column of second sentences."""
    label: str = "label"
    """The column of labels: any names of classes."""
    similarity: str | None = None
    """A column of numbers, such as similarities, to predict instead of a label."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it names; none for a data set by name."""
        named = tuple(name for name in (self.data, self.dev, self.test) if name)
        known = [IN_MEMORY, *pair_set_names()]
        return () if len(named) == 1 and named[0] in known else named

    @property
    def predicts_scores(self) -> bool:
        """Whether a number is predicted, not a class."""
        if self.data in names("matching"):
            return not dataset_named(self.data).classes
        return self.similarity is not None


@dataclass(frozen=True)
class SentenceDataConfig:
    """The sentences of an encoder."""

    data: str = ""
    """Sentences, one per line: a text file, also .gz."""
    teacher: str | None = None
    """Vectors of these sentences by another model, which are imitated: a .npy file with a float16
    or float32 row per sentence, or the name or folder of a sentence-transformers model, which
    encodes them once. By default none: two halves of a sentence are trained to be similar."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files, and the teacher, that it names."""
        return tuple(name for name in (self.data, self.teacher) if name)


@dataclass(frozen=True)
class ParallelDataConfig:
    """The sentence pairs of a translation model."""

    data: str = BUILT_IN
    """built-in (user-interface sentences, no download) or multi30k; ignored with --source."""
    source: str | None = None
    """A text file of your own, one sentence per line, also .gz."""
    target: str | None = None
    """Its translation, line by line."""
    dev_source: str | None = None
    """Validation set: sentences to select the best weights by; by default a tenth of the pairs, at
    most 1,000."""
    dev_target: str | None = None
    """Their translations."""
    test_source: str | None = None
    """Test set: sentences that are translated and scored once, at the end."""
    test_target: str | None = None
    """Their translations."""
    source_language: str = "en"
    """Code of the source language, such as en or pt-br; the named data sets have en and de.
    Languages without Moses rules use the English ones."""
    target_language: str = "de"
    """Code of the target language."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it names; none for a data set by name."""
        named = (getattr(self, name) for pair in PAIRS for name in pair)
        return tuple(name for name in named if name)

    @property
    def name(self) -> str:
        """Of the data set, or of the source file."""
        return self.data if self.source is None else Path(self.source).name.split(".")[0]

    def __post_init__(self) -> None:
        for one, other in PAIRS:
            if (getattr(self, one) is None) != (getattr(self, other) is None):
                raise WordwaveError(f"{one} and {other} go together, got only one of them")
        if self.source is None and (self.dev_source or self.test_source):
            raise WordwaveError(f"dev_source and test_source need source, got data {self.data!r}")
        for name in ("source_language", "target_language"):
            if not re.fullmatch("[a-z]{2,3}([-_][A-Za-z]+)?", getattr(self, name)):
                raise WordwaveError(
                    f"{name} must be a code of two or three small letters such as de, "
                    f"got {getattr(self, name)!r}"
                )


PAIRS = (("source", "target"), ("dev_source", "dev_target"), ("test_source", "test_target"))
"""The settings that name two files, line by line each other's translation."""


@dataclass(frozen=True)
class LanguageModelDataConfig:
    """The text of a language model."""

    data: str = "python-help"
    """python-help (the documentation in Python itself, no download), text8, enwik8, or a UTF-8 text
    file of your own, also .gz and .xz, which is split 90/5/5 into training, validation and test."""
    unit: Literal["char", "byte"] | None = None
    """Predict characters or bytes; by default characters, for enwik8 bytes."""
    eval_chars: int = 20_000
    """Characters at the start of the validation set that each evaluation in training scores; 0 for
    all."""
    test_chars: int = 0
    """Characters of the validation and the test set that the finished model is scored on; 0 for
    all."""

    @property
    def files(self) -> tuple[str, ...]:
        """The file that it names; none for a text by name."""
        from wordwave.data.corpora import corpus_names

        return () if self.data in corpus_names() else (self.data,)

    def __post_init__(self) -> None:
        check_limits(self, {"eval_chars": COUNT, "test_chars": COUNT})
        for name in ("eval_chars", "test_chars"):
            if getattr(self, name) == 1:
                raise WordwaveError(f"{name} must be 0 or at least 2, got {getattr(self, name)}")
