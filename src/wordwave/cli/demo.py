"""`wordwave demo`: the order laboratory in small, and the waves of a word."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wordwave.cli.console import Console, parsed
from wordwave.cli.probe import ProbeOptions, run_probe
from wordwave.limits import THREADS, check_limits

VERDICT = """\
[bold]What this means.[/] Both sentences of a pair hold the same words. A sum of word vectors
([bold]none, complex-vanilla[/]), also with positions added ([bold]pe, tpe[/]), is the same for
both: it is right on one. [bold]complex-order[/] multiplies: each word keeps its place in the sum.
"""

NEXT = """\
Next (after: source .venv/bin/activate):
  wordwave train classify --data YOURS.csv       classify your own texts (columns text, label)
  wordwave probe --all --seeds 3                 every task, embedding and encoder
  wordwave probe --recipe long --dim 64 --epochs 40 --tasks precedence --encoders fasttext \\
      --embeddings complex-order --lengths 10-20 1900-2000
                                                 train on 20 words, read 2,000 (a minute)
  wordwave probe --help                          your own text, other lengths
"""


@dataclass(frozen=True)
class DemoOptions:
    """Run a small order laboratory and draw the waves of a few words; needs no data."""

    out: Path = Path("out/demo")
    """Folder for records, tables and pictures."""
    jobs: int = 2
    """Cells at once, one thread each."""

    def __post_init__(self) -> None:
        check_limits(self, {"jobs": THREADS})


def demo(args: list[str], prog: str) -> None:
    """`wordwave demo`"""
    options = parsed(DemoOptions, args, prog)
    console = Console()
    console.rule("Which of two words comes first?")
    run_probe(
        ProbeOptions(
            tasks=("precedence", "adjacency", "who-did-what"),
            encoders=("fasttext",),
            lengths=("10-20",),
            out=options.out,
            jobs=options.jobs,
        )
    )
    console.print(VERDICT, markup=True)
    console.print(f"Waves of three words: {_waves(options.out / 'waves.png')}")
    console.print(NEXT)


def _waves(path: Path) -> Path:
    """Fig. 1 of the paper, with amplitudes and frequencies chosen by hand."""
    import torch

    from wordwave.embedding import WaveEmbedding
    from wordwave.plotting import draw_waves

    amplitude = [[0.0, 0.0, 0.0], [1.0, 0.7, 0.5], [0.9, 1.0, 0.6], [0.5, 0.35, 0.6]]
    frequency = [[0.0, 0.0, 0.0], [1.05, 0.62, 0.35], [0.42, 0.25, 0.13], [0.05, 0.02, 0.0]]
    embedding = WaveEmbedding(
        4, 3, vectors=torch.tensor(amplitude), frequency_init=torch.tensor(frequency)
    )
    return draw_waves(embedding, ("not", "wave", "the"), path)
