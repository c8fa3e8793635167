"""Pretrained word vectors: word2vec binary, text (word2vec, fastText, GloVe) and `.npy`.

Files are streamed and only the rows of wanted words are kept, so a 3 GB file needs little memory.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor

from wordwave.embedding.vector_file import Kept, opened
from wordwave.embedding.vector_readers import read_binary, read_npy, read_text, words_beside

Format = Literal["auto", "word2vec-binary", "text", "npy"]


@dataclass(frozen=True, eq=False)
class Vectors:
    """Words and their vectors: row i of `matrix` (n, dim), float32, belongs to `words[i]`."""

    words: list[str] = field(repr=False)
    matrix: Tensor

    def __post_init__(self) -> None:
        if self.matrix.dim() != 2 or len(self.matrix) != len(self.words):
            shape = tuple(self.matrix.shape)
            raise ValueError(f"matrix must be ({len(self.words)}, dim), a row a word, got {shape}")

    @property
    def dim(self) -> int:
        return self.matrix.shape[1]

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._row_of

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {word: row for row, word in reversed(list(enumerate(self.words)))}

    def aligned_to(
        self, words: Sequence[str], *, scale: float = 1.0, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """The vectors of `words` times `scale`: matrix (len(words), dim), found (len(words),) bool.

        Missing words are normal noise around zero, each component as spread as over the found
        rows; fewer than two found rows have no spread, then it is `scale / sqrt(dim)`.
        """
        rows = torch.tensor([self._row_of.get(word, -1) for word in words], dtype=torch.long)
        found = rows >= 0
        known = self.matrix[rows[found]] * scale
        spread = known.std(dim=0) if len(known) > 1 else scale / self.dim**0.5
        aligned = torch.randn(len(words), self.dim, generator=generator) * spread
        aligned[found] = known
        return aligned, found


def read_vectors(
    path: str | os.PathLike[str],
    *,
    vocabulary: Collection[str] | None = None,
    besides: int = 0,
    words: str | os.PathLike[str] | None = None,
    format: Format = "auto",
    dim: int | None = None,
) -> Vectors:
    """Pretrained vectors (n, dim) in file order; of a repeated word the first row counts.

    vocabulary: the words to keep; None keeps all.
    besides: how many others to keep as well, those that stand first in the file.
    words: the words of an `.npy` matrix, one a line; by default `<stem>.words.txt(.gz)` beside it.
    format: "auto" goes by the file ending: `.bin(.gz)`, `.npy`, everything else is text.
    dim: what the file's dimension must be. Without it a text file that has no header is as wide
        as its first line, whose word then must hold no space.
    """
    if format not in get_args(Format):
        raise ValueError(f"format must be one of {get_args(Format)}, got {format!r}")
    if dim is not None and dim < 1:
        raise ValueError(f"dim must be at least 1, got {dim}")
    path = Path(path)
    kind = _format_by_ending(path) if format == "auto" else format
    if words is not None and kind != "npy":
        raise ValueError(f"words= goes with an .npy matrix, '{path}' is read as {kind}")
    if vocabulary is not None and not all(isinstance(word, str) for word in vocabulary):
        raise TypeError("vocabulary must hold words, strings, got something else among them")
    kept = Kept(None if vocabulary is None else frozenset(vocabulary), besides)
    with opened(path, "vectors file") as stream:
        if kind == "npy":
            beside = words_beside(path) if words is None else Path(words)
            width = read_npy(path, beside, kept, dim)
        else:
            read = read_binary if kind == "word2vec-binary" else read_text
            width = read(stream, kept, dim)
    return Vectors(kept.words, kept.matrix(width))


def _format_by_ending(path: Path) -> Format:
    name = path.name.lower()
    if name.endswith((".bin", ".bin.gz")):
        return "word2vec-binary"
    return "npy" if name.endswith(".npy") else "text"
