"""Paired bootstrap of BLEU from counts."""

import random

import pytest

from experiments.table5 import bleu_of, paired_bootstrap
from wordwave.tasks.bleu import bleu_counts, tokenised_bleu

WORDS = ["ein", "hund", "rennt", "über", "die", "wiese", "und", "bellt", "laut", "am", "abend"]


def spoiled(texts, share, seed):
    rng = random.Random(seed)
    return [" ".join(w if rng.random() > share else "x" for w in t.split()) for t in texts]


@pytest.fixture(scope="module")
def wanted():
    rng = random.Random(0)
    return [" ".join(rng.choices(WORDS, k=rng.randint(6, 14))) for _ in range(120)]


def test_counts_give_sacrebleus_figure(wanted):
    for share in (0.0, 0.1, 0.3):
        said = spoiled(wanted, share, 1)
        counts = bleu_counts(said, wanted)
        total = [sum(column) for column in zip(*counts, strict=True)]
        assert bleu_of(total) == pytest.approx(tokenised_bleu(said, wanted), abs=1e-9)
    short = [" ".join(text.split()[:-2]) for text in wanted]
    total = [sum(column) for column in zip(*bleu_counts(short, wanted), strict=True)]
    assert bleu_of(total) == pytest.approx(tokenised_bleu(short, wanted), abs=1e-9)


def test_a_better_translator_is_known_and_equals_are_not_told_apart(wanted):
    good, bad = (bleu_counts(spoiled(wanted, share, 2), wanted) for share in (0.05, 0.3))
    gap = paired_bootstrap(good, bad)
    assert gap.difference > 10 and gap.interval[0] > 0 and gap.p < 0.01
    assert paired_bootstrap(bad, good).difference == pytest.approx(-gap.difference)
    like = bleu_counts(spoiled(wanted, 0.3, 3), wanted)
    low, high = paired_bootstrap(bad, like).interval
    assert low < 0 < high
    assert paired_bootstrap(bad, bad).p == 1.0


def test_other_sentences_are_refused(wanted):
    counts = bleu_counts(wanted, wanted)
    with pytest.raises(ValueError, match="same sentences"):
        paired_bootstrap(counts, counts[:-1])
