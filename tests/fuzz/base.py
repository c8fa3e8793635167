"""Small files, trained runs, saved states and records, made once: what the cases damage."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

TINY = ("--precision", "fp32", "--hidden-dim", "4", "--batch-size", "8", "--epochs", "2")
CLASSIFY = ("train", "classify", "--data", "table.csv", "--test", "test.jsonl", *TINY)
CLASSIFY += ("--dev-share", "0.1")
TRANSLATE = (
    *("train", "translate", "--source", "source.txt", "--target", "target.txt"),
    *("--test-source", "source.txt", "--test-target", "target.txt", "--dim", "8"),
    *("--encoder-layers", "1", "--decoder-layers", "1", "--n-heads", "2", "--precision", "fp32"),
    *("--feed-forward-dim", "8", "--bpe-size", "264", "--max-length", "24", "--max-steps", "4"),
    *("--eval-every", "2", "--batch-size", "100", "--eval-bleu", "2"),
)
LM = (
    *("train", "lm", "--data", "corpus.txt", "--dim", "8", "--n-layers", "1", "--n-heads", "2"),
    *("--feed-forward-dim", "8", "--segment-length", "8", "--memory-length", "4"),
    *("--eval-memory-length", "8", "--max-steps", "4", "--eval-every", "2", "--batch-size", "4"),
    *("--precision", "fp32"),
)
MATCH = ("train", "match", "--data", "pairs.tsv", "--test", "pairs.tsv", *TINY, "--dim", "4")
EMBED = (
    *("train", "embed", "--data", "sentences.txt", "--bpe-size", "264", "--dim", "4"),
    *("--order-dim", "2", "--batch-size", "16", "--epochs", "2"),
)
RUNS = {
    "fasttext": (*CLASSIFY, "--dim", "4"),
    "bpe": (*CLASSIFY, "--dim", "4", "--tokenizer", "bpe", "--bpe-size", "260", "--phase"),
    "cnn": (*CLASSIFY, "--encoder", "cnn", "--dim", "4", "--n-filters", "2", "--widths", "1", "2"),
    "lstm": (*CLASSIFY, "--encoder", "lstm", "--embedding", "pe", "--dim", "4"),
    "transformer": (
        *(*CLASSIFY, "--encoder", "transformer", "--embedding", "rope", "--dim", "8"),
        *("--n-heads", "2", "--feed-forward-dim", "4"),
    ),
    "translator": TRANSLATE,
    "aed": (*TRANSLATE, "--architecture", "aed", "--embedding", "none"),
    "lm": LM,
    "byte-lm": (*LM, "--unit", "byte", "--embedding", "none"),
    "matcher": MATCH,
    "rater": (
        *("train", "match", "--data", "rated.tsv", "--similarity", "score", *TINY, "--dim", "4"),
        *("--views", "start", "--word-renaming", "0"),
    ),
    "encoder": EMBED,
    "pupil": (*EMBED, "--teacher", "teacher.npy"),
}
"""The command that trains each run, but for its --out."""
PROBE = (
    *("probe", "--tasks", "precedence", "--embeddings", "none", "complex-order", "--encoders"),
    *("fasttext", "--n-train", "8", "--n-test", "4", "--epochs", "1", "--dim", "4", "--jobs", "1"),
)
COMPARE = (
    *("compare", "--data", "table.csv", "--recipes", "recipes", "--encoders", "fasttext"),
    *("--embeddings", "none", "complex-order", "--jobs", "1"),
)
SEARCH = (
    *("search", "--data", "table.csv", "--dim", "4", "--hidden-dim", "4", "--epochs", "1"),
    *("--space", "narrow", "--trials", "2", "--jobs", "1", "--precision", "fp32"),
)
RECORDS = {"probe": PROBE, "compare": COMPARE, "search": SEARCH}


def make(
    folder: Path,
    runs: Iterable[str] = RUNS,
    records: Iterable[str] = RECORDS,
    answer: Callable[..., object] | None = None,
) -> None:
    """Fill a folder: data/, where commands are run, runs/, states/ and records/.

    Args:
        answer: calls the command line, which must succeed; by default in this process.
    """
    answer = answer or _answer
    data = folder / "data"
    data.mkdir(parents=True)
    os.chdir(data)
    _write_data(data)
    for name in runs:
        answer(*RUNS[name], "--out", str(folder / "runs" / name))
        shutil.rmtree(folder / "runs" / name / "tensorboard", ignore_errors=True)
        _stop_in_the_middle(folder / "runs" / name, folder / "states" / name)
    for name in records:
        answer(*RECORDS[name], "--out", str(folder / "records" / name))
    _take_results(folder / "records")
    _forget_times(folder)


def _answer(*words: str) -> None:
    from wordwave.cli import main

    sys.argv = ["wordwave", *words]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"the base could not be made: {' '.join(words)}") from end


def _write_data(data: Path) -> None:
    rng = Random(0)
    labels = ("good", "bad")
    words = [f"w{i}" for i in range(12)]
    texts = [" ".join([labels[i % 2], *rng.sample(words, 4)]) for i in range(24)]
    rows = list(zip(texts, (labels[i % 2] for i in range(24)), strict=True))
    files = {
        "table.csv": "text,label\n" + "".join(f"{t},{label}\n" for t, label in rows),
        "table.tsv": "text\tlabel\n" + "".join(f"{t}\t{label}\n" for t, label in rows),
        "test.jsonl": "".join(f'{{"text": "{t}", "label": "{label}"}}\n' for t, label in rows[:6]),
        "texts.txt": "".join(f"{t}\n" for t in texts[:4]),
        "source.txt": "".join(f"{t[:8]}, ok.\n" for t in texts),
        "target.txt": "".join(f"{t[:8].upper()}, OK.\n" for t in texts),
        "corpus.txt": "the quick brown fox jumps over the lazy dog.\n" * 12,
        "vectors.txt": "".join(f"{w} " + " ".join("0.5" for _ in range(4)) + "\n" for w in words),
        "vectors.words.txt": "".join(f"{w}\n" for w in words),
        "settings.yaml": "model:\n  dim: 4\n  hidden_dim: 4\ntraining:\n  epochs: 1\n",
    }
    sides = [(f"dog{i} bites man{i}", f"man{i} bites dog{i}") for i in range(30)]
    pairs = [(one, other if i % 2 else one, str(i % 2)) for i, (one, other) in enumerate(sides)]
    for name, label in (("pairs.tsv", "label"), ("rated.tsv", "score")):
        rows = [("text_a", "text_b", label), *pairs]
        files[name] = "".join("\t".join(row) + "\n" for row in rows)
    files["sentences.txt"] = "".join(f"{one}\n{other}\n" for one, other in sides)
    for name, text in files.items():
        (data / name).write_text(text, encoding="utf-8")
    (data / "table.csv.gz").write_bytes(gzip.compress(files["table.csv"].encode(), mtime=0))
    import numpy as np

    matrix = np.full((12, 4), 0.5, dtype=np.float32)
    np.save(data / "vectors.npy", matrix)
    teacher = np.random.default_rng(0).normal(size=(2 * len(sides), 6)).astype("float16")
    np.save(data / "teacher.npy", teacher)
    binary = b"".join(w.encode() + b" " + matrix[0].tobytes() + b"\n" for w in words)
    (data / "vectors.bin").write_bytes(b"12 4\n" + binary)
    (data / "recipes").mkdir()
    (data / "recipes" / "fasttext.yaml").write_text(files["settings.yaml"])


def _stop_in_the_middle(run: Path, folder: Path) -> None:
    """The run again, stopped in the middle."""
    from wordwave.tasks.config import task_of
    from wordwave.tasks.run import job_class
    from wordwave.training.run import TrainingStopped

    job = job_class(task_of(run)).from_run(run)
    # Each after one look at the validation set.
    last = {"classify": 4, "match": 5, "embed": 5}.get(task_of(run), 3)

    def look_away(report: object) -> None:
        if getattr(report, "step", 0) == last:
            raise BrokenPipeError

    try:
        job.prepare(job.load_data()).train(folder, watch=look_away)
    except TrainingStopped:
        shutil.rmtree(folder / "tensorboard", ignore_errors=True)
    else:
        raise RuntimeError(f"{folder} was not stopped")


def _forget_times(folder: Path) -> None:
    """Put a constant in the place of every time, so that the same case is the same tomorrow."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    steady = ((r'("\w*(?:seconds|per_second)": )[\d.e+-]+', r"\g<1>0.5"),)
    steady += ((r"\d{4}-\d\d-\d\dT[\d:.]+", "2020-01-01T00:00:00.000001"),)
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".json", ".jsonl", ".journal"):
            text = path.read_text(encoding="utf-8")
            for pattern, constant in steady:
                text = re.sub(pattern, constant, text)
            path.write_text(text, encoding="utf-8")
        elif path.name == "state.safetensors":
            with safe_open(path, framework="pt") as file:
                progress = json.loads(file.metadata()["progress"]) | {"seconds": 0.5}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            save_file(tensors, path, metadata={"progress": json.dumps(progress)})


def _take_results(folder: Path) -> None:
    """The first records of each kind of the real results."""
    results = Path(__file__).parents[2] / "results"
    for name in ("reproduce", "table5", "table6"):
        for path in sorted((results / name).glob("*.jsonl")):
            lines = [line for line in path.read_text().splitlines() if len(line) < 10_000]
            (folder / name).mkdir(parents=True, exist_ok=True)
            (folder / name / path.name).write_text("".join(f"{line}\n" for line in lines[::20]))
