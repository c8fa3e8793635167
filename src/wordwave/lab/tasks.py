"""Synthetic tasks of word order: minimal pairs to classify, and sequences to tag.

A minimal pair is two sentences of the same words (no, yes): one that lacks a property and one that
has it. Both hold the same multiset of words, so a model that ignores order gives both the same
answer and is right on one of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wordwave.errors import WordwaveError, unknown
from wordwave.tasks.classification import NO_TARGET
from wordwave.text.vocabulary import SPECIALS, UNKNOWN_ID

Sentence = list[str]
Pair = tuple[Sentence, Sentence]

FILLERS = tuple(f"w{i:02d}" for i in range(100))
A, B = "A", "B"
KTH = 3
NEAR = 4


def _fill(rng: random.Random, length: int, placed: dict[int, str]) -> Sentence:
    sentence = rng.choices(FILLERS, k=length)
    for place, word in placed.items():
        sentence[place] = word
    return sentence


def _rearranged(sentence: Sentence, moves: dict[int, int]) -> Sentence:
    """The sentence with words moved (from: to); the moves permute a set of positions."""
    result = list(sentence)
    for source, target in moves.items():
        result[target] = sentence[source]
    return result


def precedence(rng: random.Random, length: int) -> Pair:
    """Does A come before B?"""
    i, j = sorted(rng.sample(range(length), 2))
    yes = _fill(rng, length, {i: A, j: B})
    return _rearranged(yes, {i: j, j: i}), yes


def adjacency(rng: random.Random, length: int) -> Pair:
    """Does B follow A immediately? The other sentence has B A, or A and then B further on.

    So neither the order of the two nor their distance alone gets more than three of four right.
    """
    i = rng.randrange(length - 2)
    yes = _fill(rng, length, {i: A, i + 1: B})
    if rng.random() < 0.5:
        return _rearranged(yes, {i: i + 1, i + 1: i}), yes
    far = rng.randrange(i + 2, length)
    return _rearranged(yes, {i + 1: far, far: i + 1}), yes


def kth_word(rng: random.Random, length: int) -> Pair:
    """Is the third word A? The other sentence has B there and A elsewhere."""
    k = KTH - 1
    other = rng.choice([p for p in range(length) if p != k])
    yes = _fill(rng, length, {k: A, other: B})
    return _rearranged(yes, {k: other, other: k}), yes


def distance(rng: random.Random, length: int) -> Pair:
    """Are A and B less than four positions apart?"""
    first, second = rng.sample((A, B), 2)
    i = rng.randrange(length - NEAR)
    near, far = rng.randrange(1, NEAR), rng.randrange(NEAR, length - i)
    yes = _fill(rng, length, {i: first, i + near: second})
    return _rearranged(yes, {i + near: i + far, i + far: i + near}), yes


def reversal(rng: random.Random, length: int) -> Pair:
    """Do the five numbers among the words count down? The other sentence is the same backwards."""
    numbers = sorted(rng.sample(range(10), 5))
    places = sorted(rng.sample(range(length), 5))
    no = _fill(rng, length, {p: f"n{n}" for p, n in zip(places, numbers, strict=True)})
    return no, no[::-1]


def first_repeat(rng: random.Random, length: int) -> Pair:
    """A and B occur twice each: is A the first to be repeated?"""
    a1, b1, a2, b2 = places = sorted(rng.sample(range(length), 4))
    if rng.random() < 0.5:
        a1, b1 = b1, a1
    yes = _fill(rng, length, {a1: A, a2: A, b1: B, b2: B})
    exchanged = {A: B, B: A}
    no = [exchanged[w] if i in places else w for i, w in enumerate(yes)]
    return no, yes


ANIMALS = ("dog", "cat", "horse", "goose", "bear", "wolf")
PEOPLE = ("man", "woman", "baker", "child", "king", "nurse")
ACTIVE = ("bit", "chased", "saw", "followed", "found", "loved")
ADJECTIVES = ("old", "young", "small", "big", "quiet", "happy")
ADVERBS = ("today", "often", "slowly", "again", "there", "then")


def _phrase(rng: random.Random, n_adjectives: int) -> Sentence:
    """A noun phrase without its noun."""
    return ["the", *rng.choices(ADJECTIVES, k=n_adjectives)]


def who_did_what(rng: random.Random, length: int) -> Pair:
    """Does the animal do it to the person? In half of the sentences the verb is passive."""
    animal, person, verb = rng.choice(ANIMALS), rng.choice(PEOPLE), rng.choice(ACTIVE)
    passive = rng.random() < 0.5
    middle = ["was", verb, "by"] if passive else [verb]
    spare = length - 4 - len(middle)
    one, two = (_phrase(rng, rng.randint(0, spare // 3)) for _ in range(2))
    adverbs = rng.choices(ADVERBS, k=length - len(one) - len(two) - len(middle) - 2)
    cut = rng.randint(0, len(adverbs))

    def sentence(first: str, second: str) -> Sentence:
        return [*adverbs[:cut], *one, first, *middle, *two, second, *adverbs[cut:]]

    animal_first, person_first = sentence(animal, person), sentence(person, animal)
    return (animal_first, person_first) if passive else (person_first, animal_first)


def _clause(rng: random.Random) -> Sentence:
    subject, object_ = (
        [*_phrase(rng, rng.randint(0, 2)), rng.choice(PEOPLE + ANIMALS)] for _ in range(2)
    )
    return [*subject, rng.choice(ACTIVE), *object_]


KINDS = {
    **dict.fromkeys(ANIMALS + PEOPLE, "noun"),
    **dict.fromkeys(ACTIVE, "verb"),
    **dict.fromkeys(ADJECTIVES, "adjective"),
    **dict.fromkeys(ADVERBS, "adverb"),
}


def swap(rng: random.Random, length: int) -> Pair:
    """Were two adjacent words swapped, in a sentence of a small grammar?"""
    no = _clause(rng)
    while len(no) > length:
        no = _clause(rng)
    while len(no) + 10 <= length:
        no += ["and", *_clause(rng)]
    no = [*rng.choices(ADVERBS, k=length - len(no)), *no]
    kinds = [KINDS.get(word, word) for word in no]
    i = rng.choice([i for i in range(len(no) - 1) if kinds[i] != kinds[i + 1]])
    return no, _rearranged(no, {i: i + 1, i + 1: i})


def swap_in(text: Sequence[Sentence]) -> Callable[[random.Random, int], Pair]:
    """Were two adjacent words swapped, in given sentences? The length is an upper bound."""
    usable = [s for s in text if any(a != b for a, b in pairwise(s))]
    if not usable:
        raise WordwaveError("no sentence with two different adjacent words")

    def maker(rng: random.Random, length: int) -> Pair:
        sentence = rng.choice(usable)
        i = rng.choice([i for i, (a, b) in enumerate(pairwise(sentence)) if a != b])
        start = rng.randint(max(i + 2 - length, 0), min(i, max(len(sentence) - length, 0)))
        no, i = sentence[start : start + length], i - start
        return no, _rearranged(no, {i: i + 1, i + 1: i})

    return maker


PAIR_TASKS: dict[str, Callable[[random.Random, int], Pair]] = {
    "precedence": precedence,
    "adjacency": adjacency,
    "kth-word": kth_word,
    "distance": distance,
    "swap": swap,
    "who-did-what": who_did_what,
    "reversal": reversal,
    "first-repeat": first_repeat,
}


QuestionAnswer = tuple[Sentence, Sentence]

SYMBOLS = tuple(f"s{i:02d}" for i in range(20))
NOISE, ASK, BLANK = "-", "?", "_"
N_ANSWERS = 5


def _of_all_words(answer: Callable[[Sentence], Sentence]) -> Callable[..., QuestionAnswer]:
    """The answer is a function of all words."""

    def maker(rng: random.Random, length: int) -> QuestionAnswer:
        words = rng.choices(SYMBOLS, k=length)
        return [*words, ASK], answer(words)

    return maker


def selective_copy(rng: random.Random, length: int) -> QuestionAnswer:
    """The five words among dashes, in their order."""
    words = rng.choices(SYMBOLS, k=N_ANSWERS)
    question = [NOISE] * length
    for place, word in zip(sorted(rng.sample(range(length), N_ANSWERS)), words, strict=True):
        question[place] = word
    return [*question, ASK], words


def recall(rng: random.Random, length: int) -> QuestionAnswer:
    """Associative recall: the value of a key, after pairs of key and value among dashes."""
    n_pairs = min(length // 2, len(SYMBOLS))
    keys = rng.sample(SYMBOLS, n_pairs)
    values = rng.choices(SYMBOLS, k=n_pairs)
    asked = rng.randrange(n_pairs)
    pairs = [[key, value] for key, value in zip(keys, values, strict=True)]
    pairs += [[NOISE, NOISE] for _ in range(length // 2 - n_pairs)]
    rng.shuffle(pairs)
    return [*(word for pair in pairs for word in pair), ASK, keys[asked]], [values[asked]]


def index(rng: random.Random, length: int) -> QuestionAnswer:
    """Indirect indexing: the word at a given position, which is one of the first ten."""
    words = rng.choices(SYMBOLS, k=length)
    asked = rng.randrange(min(length, 10))
    return [*words, ASK, f"n{asked + 1}"], [words[asked]]


SEQUENCE_TASKS: dict[str, Callable[[random.Random, int], QuestionAnswer]] = {
    "copy": _of_all_words(list),
    "reverse": _of_all_words(lambda words: words[::-1]),
    "sort": _of_all_words(sorted),
    "selective-copy": selective_copy,
    "recall": recall,
    "index": index,
}


TEXT_TASK = "swap-text"
TASK_NAMES = (*PAIR_TASKS, TEXT_TASK, *SEQUENCE_TASKS)


@dataclass(frozen=True)
class ProbeData:
    """Sentences and their targets.

    Shape: ids (N, L) padded with 0; targets (N,), or (N, L) with -100 where there is no target
    """

    ids: Tensor
    targets: Tensor


@dataclass(frozen=True)
class ProbeTask:
    """A task: its words, its number of classes and its generators."""

    name: str
    words: list[str]
    n_classes: int
    make: Callable[[random.Random, int], Any]
    make_for_test: Callable[[random.Random, int], Any]
    """As `make`; for `swap-text`, from sentences that `make` never draws."""
    marked: frozenset[str]
    """Words whose position decides the answer, if the task has such."""

    @property
    def is_sequence(self) -> bool:
        return self.name in SEQUENCE_TASKS

    def examples(
        self, n: int, lengths: tuple[int, int], *, seed: int, test: bool = False
    ) -> ProbeData:
        """n examples with lengths drawn uniformly from a range; n/2 minimal pairs for pair tasks.

        The sentences of a pair are in rows 2i (no) and 2i + 1 (yes).
        """
        rng = random.Random(f"{self.name} {seed} {lengths} {test}")
        make = self.make_for_test if test else self.make
        index = {word: i for i, word in enumerate(self.words)}
        rows: list[list[int]] = []
        targets: list[list[int]] = []
        while len(rows) < n:
            made = make(rng, rng.randint(*lengths))
            if self.is_sequence:
                question, answer = made
                rows.append([index[w] for w in question] + [index[BLANK]] * len(answer))
                targets.append([NO_TARGET] * len(question) + [index[w] for w in answer])
            else:
                rows += [[index.get(w, UNKNOWN_ID) for w in sentence] for sentence in made]
        if self.is_sequence:
            return ProbeData(_padded(rows, 0), _padded(targets, NO_TARGET))
        return ProbeData(_padded(rows, 0), torch.arange(len(rows)) % 2)


def probe_task(name: str, text: Path | None = None) -> ProbeTask:
    """A task by name; `swap-text` needs a text file."""
    if name == TEXT_TASK:
        if text is None:
            raise WordwaveError(f"task {TEXT_TASK!r} needs a text file, one sentence a line")
        sentences = read_sentences(text)
        random.Random(0).shuffle(sentences)
        kept, held_out = sentences[len(sentences) // 5 :], sentences[: len(sentences) // 5]
        words = sorted({w for s in kept for w in s})
        try:
            makers = swap_in(kept), swap_in(held_out)
        except WordwaveError as error:
            raise WordwaveError(
                f"text file '{text}' needs more sentences: {len(sentences)} different ones of at "
                f"least two words, a fifth of them held out, have {error}"
            ) from None
        return ProbeTask(name, [*SPECIALS, *words], 2, *makers, frozenset())
    if name in SEQUENCE_TASKS:
        words = [*SPECIALS, *SYMBOLS, NOISE, ASK, BLANK]
        words += [f"n{i}" for i in range(1, 11)]
        ask = SEQUENCE_TASKS[name]
        return ProbeTask(name, words, len(words), ask, ask, frozenset())
    if name in PAIR_TASKS:
        pair = PAIR_TASKS[name]
        known, marked = _words_of(name)
        return ProbeTask(name, [*SPECIALS, *known], 2, pair, pair, marked)
    raise unknown("task", name, TASK_NAMES)


def read_sentences(path: Path) -> list[list[str]]:
    """The distinct lines of a text file with at least two words, lower-cased, in order."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise WordwaveError(f"text file '{path}' cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise WordwaveError(f"text file '{path}' is not UTF-8 at byte {error.start}") from None
    sentences = dict.fromkeys(tuple(line.lower().split()) for line in lines)
    return [list(words) for words in sentences if len(words) > 1]


def _words_of(name: str) -> tuple[Sequence[str], frozenset[str]]:
    """The words of a pair task, and those whose position decides the answer."""
    if name in ("swap", "who-did-what"):
        kinds = (ANIMALS, PEOPLE, ACTIVE, ADJECTIVES, ADVERBS)
        words = ["the", "and", "was", "by", *(word for kind in kinds for word in kind)]
        return words, frozenset(ANIMALS + PEOPLE if name == "who-did-what" else ())
    marked = [f"n{i}" for i in range(10)] if name == "reversal" else [A, B]
    return [*marked, *FILLERS], frozenset(marked)


def _padded(rows: list[list[int]], value: int) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [value] * (width - len(row)) for row in rows])
