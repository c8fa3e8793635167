"""Order tasks as minimal pairs: two sentences of the same words, told apart only by their order.

Each maker returns (no, yes): a sentence that lacks the property and one that has it. Both hold the
same multiset of words, so whatever ignores order gives both the same answer and is right on one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import pairwise

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
    """The sentence with words moved (from: to); the moves permute a set of places."""
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
    """Does B follow A at once? The other sentence has B A, or A and then B further on.

    So neither the order of the two nor their nearness alone gets more than three of four right.
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
    """Are A and B less than four places apart?"""
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
    """A and B stand twice each: is A the first to be repeated?"""
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
    """A noun phrase that waits for its noun."""
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
    """Were two neighbours exchanged, in a sentence of a small grammar?"""
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
    """Were two neighbours exchanged, in sentences of one's own? The length asked for is a limit."""
    usable = [s for s in text if any(a != b for a, b in pairwise(s))]

    if not usable:
        raise ValueError("no sentence with two different neighbours")

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
