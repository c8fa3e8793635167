"""`wordwave demo`: the order laboratory in small, three matchers on real text, and two pictures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from wordwave.cli.console import Console, parsed
from wordwave.cli.probe import ProbeOptions, run_probe
from wordwave.cli.progress import completed
from wordwave.grid import Grid, Record, Store
from wordwave.lab import paraphrases
from wordwave.lab.paraphrases import EXAMPLES, ROWS, SETTINGS, ParaphraseTest
from wordwave.limits import THREADS, Limited

LABORATORY = ProbeOptions(
    tasks=("precedence", "adjacency", "who-did-what"), encoders=("fasttext",), lengths=("10-20",)
)

GENERATED = """\
[bold]What this means.[/] Both sentences of a pair hold the same words. A sum of word vectors
([bold]none, complex-vanilla[/]), also with positions added ([bold]pe, tpe[/]), is the same for
both: it is right on one. [bold]complex-order[/] multiplies: each word keeps its place in the sum.
"""

REAL = """\
[bold]What this means.[/] On real sentences too, a sum of waves keeps what tells “A of B” from
“B of A”; a sum of words, with or without sinusoids added, hardly beats guessing (AUC .5).
"""

NEXT = """\
Next (after: source .venv/bin/activate):
  wordwave predict {waves} "flights from Berlin to Rome" "flights from Rome to Berlin"
  wordwave explore                               drag words in the browser, and see their waves
  wordwave train match --data YOURS.tsv          match your own pairs (text_a, text_b, label)
  wordwave train classify --data YOURS.csv       classify your own texts (text, label)
  wordwave probe --all --seeds 3                 every task, embedding and encoder
  wordwave probe --recipe long --dim 64 --epochs 40 --tasks precedence --encoders fasttext \\
      --embeddings complex-order --lengths 10-20 1900-2000
                                                 train on 20 words, read 2,000 (a minute)
  wordwave probe --help                          your own text, other lengths
"""


@dataclass(frozen=True)
class DemoOptions(Limited):
    """Word order in sums of words: a small order laboratory, then paraphrases of real sentences.

    Everything it needs comes with wordwave. Run it again to resume, or to see the results again.
    """

    out: Path = Path("out/demo")
    """Folder for records, tables, pictures and the trained matchers."""
    jobs: Annotated[int, THREADS] = 2
    """Models trained at once, one thread each."""


def demo(args: list[str], prog: str) -> None:
    """`wordwave demo`"""
    options = parsed(DemoOptions, args, prog)
    console, out = Console(), options.out
    console.rule("1. Generated sentences: which of two words comes first?")
    generated = run_probe(replace(LABORATORY, out=out, jobs=options.jobs))
    console.print(GENERATED, markup=True)
    console.rule("2. Sentences of Wikipedia: do two of them mean the same?")
    test = ParaphraseTest(out, SETTINGS)
    real = _train_matchers(test, console, options.jobs)

    from wordwave.lab.figures import draw_demo

    scores = draw_demo(generated, real, out / "demo.png")
    console.print(f"Both as a picture: {scores}\nWaves of three words: {_waves(out / 'waves.png')}")
    console.print(NEXT.format(waves=test.run_folder("complex-order")))


def _train_matchers(test: ParaphraseTest, console: Console, n_jobs: int) -> list[Record]:
    """Train those that are missing, and report; returns their records."""
    store = Store(test.folder / "paraphrases.jsonl", paraphrases.KEY, paraphrases.is_record)
    cells = [*reversed(ROWS)]  # the slowest one comes first
    grid = Grid(store, cells, test.key, test.run, "matchers")
    options: dict[str, Any] = {"n_jobs": n_jobs, "cost": test.cost, "spent": test.spent}
    with completed(grid, console, **options) as (records, note):
        table = paraphrases.score_table(records, note)
        console.print(table.to_rich())
        console.print(REAL, markup=True)
        console.print("For example, two of these pairs, and the probability of a paraphrase:")
        for n, (first, second, label) in enumerate(EXAMPLES):
            found = {r["embedding"]: r["probabilities"][n] for r in records}
            said = (f"{ROWS[kind]} {found[kind]:.2f}" for kind in ROWS if kind in found)
            console.print(f"  {first}\n  {second}\n    {label}; {', '.join(said)}")
        written = [store.path, *table.write(test.folder)]
        console.print("Written: " + ", ".join(map(str, written)))
    return records


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
