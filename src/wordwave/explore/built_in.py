"""The model of the explorer without a run: generated sentences whose order decides their class."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from wordwave.config_io import dump_yaml, to_dict, with_settings
from wordwave.data.examples import Examples
from wordwave.data.splits import Splits
from wordwave.embedding.config import EmbeddingKind
from wordwave.errors import WordwaveError
from wordwave.files import locked, sha256_of
from wordwave.lab.tasks import ADJECTIVES, ADVERBS, ANIMALS, PEOPLE
from wordwave.tasks.classification_job import ClassificationJob
from wordwave.tasks.classifier import TextClassifier
from wordwave.tasks.config import IN_MEMORY, ClassificationConfig
from wordwave.tasks.run_folder import WEIGHTS

ACTIVE = ("bites", "chases", "sees", "follows", "finds", "loves")
PASSIVE = ("bitten", "chased", "seen", "followed", "found", "loved")
GOOD = ("funny", "clever", "warm", "fresh", "brilliant", "moving")
BAD = ("boring", "dull", "cold", "stale", "clumsy", "tedious")
THINGS = ("film", "book", "song", "play", "story", "meal")
N_TRAIN, N_DEV = 6000, 400
EXAMPLES = (
    "dog bites man",
    "man bites dog",
    "the man is chased by the old dog",
    "not boring but funny",
    "not funny but boring",
    "the film is clever , not dull",
)
"""One click each."""

Sentence = list[str]


def who_acts(rng: random.Random) -> tuple[Sentence, str]:
    """dog bites man, the man is bitten by a dog: does the animal act, or the person?"""
    animal, person, i = rng.choice(ANIMALS), rng.choice(PEOPLE), rng.randrange(len(ACTIVE))
    nouns, passive = [animal, person], rng.random() < 0.4
    rng.shuffle(nouns)
    with_article = rng.random() < 0.6
    middle = ["is", PASSIVE[i], "by"] if passive else [ACTIVE[i]]

    def phrase(noun: str) -> Sentence:
        article = [rng.choice(("the", "a"))] if with_article else []
        return [*article, *rng.choices(ADJECTIVES, k=rng.choice((0, 0, 0, 1))), noun]

    said = [*phrase(nouns[0]), *middle, *phrase(nouns[1])]
    adverb = rng.choices(ADVERBS, k=1) if rng.random() < 0.3 else []
    said = [*adverb, *said] if rng.random() < 0.5 else [*said, *adverb]
    acts = nouns[1] if passive else nouns[0]
    return said, "animal acts" if acts == animal else "person acts"


def good_or_bad(rng: random.Random) -> tuple[Sentence, str]:
    """not boring but funny; the film is dull, not clever: praise, or a complaint?"""
    good, bad = rng.choice(GOOD), rng.choice(BAD)
    praised = rng.random() < 0.5
    yes, no = (good, bad) if praised else (bad, good)
    said = rng.choice((["not", no, "but", yes], [yes, ",", "not", no], [yes, "and", "not", no]))
    if rng.random() < 0.6:
        said = ["the", rng.choice(THINGS), rng.choice(("is", "was")), *said]
    if rng.random() < 0.2:
        said = [*said, rng.choice(ADVERBS)]
    return said, "praise" if praised else "complaint"


def sentences(n: int, seed: int) -> Examples:
    """n sentences of both kinds, and their classes."""
    rng = random.Random(seed)
    makers: tuple[Callable[[random.Random], tuple[Sentence, str]], ...] = (who_acts, good_or_bad)
    made = [makers[i % 2](rng) for i in range(n)]
    return Examples([" ".join(words) for words, _ in made], [label for _, label in made], IN_MEMORY)


def built_in(kind: EmbeddingKind, folder: Path, watch: Callable[[str], None]) -> TextClassifier:
    """The small classifier with waves, or its twin with another embedding, trained in seconds.

    Args:
        folder: where trained models are kept, by a hash of their data and settings.
        watch: is called with a line before a model is trained.
    """
    config = with_settings(
        ClassificationConfig(),
        **{"data": IN_MEMORY, "embedding": kind, "encoder": "fasttext", "pooling": "sum"},
        **{"dim": 32, "hidden_dim": 32, "dropout": 0.1, "max_length": 64, "epochs": 6},
        **{"batch_size": 32, "learning_rate": 5e-3, "frequency_lr_scale": 0.5},
        **{"word_dropout": 0.05, "precision": "fp32"},
    )
    data = Splits(sentences(N_TRAIN, 0), sentences(N_DEV, 1), None)
    key = sha256_of([data.fingerprint().encode(), dump_yaml(to_dict(config)).encode()])[:12]
    run = folder / f"{kind}-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / f"{run.name}.lock"):  # another explorer may be training it
        if (run / WEIGHTS).exists():
            with suppress(WordwaveError):  # a damaged one is trained again
                return TextClassifier.load(run)
        watch(f"Training the built-in model ({kind}) on {N_TRAIN:,} generated sentences …")
        job = ClassificationJob(config)
        job.prepare(data)
        for _ in job.run(job.training()):
            pass
        job.text_model.model.eval()
        job.text_model.save(run)
        return job.text_model
