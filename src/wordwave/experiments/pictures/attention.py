"""The picture of attention: which source pieces each target piece heard."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from torch import Tensor

from wordwave.experiments.pictures.canvas import canvas, check_format, written
from wordwave.experiments.pictures.fonts import families_for


def draw_attention(source: Sequence[str], target: Sequence[str], heard: Tensor, path: Path) -> Path:
    """The mean over all layers, large, and each layer beside it.

    Shape: heard (layers, T, S)
    """
    check_format(path)
    maps = [("all layers", heard.mean(0))]
    if len(heard) > 1:
        maps += [(f"layer {i}", layer) for i, layer in enumerate(heard, start=1)]
    width = min(max(3.0, 0.32 * len(source) + 1.2), 14.0)
    height = min(max(2.2, 0.28 * len(target) + 1.2), 14.0)
    small = min(width, 2.6)
    with mpl.rc_context({"font.size": 9, "font.family": families_for([*source, *target])}):
        figure = canvas(width + small * (len(maps) - 1), height)
        axes = figure.subplots(
            1, len(maps), squeeze=False, width_ratios=[width] + [small] * (len(maps) - 1)
        )[0]
        for i, ((name, values), axis) in enumerate(zip(maps, axes, strict=True)):
            axis.imshow(values.numpy(), cmap="Blues", vmin=0, vmax=1, aspect="auto")
            axis.set_title(name)
            axis.spines[:].set_visible(False)
            if i:
                axis.set_xticks([])
                axis.set_yticks([])
                continue
            axis.set_xticks(
                range(len(source)), [_safe(s) for s in source], rotation=60, ha="right",
                rotation_mode="anchor",
            )  # fmt: skip
            axis.set_yticks(range(len(target)), [_safe(t) for t in target])
            axis.set_xlabel("read")
            axis.set_ylabel("written")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph")  # `missing_glyphs` tells of it
            return written(figure, path)


def _safe(text: str, most: int = 16) -> str:
    """Short, and without control characters or a dollar sign, which would begin a formula."""
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text.strip())
    return (text if len(text) <= most else text[: most - 1] + "…").replace("$", r"\$")
