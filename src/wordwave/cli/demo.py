"""`wordwave demo`: see the waves."""

from __future__ import annotations

from pathlib import Path


def demo(out: Path = Path("out")) -> None:
    """Show the waves of a few words and the law they obey; needs no data.

    Args:
        out: folder for the picture.
    """
    import torch
    from rich.console import Console
    from rich.table import Table

    from wordwave.embedding import WaveEmbedding
    from wordwave.experiments.figures import draw_waves

    words = ("not", "wave", "the")
    amplitude = [[0.0, 0.0, 0.0], [1.0, 0.7, 0.5], [0.9, 1.0, 0.6], [0.5, 0.35, 0.6]]
    frequency = [[0.0, 0.0, 0.0], [1.05, 0.62, 0.35], [0.42, 0.25, 0.13], [0.05, 0.02, 0.0]]
    embedding = WaveEmbedding(
        4, 3, vectors=torch.tensor(amplitude), frequency_init=torch.tensor(frequency)
    )
    embedding.requires_grad_(False)
    ids = torch.tensor([1, 2, 3])
    console = Console()
    table = Table(title="g(pos) = r · e^{iω·pos}, first dimension")
    for name in ("word", "amplitude r", "frequency ω", "δ (cares for place)", "at 1", "at 5"):
        table.add_column(name)
    here, there = embedding(ids, positions=1), embedding(ids, positions=5)
    for j, word in enumerate(words):
        r, w = amplitude[j + 1][0], frequency[j + 1][0]
        delta = float(embedding.sensitivity()[j + 1])
        values = [f"{z[j, 0]:+.2f} {z[j, 3]:+.2f}i" for z in (here, there)]
        table.add_row(word, f"{r:.2f}", f"{w:.2f}", f"{delta:.2f}", *values)
    console.print(table)
    error = float((embedding.shift(ids, here, 4) - there).abs().max())
    console.print(f"Moving by 4 places needs only the value, not the place: error {error:.1e}.")
    path = draw_waves(embedding, words, out / "waves.png")
    console.print(f"Picture: [bold]{path}[/bold]")
