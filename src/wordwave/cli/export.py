"""`wordwave export`: export a trained classifier or matcher to ONNX."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from wordwave.cli.console import UseRun, parsed
from wordwave.errors import WordwaveError
from wordwave.files import check_inside


@dataclass(frozen=True)
class ExportOptions(UseRun):
    """Export a trained model to ONNX; its output is verified on batches of many sizes.

    The input of a classifier is ids, int64 (batch, length), padded with 0; the output is
    probabilities (batch, classes). Of a run of train match, the inputs are ids_a and ids_b, the
    output is logits (batch, classes); of scores (batch, 1), scaled by sigmoid and score_range.

    FILE.json holds what is needed to encode texts: the words by id, the tokenizer, the
    maximum length and the labels; the ONNX file has the same as metadata. A BPE tokenizer is
    written to FILE.tokenizer.json, for the library tokenizers; texts need a space before them.
    """

    file: Annotated[Path | None, tyro.conf.Positional] = None
    """The output file; by default model.onnx in the folder of the run."""


def export(args: list[str], prog: str) -> None:
    """`wordwave export`"""
    options = parsed(ExportOptions, args, prog)
    file = options.file or options.run / "model.onnx"
    if file.suffix.lower() != ".onnx":
        raise WordwaveError(f"file must end in .onnx, got '{file}'")
    from wordwave.tasks.export import export_onnx

    if options.file is None:
        check_inside(options.run, (file.name + end for end in ("", ".json", ".tokenizer.json")))
    trained = options.load("classify", "match")
    exported = export_onnx(trained, file)
    what = "probabilities" if trained.labels else "scores, scaled to [0, 1],"
    unit = "pairs" if trained.task == "match" else "sentences"
    print(
        f"Checked: {exported.n_checked} random {unit}, largest difference of {what} "
        f"{exported.difference:.1e}"
    )
    print(f"Written: {', '.join(map(str, exported.files))} ({file.stat().st_size / 1000:,.0f} kB)")
