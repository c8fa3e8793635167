"""Synthetic tasks of word order: minimal pairs to classify, and sequences to tag.

A minimal pair is two sentences of the same words (no, yes): one that lacks a property and one that
has it. Both hold the same multiset of words, so a model that ignores order gives both the same
answer and is right on one of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from wordwave.errors import WordwaveError, unknown
from wordwave.files import check_regular
from wordwave.tasks.classification import NO_TARGET
from wordwave.text.vocabulary import PADDING_ID, SPECIALS, UNKNOWN_ID

Sentence = list[str]
Pair = tuple[Sentence, Sentence]
Maker = Callable[[random.Random, int], tuple[Sentence, Sentence]]
"""Draws a pair (no, yes) of sentences of a length, or a question and its answer."""

FILLERS = tuple(f"w{i:02d}" for i in range(100))
A, B = "A", "B"
KTH = 3
NEAR = 4


def _fill(rng: random.Random, length: int, placed: dict[int, str]) -> Sentence:
    sentence = rng.choices(FILLERS, k=length)
    for place, word in placed.items():
        sentence[place] = word
    return sentence


def _swapped(sentence: Sentence, i: int, j: int) -> Sentence:
    result = list(sentence)
    result[i], result[j] = sentence[j], sentence[i]
    return result


def precedence(rng: random.Random, length: int) -> Pair:
    """Does A come before B?"""
    i, j = sorted(rng.sample(range(length), 2))
    yes = _fill(rng, length, {i: A, j: B})
    return _swapped(yes, i, j), yes


def adjacency(rng: random.Random, length: int) -> Pair:
    """Does B follow A immediately? The other sentence has B A, or A and then B further on.

    So neither the order of the two nor their distance alone gets more than three of four right.
    """
    i = rng.randrange(length - 2)
    yes = _fill(rng, length, {i: A, i + 1: B})
    if rng.random() < 0.5:
        return _swapped(yes, i, i + 1), yes
    return _swapped(yes, i + 1, rng.randrange(i + 2, length)), yes


def kth_word(rng: random.Random, length: int) -> Pair:
    """Is the third word A? The other sentence has B there and A elsewhere."""
    k = KTH - 1
    other = rng.choice([p for p in range(length) if p != k])
    yes = _fill(rng, length, {k: A, other: B})
    return _swapped(yes, k, other), yes


def distance(rng: random.Random, length: int) -> Pair:
    """Are A and B less than four positions apart?"""
    first, second = rng.sample((A, B), 2)
    i = rng.randrange(length - NEAR)
    near, far = rng.randrange(1, NEAR), rng.randrange(NEAR, length - i)
    yes = _fill(rng, length, {i: first, i + near: second})
    return _swapped(yes, i + near, i + far), yes


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
    i = rng.choice([i for i, (a, b) in enumerate(pairwise(kinds)) if a != b])
    return no, _swapped(no, i, i + 1)


def swap_in(sentences: Sequence[Sentence]) -> Maker:
    """Were two adjacent words swapped, in given sentences? The length is an upper bound."""

    def make(rng: random.Random, length: int) -> Pair:
        sentence = rng.choice(sentences)
        i = rng.choice([i for i, (a, b) in enumerate(pairwise(sentence)) if a != b])
        start = rng.randint(max(i + 2 - length, 0), min(i, max(len(sentence) - length, 0)))
        no = sentence[start : start + length]
        return no, _swapped(no, i - start, i - start + 1)

    return make


PAIR_TASKS: dict[str, Maker] = {
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


def _of_all_words(answer: Callable[[Sentence], Sentence]) -> Maker:
    """The answer is a function of all words."""

    def make(rng: random.Random, length: int) -> QuestionAnswer:
        words = rng.choices(SYMBOLS, k=length)
        return [*words, ASK], answer(words)

    return make


def selective_copy(rng: random.Random, length: int) -> QuestionAnswer:
    """The five words among dashes, in their order."""
    words = rng.choices(SYMBOLS, k=N_ANSWERS)
    places = dict(zip(sorted(rng.sample(range(length), N_ANSWERS)), words, strict=True))
    return [*(places.get(i, NOISE) for i in range(length)), ASK], words


def recall(rng: random.Random, length: int) -> QuestionAnswer:
    """Associative recall: the value of a key, after pairs of key and value among dashes."""
    n_pairs = min(length // 2, len(SYMBOLS))
    keys, values = rng.sample(SYMBOLS, n_pairs), rng.choices(SYMBOLS, k=n_pairs)
    asked = rng.randrange(n_pairs)
    pairs = [*zip(keys, values, strict=True), *[(NOISE, NOISE)] * (length // 2 - n_pairs)]
    rng.shuffle(pairs)
    return [*chain.from_iterable(pairs), ASK, keys[asked]], [values[asked]]


def index(rng: random.Random, length: int) -> QuestionAnswer:
    """Indirect indexing: the word at a given position, which is one of the first ten."""
    words = rng.choices(SYMBOLS, k=length)
    asked = rng.randrange(min(length, 10))
    return [*words, ASK, f"n{asked + 1}"], [words[asked]]


SEQUENCE_TASKS: dict[str, Maker] = {
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
    make: Maker
    make_for_test: Maker
    """As `make`; for `swap-text`, from sentences that `make` never draws."""
    marked: frozenset[str] = frozenset()
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
            first, second = ([index.get(w, UNKNOWN_ID) for w in words] for words in made)
            if self.is_sequence:
                rows.append(first + [index[BLANK]] * len(second))
                targets.append([NO_TARGET] * len(first) + second)
            else:
                rows += [first, second]
                targets += [[0], [1]]
        if self.is_sequence:
            return ProbeData(_padded(rows, PADDING_ID), _padded(targets, NO_TARGET))
        return ProbeData(_padded(rows, PADDING_ID), torch.tensor(targets).flatten())


def _padded(rows: list[list[int]], value: int) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)


def probe_task(name: str, text: Path | None = None) -> ProbeTask:
    """A task by name; `swap-text` needs a text file."""
    if name == TEXT_TASK:
        return _text_task(text)
    if name in SEQUENCE_TASKS:
        words = [*SPECIALS, *SYMBOLS, NOISE, ASK, BLANK, *(f"n{i}" for i in range(1, 11))]
        return ProbeTask(name, words, len(words), SEQUENCE_TASKS[name], SEQUENCE_TASKS[name])
    if name not in PAIR_TASKS:
        raise unknown("task", name, TASK_NAMES)
    marked: Sequence[str] = [f"n{i}" for i in range(10)] if name == "reversal" else [A, B]
    words = [*marked, *FILLERS]
    if name in ("swap", "who-did-what"):
        marked = ANIMALS + PEOPLE if name == "who-did-what" else ()
        words = ["the", "and", "was", "by", *ANIMALS, *PEOPLE, *ACTIVE, *ADJECTIVES, *ADVERBS]
    make = PAIR_TASKS[name]
    return ProbeTask(name, [*SPECIALS, *words], 2, make, make, frozenset(marked))


def _text_task(text: Path | None) -> ProbeTask:
    if text is None:
        raise WordwaveError(f"task {TEXT_TASK!r} needs a text file, one sentence a line")
    sentences = read_sentences(text)
    random.Random(0).shuffle(sentences)
    n_held = len(sentences) // 5
    words = sorted(set(chain.from_iterable(sentences[n_held:])))
    kept, held_out = (
        [s for s in part if len(set(s)) > 1] for part in (sentences[n_held:], sentences[:n_held])
    )
    if not kept or not held_out:
        raise WordwaveError(
            f"text file '{text}' needs more sentences: {len(sentences)} different ones of at least "
            "two words, a fifth of them held out, have none with two different adjacent words"
        )
    return ProbeTask(TEXT_TASK, [*SPECIALS, *words], 2, swap_in(kept), swap_in(held_out))


def read_sentences(path: Path) -> list[list[str]]:
    """The distinct lines of a text file with at least two words, lower-cased, in order."""
    try:
        check_regular(path)
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise WordwaveError(f"text file '{path}' cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise WordwaveError(f"text file '{path}' is not UTF-8 at byte {error.start}") from None
    sentences = dict.fromkeys(tuple(line.lower().split()) for line in lines)
    return [list(words) for words in sentences if len(words) > 1]
