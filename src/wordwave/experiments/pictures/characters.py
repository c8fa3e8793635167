"""The learnt frequencies of characters as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

from wordwave.embedding import WaveEmbedding
from wordwave.experiments.pictures.canvas import canvas, check_format, written
from wordwave.experiments.pictures.fonts import families_for

if TYPE_CHECKING:
    from wordwave.tasks.writer import Writer

MOST = 64


def draw_frequencies(writer: Writer, path: Path) -> Path:
    """How much each character cares where it stands: δ, the mean |ω|, and each ω beside the usual.

    Characters are sorted by δ, of more than 64 those at both ends are shown. Colours tell how much
    faster or slower a character's wave is than the median one of the same dimension.
    """
    check_format(path)
    embedding = writer.model.embedding
    if not isinstance(embedding, WaveEmbedding):
        raise ValueError(
            "only complex-order has frequencies to draw, "
            f"got a model with embedding {writer.config.model.embedding!r}"
        )
    first = 1 if writer.alphabet.unit == "char" else 0  # the unknown character is never trained
    delta = embedding.sensitivity()[first:]
    frequency = embedding.frequency.full().detach()[first:].expand(len(delta), embedding.dim).abs()
    order = delta.argsort(descending=True, stable=True).tolist()
    if len(order) > MOST:
        order = order[: MOST // 2] + order[-MOST // 2 :]
    names = [writer.alphabet.names[i + first] for i in order]
    usual = frequency.median(dim=0).values.clamp(min=1e-12)
    beside = (frequency[order] / usual - 1).mul(100).numpy()
    limit = min(max(float(abs(beside).max()), 1e-6), 100.0)
    with mpl.rc_context({"font.size": 9}):
        figure = canvas(10, 1.6 + 0.19 * len(order))
        dots, grid = figure.subplots(1, 2, sharey=True, width_ratios=[1, 2.4])
        dots.plot(delta[order].numpy(), range(len(order)), "o", color="#2a6fdb", ms=4)
        dots.set_yticks(range(len(order)), names, fontfamily=["monospace", *families_for(names)])
        dots.locator_params(axis="x", nbins=4)
        dots.grid(color="#e6e6e6", lw=0.6)
        dots.set_xlabel("δ, mean |ω| (radians a place)")
        dots.spines[["top", "right"]].set_visible(False)
        image = grid.imshow(
            beside, aspect="auto", cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest"
        )
        grid.set_xlabel("dimension, from short waves to long ones")
        figure.colorbar(
            image, ax=grid, label="% faster than the median character", extend="max", aspect=40
        )
        figure.suptitle("How much each character cares where it stands")
        return written(figure, path)
