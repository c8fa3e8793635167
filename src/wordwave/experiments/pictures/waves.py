"""Figures, drawn with matplotlib and written to a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
import torch

from wordwave import complex as cx
from wordwave.experiments.pictures.canvas import COLOURS, canvas, written

if TYPE_CHECKING:
    from wordwave.embedding import WaveEmbedding


def draw_waves(
    embedding: WaveEmbedding,
    words: Sequence[str],
    path: Path,
    *,
    notes: Sequence[str] = (),
    length: int = 24,
) -> Path:
    """Fig. 1 of the paper for the first words of a vocabulary: each dimension is a wave.

    Curves are the real parts over continuous positions; a dot is what the network sees when the
    word stands at that place. Rows are words (ids 1, 2, …), with a note each if there are any;
    colours are dimensions.
    """
    fine = torch.linspace(0, length, 40 * length + 1)
    with mpl.rc_context({"font.size": 10}):
        figure = canvas(8, 1.1 + 1.65 * len(words))
        rows = figure.subplots(len(words), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for j, (word, axes) in enumerate(zip(words, rows, strict=True), start=1):
            curves, dots = (_real_parts(embedding, j, at) for at in (fine, fine[::40]))
            for d in range(embedding.dim):
                colour = COLOURS[d % len(COLOURS)]
                period = float(embedding.period()[j, d])
                label = f"period {period:.0f}" if period < 1000 else "constant"
                axes.plot(fine, curves[:, d], color=colour, lw=1.6, label=label)
                axes.plot(fine[::40], dots[:, d], "o", color=colour, ms=3)
            label = "\n".join([f"“{word}”", *notes[j - 1 : j]])
            axes.set_ylabel(label, rotation=0, ha="right", va="center", fontsize=11)
            axes.axhline(0, color="#999999", lw=0.6)
            axes.grid(axis="x", color="#e6e6e6", lw=0.6)
            axes.spines[["top", "right"]].set_visible(False)
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8)
        rows[-1].set_xlabel("position in the sentence")
        rows[-1].set_xticks(range(0, length + 1, 4))
        figure.suptitle("A word is a wave: amplitude is meaning, phase is place", fontsize=12)
        return written(figure, path)


@torch.no_grad()
def _real_parts(embedding: WaveEmbedding, word: int, positions: torch.Tensor) -> torch.Tensor:
    """Shape: positions (P,) -> (P, D)"""
    ids = torch.full(positions.shape, word)
    return cx.real(embedding(ids, positions=positions))
