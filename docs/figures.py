"""The figures of docs/idea.md, drawn from WaveEmbedding itself.

python docs/figures.py          writes docs/figures/*.svg
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from numpy.typing import NDArray

import wordwave as ww
from wordwave import complex as cx
from wordwave.plotting import BLUE, GREEN, GREY, ORANGE

FOLDER = Path(__file__).parent / "figures"
STYLE = {
    "axes.grid": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "figure.facecolor": "white",
    "font.size": 9,
    "legend.frameon": False,
    "svg.hashsalt": "wordwave",
}
WIDTH = 7.6


def waves(
    amplitude: list[float], frequency: float, phase: list[float] | None = None
) -> ww.WaveEmbedding:
    """One complex dimension, in which all words share their frequency."""
    embedding = ww.WaveEmbedding(
        len(amplitude),
        1,
        vectors=torch.tensor(amplitude).unsqueeze(1),
        share_frequency="word",
        frequency_init=torch.tensor([[frequency]]),
        phase=phase is not None,
        padding_idx=None,
    )
    if phase is not None and embedding.phase is not None:
        embedding.phase.weight.data = torch.tensor(phase).unsqueeze(1)
    return embedding


@torch.no_grad()
def values(
    embedding: ww.WaveEmbedding, ids: list[int], positions: NDArray | list[int] | None = None
) -> NDArray[np.complex64]:
    """Words at positions, by default 1, 2, …, as complex numbers. Shape: (L,)"""
    return cx.to_complex(embedding(torch.tensor(ids), positions)).squeeze(-1).numpy()


def plane(axes: Axes, radius: float, title: str) -> None:
    """An empty complex plane."""
    axes.set(xlim=(-radius, radius), ylim=(-radius, radius), aspect="equal", title=title)
    axes.axhline(0, color=GREY, linewidth=0.5, zorder=0)
    axes.axvline(0, color=GREY, linewidth=0.5, zorder=0)
    axes.set(xticks=[], yticks=[], xlabel="real part", ylabel="imaginary part")
    axes.spines[["left", "bottom"]].set_visible(False)


def arrow(axes: Axes, start: complex, end: complex, colour: str, width: float = 1.8) -> None:
    axes.annotate(
        "",
        xy=(end.real, end.imag),
        xytext=(start.real, start.imag),
        arrowprops={"arrowstyle": "-|>", "color": colour, "lw": width, "shrinkA": 0, "shrinkB": 0},
    )


def draw_wave() -> None:
    """One wave as a rotating arrow and as two curves."""
    omega, phase = 2 * np.pi / 12, 0.4
    embedding = waves([1.0], omega, [phase])
    points = values(embedding, [0] * 12, np.arange(12)).tolist()
    line = np.linspace(0, 24, 400)
    smooth = values(embedding, [0] * 400, line)
    _, (left, right) = plt.subplots(
        1, 2, figsize=(WIDTH, 2.9), gridspec_kw={"width_ratios": [1, 2.1]}, layout="constrained"
    )
    plane(left, 1.45, "g(pos) turns by ω at each step")
    left.plot(smooth.real, smooth.imag, color=GREY, linewidth=0.8)
    for i, point in enumerate(points):
        left.plot(point.real, point.imag, "o", markersize=3.5, color=BLUE)
        left.text(1.22 * point.real, 1.22 * point.imag, str(i), ha="center", va="center")
    arrow(left, 0, points[0], BLUE)
    arrow(left, 0, points[1], ORANGE)
    left.text(0.42, 0.42, "ω", color=ORANGE)
    left.text(0.62, 0.1, "θ", color=BLUE)
    right.plot(line, smooth.real, color=BLUE, label="real part, r·cos(ω·pos + θ)")
    right.plot(line, smooth.imag, color=GREEN, label="imaginary part, r·sin(ω·pos + θ)")
    right.plot(range(12), [p.real for p in points], "o", markersize=3.5, color=BLUE)
    right.plot(range(12), [p.imag for p in points], "o", markersize=3.5, color=GREEN)
    right.annotate("", xy=(3, 1.18), xytext=(15, 1.18), arrowprops={"arrowstyle": "<->"})
    right.text(9, 1.24, "period 2π/ω", ha="center")
    right.set(xlabel="position", ylim=(-1.2, 2.0), xticks=range(0, 25, 4), yticks=[-1, 0, 1])
    right.set_title("the same wave as two curves over positions")
    right.legend(loc="upper right", ncols=1, fontsize=8)
    save("wave")


def draw_claim() -> None:
    """The three cases of |z₁|: only two of them are bounded."""
    omega = 2 * np.pi / 14
    cases = (
        (0.9, "|z₁| = 0.9: bounded, forgets far positions", GREEN),
        (1.0, "|z₁| = 1: bounded, the paper's choice", BLUE),
        (1.08, "|z₁| = 1.08: unbounded, excluded", ORANGE),
    )
    _, row = plt.subplots(1, 3, figsize=(WIDTH, 2.9), layout="constrained")
    start = 0.9 * np.exp(0.4j)
    for axes, (size, title, colour) in zip(row, cases, strict=True):
        plane(axes, 2.3, title)
        axes.title.set_fontsize(8)
        line, steps = np.linspace(0, 15, 400), np.arange(16)
        for position, kind in ((line, "-"), (steps, "o")):
            z = start * size**position * np.exp(1j * omega * position)
            axes.plot(z.real, z.imag, kind, color=colour, linewidth=0.9, markersize=3.5)
        axes.text(start.real + 0.12, start.imag + 0.05, "z₂ = g(0)", fontsize=8)
    save("claim")


def chain(axes: Axes, parts: list[complex], colour: str, words: list[str], side: int) -> complex:
    """Arrows one after the other: their sum."""
    at = 0j
    for part, word in zip(parts, words, strict=True):
        arrow(axes, at, at + part, colour)
        middle, across = at + part / 2, 0.22j * part / abs(part) * side
        axes.text(
            (middle + across).real,
            (middle + across).imag,
            word,
            color=colour,
            ha="center",
            va="center",
        )
        at += part
    axes.plot(at.real, at.imag, "o", color=colour, markersize=7, fillstyle="none")
    return at


def draw_sums() -> None:
    """Two orders of the same words: added positions give one end point, waves two."""
    words, omega = ["dog", "bites", "man"], 0.9
    vectors = [1.0 + 0.55j, 0.85 - 0.5j, 0.9 + 1.0j]
    positions = [0.2 + 0.25j, 0.45 - 0.1j, 0.1 + 0.4j]
    embedding = waves([1.2, 0.8, 1.7], omega)
    _, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 3.7), layout="constrained")
    for axes, title in ((left, "added: Σ (r + p)"), (right, "multiplied: Σ r·e^{iω·pos}")):
        plane(axes, 3, title)
    for order, colour, side in (([0, 1, 2], BLUE, 1), ([2, 1, 0], ORANGE, -1)):
        named = [words[i] for i in order]
        added = [vectors[i] + p for i, p in zip(order, positions, strict=True)]
        chain(left, added, colour, named, -side)
        chain(right, values(embedding, order).tolist(), colour, named, side)
    left.set(xlim=(-0.4, 4.4), ylim=(-1.2, 3.1))
    right.set(xlim=(-2.7, 1.7), ylim=(-0.7, 3.3))
    left.text(3.5, 2.0, "one end point", ha="center")
    right.text(-1.3, -0.25, "two end points", ha="center")
    save("sums")


def draw_magnitude() -> None:
    """|s|² of two words by their signed distance, with equal and with different phases."""
    omega = 2 * np.pi / 40
    distance = range(-12, 13)
    _, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 2.7), layout="constrained")
    for phase, colour, name in (
        ([0.0, 0.0], GREY, "θ equal: A B and B A look alike"),
        ([0.0, 1.2], BLUE, "θ different: they do not"),
    ):
        embedding = waves([1.0, 1.0], omega, phase)
        squares = [abs(values(embedding, [0, 1], [50, 50 + d]).sum()) ** 2 for d in distance]
        left.plot(distance, squares, "o-", markersize=3, linewidth=1, color=colour, label=name)
    left.axvline(0, color=GREY, linewidth=0.5)
    left.set(xlabel="position of B − position of A", ylabel="|s|²", ylim=(0, 5.6))
    left.set_title("order without places")
    left.legend(fontsize=8, loc="upper center")
    embedding = waves([1.0, 1.0], omega, [0.0, 1.2])
    places = range(41)
    sums = np.array([values(embedding, [0, 1], [p, p + 4]).sum() for p in places])
    right.plot(places, sums.real, color=GREEN, linewidth=1.2, label="real part of s")
    right.plot(places, sums.imag, color=ORANGE, linewidth=1.2, label="imaginary part of s")
    right.plot(places, abs(sums) ** 2, color=BLUE, linewidth=1.8, label="|s|²")
    right.set(xlabel="where the pair stands", ylim=(-2.2, 6.6), title="“A … B” moved as a whole")
    right.legend(fontsize=8, loc="upper center", ncols=2)
    save("magnitude")


def draw_sinusoids() -> None:
    """The table of sinusoids as imaginary and real parts of waves of amplitude 1."""
    dim, n_positions = 32, 64
    table = ww.build_embedding("tpe", 1, dim, padding_idx=None)
    with torch.no_grad():
        table.vectors.zero_()  # what is left is the position alone
        positions = torch.arange(1, n_positions + 1)
        sinusoids = table(torch.zeros(n_positions, dtype=torch.long), positions).numpy()
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(WIDTH, 2.9), gridspec_kw={"width_ratios": [1.5, 1]}, layout="constrained"
    )
    image = left.imshow(sinusoids.T, aspect="auto", cmap="RdBu_r", interpolation="nearest")
    left.set(xlabel="position", ylabel="dimension", title="sinusoidal positions (tpe)")
    left.set_yticks([0, 10, 20, 30])
    figure.colorbar(image, ax=left, shrink=0.8)
    plane(right, 1.5, "three of their waves at position 10")
    right.add_patch(plt.Circle((0, 0), 1, fill=False, color=GREY, linewidth=0.8))
    for k, colour in ((0, ORANGE), (5, GREEN), (10, BLUE)):
        sine, cosine = sinusoids[9, 2 * k], sinusoids[9, 2 * k + 1]
        point = complex(cosine, sine)
        arrow(right, 0, point, colour)
        right.text(1.28 * point.real, 1.2 * point.imag, f"k = {k}", color=colour, ha="center")
    save("sinusoids")


def save(name: str) -> None:
    plt.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
    plt.close()


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with plt.rc_context(STYLE):
        for draw in (draw_wave, draw_claim, draw_sums, draw_magnitude, draw_sinusoids):
            draw()
    print("\n".join(str(path) for path in sorted(FOLDER.glob("*.svg"))), file=sys.stderr)


if __name__ == "__main__":
    main()
