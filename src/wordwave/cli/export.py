"""`wordwave export`: export a trained classifier or matcher to ONNX, or to a smaller folder."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from wordwave.cli.console import Console, UseRun, parsed
from wordwave.errors import WordwaveError
from wordwave.files import check_inside

KEPT = ("estimator.json", "made-here")
"""Files of a run that are the same in half precision: parameters and types of labels of an
estimator, and the signature of the data."""


@dataclass(frozen=True)
class ExportOptions(UseRun):
    """Export a trained model to ONNX; its output is verified on batches of many sizes. With --half,
    to a folder with tables of half precision instead.

    The input of a classifier is ids, int64 (batch, length), padded with 0; the output is
    probabilities (batch, classes). Of a run of train match, the inputs are ids_a and ids_b, the
    output is logits (batch, classes); of scores (batch, 1), scaled by sigmoid and score_range.

    FILE.json holds what is needed to encode texts: the words by id, how a text becomes words, the
    maximum length and the labels; the ONNX file has the same as metadata. A BPE tokenizer is
    written to FILE.tokenizer.json, for the library tokenizers; texts need a space before them. A
    script that predicts from texts with these files alone is in docs/classify.md.
    """

    file: Annotated[Path | None, tyro.conf.Positional] = None
    """The output file; by default model.onnx in the folder of the run. With --half, a new folder,
    which all commands read as a run."""
    half: bool = False
    """Store the tables of words, bigrams and n-grams as float16; frequencies and all other weights
    stay float32."""


def export(args: list[str], prog: str) -> None:
    """`wordwave export`"""
    options = parsed(ExportOptions, args, prog)
    (_export_half if options.half else _export_onnx)(options)


def _export_onnx(options: ExportOptions) -> None:
    file = options.file or options.run / "model.onnx"
    if file.suffix.lower() != ".onnx":
        raise WordwaveError(f"file must end in .onnx, got '{file}'")
    from wordwave.tasks.export import export_onnx
    from wordwave.tasks.run_folder import EXPORTED

    if options.file is None:
        check_inside(options.run, EXPORTED)
    trained = options.load("classify", "match")
    exported = export_onnx(trained, file, on_stage=Console(stderr=True).print)
    what = "probabilities" if trained.labels else "scores, scaled to [0, 1],"
    unit = "pairs" if trained.task == "match" else "sentences"
    print(
        f"Checked: {exported.n_checked} random {unit}, largest difference of {what} "
        f"{exported.difference:.1e}"
    )
    print(f"Written: {', '.join(map(str, exported.files))} ({file.stat().st_size / 1000:,.0f} kB)")


def _export_half(options: ExportOptions) -> None:
    if options.file is None or options.file.suffix.lower() == ".onnx":
        raise WordwaveError("--half writes a run folder: wordwave export RUN FOLDER --half")
    folder = options.file
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise WordwaveError(f"'{folder}' must be a new or empty folder: it is written whole")
    from wordwave.tasks.run_folder import WEIGHTS

    options.load("classify", "match").save(folder, "float16")
    for name in KEPT:
        path = options.run / name
        if path.is_file() and not path.is_symlink():
            shutil.copyfile(path, folder / name)
    before, after = ((part / WEIGHTS).stat().st_size / 1000 for part in (options.run, folder))
    print(f"Written: {folder} ({WEIGHTS}: {after:,.0f} kB, before {before:,.0f} kB)")
