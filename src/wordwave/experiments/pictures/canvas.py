"""What pictures of tables and figures have in common: looks, and how they are written."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from wordwave.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ENDINGS = (".png", ".svg")
FORMATS = (*ENDINGS, ".pdf")
COLOURS = ("#2a6fdb", "#e0662f", "#2f9e66", "#8e44ad", "#c0392b")


def canvas(width: float, height: float) -> Any:
    """An empty figure of so many inches."""
    from matplotlib.figure import Figure  # no pyplot: no window system, no global state

    return Figure(figsize=(width, height), layout="constrained")


def check_format(path: Path) -> None:
    """Refuse a picture of another kind, before it is drawn."""
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"a picture must end in {', '.join(FORMATS)}, got '{path}'")


def tidy(axes: Axes, grid: Literal["y", "both"] = "y") -> None:
    """Fewer lines, and those behind what is drawn."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, color="#e6e6e6", lw=0.6)
    axes.set_axisbelow(True)


def saved(figure: Any, path: Path) -> list[Path]:
    """Write a picture as PNG and as SVG."""
    return [written(figure, path.with_name(path.name + ending)) for ending in ENDINGS]


def written(figure: Any, path: Path) -> Path:
    """Write a picture; in SVG, text stays text, and the same picture gives the same file."""
    import matplotlib as mpl

    form = path.suffix.lower()[1:]
    undated = {"metadata": {"Date": None}} if form == "svg" else {}
    save = partial(figure.savefig, dpi=160, format=form, **undated)
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "wordwave"}):
        write_whole(path, save)
    return path
