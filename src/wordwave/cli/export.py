"""`wordwave export`: a trained model for other programs, as ONNX."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from wordwave.errors import WordwaveError


@dataclass(frozen=True)
class ExportOptions:
    """Write a trained model as one ONNX file, checked against the model on batches of many sizes.

    It takes ids, int64 (batch, length), padded with 0, and gives probabilities (batch, classes).
    FILE.json beside it has what makes ids of texts: words in the order of their ids, tokenizer,
    greatest length, labels; the ONNX file holds the same as its metadata. Subwords (bpe) are
    in FILE.tokenizer.json, for the library tokenizers; they want a space before the text.
    """

    run: Annotated[Path, tyro.conf.Positional]
    """The folder of a run."""
    file: Annotated[Path | None, tyro.conf.Positional] = None
    """Where to; by default model.onnx in the folder of the run."""


def export(args: list[str], prog: str) -> None:
    """`wordwave export`"""
    options = tyro.cli(ExportOptions, prog=prog, args=args)
    file = options.file or options.run / "model.onnx"
    if file.suffix.lower() != ".onnx":
        raise WordwaveError(f"file must end in .onnx, got '{file}'")
    from wordwave.files import check_inside
    from wordwave.tasks.classifier import TextClassifier
    from wordwave.tasks.export import export_onnx

    if options.file is None:
        check_inside(options.run, (file.name + end for end in ("", ".json", ".tokenizer.json")))
    exported = export_onnx(TextClassifier.load(options.run), file)
    print(
        f"Checked: {exported.n_checked} random sentences, largest difference of a probability "
        f"{exported.difference:.1e}"
    )
    print(f"Written: {', '.join(map(str, exported.files))} ({file.stat().st_size / 1000:,.0f} kB)")
