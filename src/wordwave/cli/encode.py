"""`wordwave encode`: the vectors of texts, as a .npy file or as JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import tyro

from wordwave.cli.console import UseRun, parsed
from wordwave.cli.progress import reading_bar
from wordwave.cli.stream import InputFormat, answered, input_batches, write_lines
from wordwave.data.tables import read_texts
from wordwave.errors import WordwaveError
from wordwave.files import write_whole

if TYPE_CHECKING:
    import numpy as np

    Vector = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class EncodeOptions(UseRun):
    """Encode each text as a vector, in order.

    Of a run of train embed, vectors of length 1 whose dot product is their similarity; of a run of
    train match, the normalized vectors of sentences that are compared in pairs; of a run of train
    classify, the vectors before the head.
    """

    file: Annotated[str | None, tyro.conf.Positional] = None
    """Texts: a .txt with one per line, or a column of a .csv, .tsv or .jsonl, also .gz; or a text
    itself; by default standard input, one text per line."""
    text: str | None = None
    """The column of texts; by default the one used in training, of pairs that of the first
    sentences, and text for a run of train embed."""
    out: Path | None = None
    """Write to this .npy file, completely or not at all, one float32 row per text; by default a
    JSON list per text to the terminal."""
    table: InputFormat = field(default_factory=InputFormat)


def encode(args: list[str], prog: str) -> None:
    """`wordwave encode`"""
    options = parsed(EncodeOptions, args, prog)
    if options.out is not None and options.out.suffix.lower() != ".npy":
        raise WordwaveError(f"out must end in .npy, got '{options.out}'")
    model = options.load("classify", "match", "embed")
    columns = {"classify": "text", "match": "text_a"}
    column = getattr(model.config.data, columns.get(model.task, ""), "text")
    trained = getattr(model.config.data, "table", None)

    def read(source: str | IO[bytes]) -> Iterator[str]:
        table = options.table.of(source, trained)
        return read_texts(source, text=options.text or column, table=table)

    texts = input_batches(options.file, read, table=options.table)

    def vectors(texts: list[str]) -> tuple[list[Vector], int]:
        found, n_truncated = model.encode_and_truncated(texts)
        return list(found.numpy()), n_truncated

    unit = "subwords" if model.task == "embed" else "words"
    note = f"texts were truncated to {model.encoder.max_length} {unit}"
    batches = ([vector for _, vector in batch] for batch in answered(texts, vectors, note))
    with reading_bar(options.out):
        if options.out is None:
            write_lines(map(_json_lines, batches))
            return
        width = model.model.sentence_dim
        n = _write_npy(options.out, batches, width)
    print(f"Written: {options.out} ({n:,} vectors of width {width:,})", file=sys.stderr)


def _json_lines(vectors: list[Vector]) -> str:
    """Nine digits, from which a float32 number is read back exactly."""
    return "".join(f"[{', '.join(f'{x:.9g}' for x in v.tolist())}]\n" for v in vectors)


def _write_npy(path: Path, batches: Iterable[list[Vector]], width: int) -> int:
    """Write all vectors as the rows of one array, a batch at a time; returns their number."""
    import numpy as np

    n = 0

    def write_header(file: IO[bytes]) -> None:
        about = {"descr": "<f4", "fortran_order": False, "shape": (n, width)}
        np.lib.format.write_array_header_1_0(file, about)

    def write(new: Path) -> None:
        nonlocal n
        with new.open("wb") as file:
            write_header(file)
            for batch in batches:
                file.write(np.stack(batch).astype("<f4").tobytes())
                n += len(batch)
            file.seek(0)
            write_header(file)  # of the same size: numpy leaves room for the rows to grow

    write_whole(path, write)
    return n
