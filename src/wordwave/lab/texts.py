"""Tasks of the suite on real text: was a text changed, is it grammatical, is it a paraphrase?"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain, islice
from pathlib import Path

import torch
from torch import Generator, Tensor

from wordwave.data.pairs import BUILT_IN_FILE, TextPairs, hold_out, load_pair_splits
from wordwave.data.registry import BUILT_IN, data_home
from wordwave.data.tables import read_table, read_texts, text_cell
from wordwave.errors import WordwaveError
from wordwave.files import sha256_of
from wordwave.lab.sequences import Batch, SequenceTask, as_pairs, at_the_end
from wordwave.text.tokenizers import PlainTokenizer

ASK, UNKNOWN, SEPARATOR = 0, 1, 2
N_SPECIAL = 3
MAX_WORDS = 5000
"""Words that have an id; the others are one unknown word."""
MAX_SENTENCES = 50_000
MAX_IN_PAIR = 30
"""Tokens of a sentence of a pair; pairs of longer ones are left out."""
FILES = {"swap-text": "sentences/wikipedia.txt.gz", "blimp": "pairs/blimp.same-words.tsv.gz"}
"""In the data home."""


def file_of(task: str, text: Path | None = None) -> Path:
    """The file that a task reads, which must be there."""
    if task == "paws":
        return BUILT_IN_FILE
    path = text if text is not None and task == "swap-text" else data_home() / FILES[task]
    if not path.is_file():
        own = ", or name a file of sentences with --text" if task == "swap-text" else ""
        raise WordwaveError(
            f"task {task!r} needs '{path}', which is not there: set WORDWAVE_DATA to the folder "
            f"that has {FILES[task]}{own}"
        )
    return path


@cache
def fingerprint(task: str, text: Path | None = None) -> str:
    """A hash of the file that a task reads."""
    with file_of(task, text).open("rb") as file:
        return sha256_of(file)[:16]


@cache
def text_task(name: str, text: Path | None = None) -> SequenceTask:
    """A task on real text by name."""
    made = {"swap-text": _swap_text, "blimp": _blimp, "paws": _paws}[name]
    return made(file_of(name, text))


def _ids(sentences: Iterable[Sequence[str]], known: dict[str, int]) -> list[list[int]]:
    return [[known.get(word, UNKNOWN) for word in words] for words in sentences]


def _most_frequent(sentences: Iterable[Sequence[str]]) -> dict[str, int]:
    """Ids of the most frequent words, from 3 on."""
    counts = Counter(chain.from_iterable(sentences))
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    return {word: N_SPECIAL + i for i, word in enumerate(ordered[:MAX_WORDS])}


def _swap_text(path: Path) -> SequenceTask:
    """Were two adjacent words exchanged? Sentences follow each other up to the length.

    A fifth of the sentences is held out for testing. Minimal pairs: the same text before and after.
    """
    tokens = PlainTokenizer()
    lines = islice(read_texts(path, form="txt"), MAX_SENTENCES)
    sentences = [list(words) for words in dict.fromkeys(tuple(tokens(line)) for line in lines)]
    random.Random(0).shuffle(sentences)
    held_out, kept = sentences[: len(sentences) // 5], sentences[len(sentences) // 5 :]
    known = _most_frequent(kept)
    train, test = (
        torch.tensor(list(chain.from_iterable(_ids(part, known)))) for part in (kept, held_out)
    )
    for part in (train, test):
        if len(part) < 2 or not (part[1:] != part[:-1]).any():
            raise WordwaveError(f"text file '{path}' needs more sentences of different words")

    def draw(n: int, length: int, generator: Generator, is_test: bool) -> Batch:
        text = test if is_test else train
        n_pairs, width = -(-n // 2), length - 1
        repeated = text.repeat(-(-(width + 1) // len(text)) + 1)
        starts = torch.randint(len(text), (n_pairs, 1), generator=generator)
        words = repeated[starts + torch.arange(width)]
        differs = words[:, 1:] != words[:, :-1]
        drawn = torch.rand(differs.shape, generator=generator).masked_fill(~differs, -1)
        place = drawn.argmax(1, keepdim=True)
        swapped = words.scatter(1, place, words.gather(1, place + 1))
        swapped = swapped.scatter(1, place + 1, words.gather(1, place))
        ask = torch.full((n_pairs, 1), ASK)
        no, yes = (torch.cat([part, ask], 1) for part in (words, swapped))
        return as_pairs(no, yes, n)

    return SequenceTask("swap-text", N_SPECIAL + len(known), 2, draw)


def _blimp(path: Path) -> SequenceTask:
    """Is a sentence grammatical? Pairs of BLiMP (Warstadt et al., 2020) with the same words.

    A tenth is held out for testing; no sentence is in both parts.
    """
    columns = ("phenomenon", "good", "bad")
    rows = list(read_table(path, dict.fromkeys(columns, text_cell), what="pair"))
    phenomenon, good, bad = ([row[name] for row in rows] for name in columns)
    train, test = hold_out(TextPairs(bad, good, phenomenon, "BLiMP"))
    return _from_pairs("blimp", train, test, [], joined=False)


def _paws(path: Path) -> SequenceTask:
    """Are two sentences paraphrases? The built-in pairs of PAWS-Wiki, split by groups."""
    splits = load_pair_splits(BUILT_IN)
    assert splits.test is not None
    labels = sorted(set(splits.train.labels))
    return _from_pairs("paws", splits.train, splits.test, labels, joined=True)


def _from_pairs(
    name: str, train: TextPairs, test: TextPairs, labels: list[str], *, joined: bool
) -> SequenceTask:
    """Classify the two sentences of a pair each (no, yes), or both joined by their label.

    Rows of a batch differ in length: dashes before them, the unknown word, make up for it.
    """
    tokens = PlainTokenizer()
    split = [
        [[tokens(text) for text in side] for side in (p.first, p.second)] for p in (train, test)
    ]
    known = _most_frequent(chain.from_iterable(split[0]))
    parts = []
    for (first, second), pairs in zip(split, (train, test), strict=True):
        rows = [
            (one, two, label)
            for one, two, label in zip(
                _ids(first, known), _ids(second, known), pairs.labels, strict=True
            )
            if max(len(one), len(two)) <= MAX_IN_PAIR
        ]
        parts.append(rows)

    def draw(n: int, length: int, generator: Generator, is_test: bool) -> Batch:
        rows = parts[is_test]
        n_drawn = n if joined else -(-n // 2)
        chosen = torch.randint(len(rows), (n_drawn,), generator=generator).tolist()
        if not joined:
            no, yes = (_padded([[*rows[i][side], ASK] for i in chosen]) for side in (0, 1))
            width = max(no.shape[1], yes.shape[1])
            return as_pairs(_widened(no, width), _widened(yes, width), n)
        ids = _padded([[*rows[i][0], SEPARATOR, *rows[i][1], ASK] for i in chosen])
        return at_the_end(ids, torch.tensor([labels.index(rows[i][2]) for i in chosen]))

    return SequenceTask(name, N_SPECIAL + len(known), 2, draw, longest=40)


def _padded(rows: list[list[int]]) -> Tensor:
    """With the unknown word before the shorter rows, so that all end at the last column."""
    width = max(map(len, rows))
    return torch.tensor([[UNKNOWN] * (width - len(row)) + row for row in rows])


def _widened(ids: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(ids, (width - ids.shape[1], 0), value=UNKNOWN)
