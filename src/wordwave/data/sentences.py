"""Sentences for an encoder, one per line, and the vectors of a teacher."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from wordwave.data.tables import read_texts
from wordwave.errors import WordwaveError
from wordwave.files import check_regular, sha256_of

MAX_DEV_SENTENCES = 2000
N_HASHED_ROWS = 1000
"""Rows of the teacher that a fingerprint hashes."""
Vectors = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class SentenceSplits:
    """Training and validation sentences."""

    texts: list[str] = field(repr=False)
    train: list[int] = field(repr=False)
    """Rows to train on."""
    dev: list[int] = field(repr=False)
    """Rows of the validation set."""
    name: str = "sentences"
    """Where they come from, for messages."""
    teacher: Vectors | None = field(default=None, repr=False)
    """A vector for each of the texts, if they have been computed. Shape: (N, W)"""

    def fingerprint(self) -> str:
        """A hash of all sentences, and of some vectors of the teacher."""
        parts: Iterable[bytes] = [repr((self.texts, self.dev)).encode()]
        if self.teacher is not None:
            step = max(len(self.teacher) // N_HASHED_ROWS, 1)
            parts = [*parts, repr(self.teacher.shape).encode(), self.teacher[::step].tobytes()]
        return sha256_of(parts)[:16]


def read_sentences(path: str | Path, teacher: str | Path | None = None) -> SentenceSplits:
    """Sentences from a text file, also .gz; a random tenth, at most 2,000, is for validation.

    Args:
        teacher: a .npy file with a vector for each sentence.
    """
    texts = list(read_texts(path, form="txt"))
    for line, text in enumerate(texts, start=1):
        if not text.strip():
            raise WordwaveError(f"file '{path}': line {line} must hold a sentence, got nothing")
    return split_sentences(
        texts, str(path), None if teacher is None else read_teacher(Path(teacher), len(texts))
    )


def split_sentences(
    texts: list[str], name: str = "sentences", teacher: Vectors | None = None, *, seed: int = 0
) -> SentenceSplits:
    """Hold out a random tenth as the validation set; equal sentences stay together."""
    rows_of: dict[str, list[int]] = {}
    for row, text in enumerate(texts):
        rows_of.setdefault(" ".join(text.split()).casefold(), []).append(row)
    if len(rows_of) < 20:
        raise WordwaveError(f"{name} must hold 20 different sentences or more, got {len(rows_of)}")
    groups = list(rows_of.values())
    n_held_out = min(len(groups) // 10, MAX_DEV_SENTENCES)
    # One of each: a sentence that occurs a thousand times must not fill the validation set.
    chosen = [groups[i] for i in random.Random(seed).sample(range(len(groups)), n_held_out)]
    held_out = {row for rows in chosen for row in rows}
    train = [row for row in range(len(texts)) if row not in held_out]
    return SentenceSplits(texts, train, sorted(rows[0] for rows in chosen), name, teacher)


def read_teacher(path: Path, n_sentences: int | None = None) -> Vectors:
    """The vectors in a .npy file, memory-mapped and checked; of any number by default.

    Shape: (N, W), float16 or float32
    """
    if not path.is_file():
        raise WordwaveError(
            f"teacher must be a .npy file or a sentence-transformers model, got '{path}'"
        )
    check_regular(path)
    try:
        vectors: Vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception:  # numpy parses the header by several of Python's own parsers
        raise WordwaveError(f"teacher '{path}' is not a .npy file of numbers") from None
    if not isinstance(vectors, np.ndarray) or vectors.ndim != 2 or vectors.shape[1] < 1:
        shape = getattr(vectors, "shape", "several arrays")
        raise WordwaveError(f"teacher '{path}' must have a row per sentence, got {shape}")
    if vectors.dtype not in (np.float16, np.float32):
        raise WordwaveError(f"teacher '{path}' must be float16 or float32, got {vectors.dtype}")
    if n_sentences is not None and len(vectors) != n_sentences:
        raise WordwaveError(
            f"teacher '{path}' must have a row for each of the {n_sentences:,} sentences, "
            f"got {len(vectors):,}"
        )
    return vectors
