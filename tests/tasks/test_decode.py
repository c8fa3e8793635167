"""Beam search against searching everything, with and without a cache, in any company."""

from itertools import product

import pytest
import torch
import torch.nn.functional as F

from benchmarks.translation import Recomputed
from wordwave.config_io import with_settings
from wordwave.models.beam_search import beam_search
from wordwave.models.config import TranslationModelConfig
from wordwave.models.encoder_decoder import BOS_ID, EOS_ID, translation_model

WORDS = (4, 5, 6)
KINDS = [
    ("transformer", "tpe"),
    ("transformer", "complex-order"),
    ("transformer", "rope"),
    ("transformer", "alibi"),
    ("transformer", "pope"),
    ("transformer", "token-clock"),
    ("aed", "complex-vanilla"),
]
for_each = pytest.mark.parametrize(("architecture", "embedding"), KINDS)


def build(architecture, embedding, vocab_size=7, scale=4.0):
    """Random weights; a large scale makes some words much likelier than others."""
    torch.manual_seed(1)
    config = with_settings(
        TranslationModelConfig(),
        architecture=architecture,
        embedding=embedding,
        dim=8,
        encoder_layers=1,
        decoder_layers=2,
        n_heads=2,
        feed_forward_dim=16,
    )
    model = translation_model(config, vocab_size).double().eval()
    with torch.no_grad():
        model.embedding.vectors.mul_(scale)
        model.embedding.vectors[0] = 0
    return model


@torch.no_grad()
def everything(model, source, longest, penalty):
    """All sentences by their scores, worked out one by one."""
    found = []
    for n in range(longest + 1):
        for words in product(WORDS, repeat=n):
            target = torch.tensor([[BOS_ID, *words]])
            logs = model(source, target).log_softmax(-1)[0]
            total = sum(float(logs[i, w]) for i, w in enumerate((*words, EOS_ID)))
            found.append((total / ((5 + n + 1) / 6) ** penalty, list(words)))
    return sorted(found, reverse=True)


@for_each
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_wide_beam_finds_what_searching_everything_finds(architecture, embedding, penalty):
    model = build(architecture, embedding)
    source = torch.tensor([[4, 6, 5], [5, 5, 0]])
    beam = sum(3**n for n in range(4)) + 1
    options = {"max_lengths": [3, 2], "beam": beam, "n_best": 8, "length_penalty": penalty}
    for decoder in (model, Recomputed(model)):
        found = beam_search(decoder, source, **options)
        for row, (n, longest) in enumerate(((3, 3), (2, 2))):
            wanted = everything(model, source[row : row + 1, :n], longest, penalty)[:8]
            assert [h.ids for h in found[row]] == [words for _, words in wanted]
            assert [h.score for h in found[row]] == pytest.approx([score for score, _ in wanted])


@for_each
@pytest.mark.parametrize("beam", [1, 3])
def test_the_cache_and_the_company_change_nothing(architecture, embedding, beam):
    model = build(architecture, embedding, vocab_size=20).float()
    lengths = [6, 1, 3, 6, 2]
    source = torch.randint(4, 20, (5, 6))
    for row, n in enumerate(lengths):
        source[row, n:] = 0
    longest = [12, 3, 7, 9, 5]
    options = {"beam": beam, "n_best": beam}
    together = beam_search(model, source, max_lengths=longest, **options)
    again = beam_search(Recomputed(model), source, max_lengths=longest, **options)
    order = [3, 0, 4, 2, 1]
    mixed = beam_search(
        model, F.pad(source[order], (0, 5)), max_lengths=[longest[i] for i in order], **options
    )
    for row, n in enumerate(lengths):
        alone = beam_search(
            model, source[row : row + 1, :n], max_lengths=[longest[row]], **options
        )[0]
        for other in (alone, again[row], mixed[order.index(row)]):
            assert [h.ids for h in other] == [h.ids for h in together[row]]
            scores = pytest.approx([h.score for h in together[row]], abs=1e-4)
            assert [h.score for h in other] == scores
        assert all(len(h.ids) <= longest[row] for h in alone)
        assert all(min(h.ids, default=4) >= 4 for h in alone)


def test_a_beam_of_one_takes_the_likeliest_word_each_time():
    model = build("transformer", "complex-order", vocab_size=20)
    source = torch.randint(4, 20, (4, 5))
    found = beam_search(model, source, max_lengths=[8] * 4, beam=1)
    for row, (best,) in enumerate(found):
        words = [BOS_ID]
        while words[-1] != EOS_ID and len(words) < 9:
            logits = model(source[row : row + 1], torch.tensor([words]))[0, -1].detach()
            logits[:3] = -torch.inf
            words.append(int(logits.argmax()))
        assert best.ids == [w for w in words[1:] if w != EOS_ID]


def test_more_penalty_never_gives_a_shorter_sentence():
    model = build("transformer", "tpe", vocab_size=20, scale=2.0)
    source = torch.randint(4, 20, (6, 5))
    short, long = (
        beam_search(model, source, max_lengths=[10] * 6, beam=20, length_penalty=penalty)
        for penalty in (0.0, 3.0)
    )
    pairs = [(len(a[0].ids), len(b[0].ids)) for a, b in zip(short, long, strict=True)]
    assert all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"beam": 0}, "beam must be at least 1, got 0"),
        ({"beam": 2, "n_best": 3}, r"n_best must be .* at most beam \(2\), got 3"),
        ({"length_penalty": -1.0}, r"length_penalty must be in \[0, 10\], got -1.0"),
        ({"max_lengths": [1, 2]}, "a number for each of 1 sources, got 2"),
    ],
)
def test_searches_that_make_no_sense_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        beam_search(
            build("transformer", "none"), torch.tensor([[4]]), **{"max_lengths": [3]} | options
        )


def test_no_sources_no_translations():
    model = build("transformer", "none")
    assert beam_search(model, torch.zeros(0, 3, dtype=torch.long), max_lengths=[]) == []


def test_a_model_without_probabilities_is_refused_and_not_asked_for_ever():
    model = build("transformer", "tpe")
    with torch.no_grad():
        model.embedding.vectors.fill_(torch.nan)
    with pytest.raises(ValueError, match="must give each word a probability, got NaN"):
        beam_search(model, torch.tensor([[4, 5]]), max_lengths=[3])
