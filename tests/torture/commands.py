"""The commands that are disturbed, on tiny data, and what must be equal afterwards."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from safetensors import safe_open

N_TRIALS = 6
ENCODERS = ("bag", "fasttext", "cnn", "lstm", "transformer")


@dataclass(frozen=True)
class Command:
    """A command that resumes when it is run again.

    Args:
        words: what comes after `wordwave`, without --out.
        outcome: of a finished folder, what no kill may change.
        progress: of a folder at any moment, how far it has come; a failure never reduces it.
    """

    name: str
    words: tuple[str, ...]
    outcome: Callable[[Path], Any]
    progress: Callable[[Path], int]


def commands(data: Path) -> dict[str, Command]:
    """All of them by name; their data is written to a folder."""
    table, recipes, source, target, text, pairs = _write_data(data)
    small = "--dim 16 --hidden-dim 16 --n-filters 16 --n-layers 1 --n-heads 4 --feed-forward-dim 32"
    lines = {
        **{
            f"classify {encoder}": f"train classify --data {table} --test {table} {small} "
            f"--encoder {encoder} --epochs {epochs} --batch-size 16 --dropout 0.2 --save-every 0 "
            "--dev-share 0.1"
            for encoder, epochs in zip(ENCODERS, (30, 30, 20, 10, 10), strict=True)
        },
        "translate": f"train translate --source {source} --target {target} --test-source {source} "
        f"--test-target {target} --bpe-size 256 --dim 16 --encoder-layers 1 --decoder-layers 1 "
        "--n-heads 2 --feed-forward-dim 32 --max-steps 120 --eval-every 30 --batch-size 256 "
        "--eval-bleu 20 --save-every 0",
        "lm": f"train lm --data {text} --dim 16 --n-layers 1 --n-heads 2 --feed-forward-dim 32 "
        "--segment-length 16 --memory-length 16 --eval-memory-length 32 --eval-chars 500 "
        "--batch-size 8 --max-steps 250 --eval-every 50 --save-every 0",
        "match": f"train match --data {pairs} --test {pairs} --dim 16 --hidden-dim 16 --epochs 12 "
        "--batch-size 16 --save-every 0",
        "embed": f"train embed --data {source} --bpe-size 256 --dim 16 --order-dim 8 --epochs 30 "
        "--batch-size 16 --save-every 0",
        "probe": "probe --tasks precedence --embeddings tpe complex-order --encoders fasttext lstm "
        "--n-train 600 --n-test 100 --epochs 4 --dim 8 --lengths 10-20",
        "compare": f"compare --data {table} --recipes {recipes} --encoders fasttext lstm "
        "--embeddings tpe complex-order",
        "search": f"search --data {table} --dim 8 --epochs 6 --space narrow --trials {N_TRIALS}",
    }
    checks: dict[str, tuple[Callable[[Path], Any], Callable[[Path], int]]] = {
        "probe": (_records, lambda folder: len(_json_lines(folder / "records.jsonl"))),
        "compare": (_records, lambda folder: len(_json_lines(folder / "records.jsonl"))),
        "search": (_study, lambda folder: len(_json_lines(folder / "trials.jsonl"))),
    }
    return {
        name: Command(name, tuple(line.split()), *checks.get(name, (_run_folder, _step)))
        for name, line in lines.items()
    }


def _write_data(data: Path) -> Iterator[Path]:
    """Texts labelled by which of two words comes first, and sentences that are to be reversed."""
    data.mkdir(parents=True, exist_ok=True)
    rng = random.Random(0)
    words = [first + rest for first in "bdfgklmnprst" for rest in ("a", "en", "il", "o", "um")]
    sentences = [rng.choices(words, k=rng.randrange(3, 10)) for _ in range(400)]
    rows = ["text,label"]
    for i, sentence in enumerate(sentences):
        pair = ("x", "y") if i % 2 else ("y", "x")
        at = rng.randrange(len(sentence))
        rows.append(" ".join([*sentence[:at], pair[0], *sentence[at:], pair[1]]) + f",{pair[0]}")
    lines = {
        "order.csv": rows,
        "source.txt": [" ".join(sentence) for sentence in sentences[:200]],
        "target.txt": [" ".join(reversed(sentence)) for sentence in sentences[:200]],
        "text.txt": [" ".join(sentence) + "." for sentence in sentences],
        "pairs.tsv": ["text_a\ttext_b\tlabel"],
    }
    for i, sentence in enumerate(sentences):
        others = [sentence, sentence[::-1]][i % 2]
        lines["pairs.tsv"].append(f"{' '.join(sentence)}\t{' '.join(others)}\t{i % 2}")
    for name, content in lines.items():
        (data / name).write_text("\n".join(content) + "\n")
    recipes = data / "recipes"
    recipes.mkdir(exist_ok=True)
    for encoder in ("fasttext", "lstm"):
        (recipes / f"{encoder}.yaml").write_text(
            f"model:\n  encoder: {encoder}\n  dim: 16\n  hidden_dim: 16\n"
            "training:\n  epochs: 6\n  batch_size: 16\n"
        )
    return (
        data / name
        for name in ("order.csv", "recipes", "source.txt", "target.txt", "text.txt", "pairs.tsv")
    )


def _run_folder(folder: Path) -> dict[str, Any]:
    """Every file of a training by its content; of JSON, all but times."""
    found: dict[str, Any] = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file() or p.name == "state"):
        name = str(path.relative_to(folder))
        if name.startswith("tensorboard/"):  # its records are stamped with the time
            continue
        if path.suffix == ".json":
            found[name] = _without_times(json.loads(path.read_text()))
        elif path.suffix == ".jsonl":
            found[name] = _json_lines(path)
        else:
            found[name] = sha256(path.read_bytes()).hexdigest() if path.is_file() else "a folder"
    return found


def _records(folder: Path) -> dict[str, Any]:
    """All records, in any order, and the files that report them."""
    records = sorted(json.dumps(r, sort_keys=True) for r in _json_lines(folder / "records.jsonl"))
    return {"records": records, "files": _names(folder)}


def _study(folder: Path) -> dict[str, Any]:
    """The numbers of the trials that ended, which are drawn in no fixed order."""
    results = [r for r in _json_lines(folder / "trials.jsonl") if r["kind"] == "result"]
    ended = [result["trial"] for result in results]
    rows = (folder / "trials.csv").read_text().count("\n") - 1
    return {"trials": sorted(ended), "rows of trials.csv": rows, "files": _names(folder)}


def _names(folder: Path) -> list[str]:
    """Files that a user sees."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def _step(folder: Path) -> int:
    """The step of the saved state; a finished training has come clamp_len."""
    if (folder / "result.json").exists():
        return 10**9
    state = folder / "state" / "state.safetensors"
    if not state.exists():
        return 0
    with safe_open(state, framework="pt") as file:
        return int(json.loads(file.metadata()["progress"])["step"])


def _json_lines(path: Path) -> list[Any]:
    """The whole lines of a file, without times; one that was cut short is no record."""
    records = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            records.append(_without_times(json.loads(line)))
        except ValueError:
            continue
    return records


def _without_times(value: Any) -> Any:
    """Without all that a clock gave: seconds, words_per_second, …"""
    if isinstance(value, dict):
        return {k: _without_times(v) for k, v in value.items() if "second" not in k}
    return [_without_times(v) for v in value] if isinstance(value, list) else value
