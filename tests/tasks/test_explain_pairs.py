"""What an explanation of a pair says is what the matcher predicts for the changed pair."""

import json
import math
from itertools import combinations, permutations

import pytest

from wordwave.config_io import with_settings
from wordwave.models.classifier import PairNetwork
from wordwave.models.config import PairModelConfig
from wordwave.tasks.config import MatchingConfig
from wordwave.tasks.explain import ROUNDING
from wordwave.tasks.explain_pairs import explain_pair, swapped, swaps_to_try
from wordwave.tasks.matcher import TextMatcher
from wordwave.text.encoder import TextEncoder
from wordwave.text.tokenizers import build_tokenizer, train_bpe
from wordwave.text.vocabulary import Vocabulary

A, B = "the dog bites the man", "a man never bites the dog"


def build(oracle, embedding="complex-order", *, labels=("no", "yes"), tokenizer=None, **options):
    config = with_settings(
        PairModelConfig(), embedding=embedding, dim=8, hidden_dim=8, max_length=12, **options
    )
    tokenizer = tokenizer or build_tokenizer("plain")
    words = ["the", "a", "dog", "man", "bites"]
    vocabulary = Vocabulary.build([words], extra_words=getattr(tokenizer, "words", ()))
    model = PairNetwork(config, len(vocabulary), len(labels) or 1).eval()
    oracle.randomise(model)
    encoder = TextEncoder(tokenizer, vocabulary, max_length=12)
    return TextMatcher(model, encoder, labels, MatchingConfig(model=config), (1.0, 5.0))


def p_of(matcher, label, a, b):
    if label is None:
        return float(matcher.scores([(a, b)])[0])
    return float(matcher.probabilities([(a, b)])[0, matcher.labels.index(label)])


def without_each(text):
    words = text.split()
    return [" ".join(words[:i] + words[i + 1 :]) for i in range(len(words))]


@pytest.mark.parametrize("labels", [("no", "yes"), ("0", "1", "2"), ()])
def test_every_change_is_that_of_the_changed_pair(oracle, labels):
    matcher = build(oracle, labels=labels)
    e = explain_pair(matcher, A, B)

    def value(a, b):
        """The log-odds of the predicted class, or the score."""
        if not labels:
            return p_of(matcher, None, a, b)
        logits = dict(zip(labels, matcher.logits([(a, b)])[0].double().tolist(), strict=True))
        return logits.pop(e.label) - math.log(sum(map(math.exp, logits.values())))

    now = value(A, B)
    assert e.p == pytest.approx(p_of(matcher, e.label, A, B), abs=1e-5)
    assert (e.label is None) == (not labels) and list(e.probabilities) == list(labels)
    if labels:
        assert [e.label] == matcher.predict([(A, B)]) and e.p == max(e.probabilities.values())
    for word, shorter in zip(e.words_a, without_each(A), strict=True):
        assert now - word.importance == pytest.approx(value(shorter, B), abs=1e-3)
    for word, shorter in zip(e.words_b, without_each(B), strict=True):
        assert now - word.importance == pytest.approx(value(A, shorter), abs=1e-3)
    assert [word.word for word in e.words_b if not word.shared] == ["a", "never"]
    assert [word.word for word in e.words_b if not word.known] == ["never"]

    tokens, moved, values = B.split(), {}, {}
    for i, j in permutations(range(len(tokens)), 2):
        rest = tokens[:i] + tokens[i + 1 :]
        text = " ".join([*rest[:j], tokens[i], *rest[j:]])
        moved[i, j], values[i, j] = p_of(matcher, e.label, A, text), value(A, text)
    for i, word in enumerate(e.words_b):
        changes = [abs(after - now) for (k, _), after in values.items() if k == i]
        assert word.moved_mean == pytest.approx(sum(changes) / len(changes), abs=1e-3)
        assert word.moved_max == pytest.approx(max(changes), abs=1e-3)
    assert e.all_moves and e.n_moves == len(moved)
    if e.worst_move is not None:
        assert e.worst_move.p == pytest.approx(min(moved.values()), abs=1e-4)
        assert e.worst_move.p == pytest.approx(
            p_of(matcher, e.label, A, e.worst_move.text), abs=1e-4
        )

    swaps = []
    for i, j in combinations(range(len(tokens)), 2):
        order = list(tokens)
        order[i], order[j] = order[j], order[i]
        swaps.append(p_of(matcher, e.label, A, " ".join(order)))
    assert e.n_swaps == len(swaps)
    best = min(swaps) if labels else max(swaps)
    if e.best_swap is None:
        assert (best - e.p) * (-1 if labels else 1) < 1e-3
    else:
        assert e.best_swap.p == pytest.approx(best, abs=1e-4)
        assert e.best_swap.p == pytest.approx(p_of(matcher, e.label, A, e.best_swap.text), abs=1e-4)
        assert e.best_swap.words == tuple(tokens[i - 1] for i in e.best_swap.positions)
        if labels:
            assert [e.best_swap.label] == matcher.predict([(A, e.best_swap.text)])
    assert json.loads(json.dumps(e.to_dict()))["words_b"][0]["word"] == "a"


def test_a_matcher_blind_to_order_shows_no_effect_of_it(oracle):
    e = explain_pair(build(oracle, "none", views=("start",)), A, B)
    assert e.worst_move is None and e.best_swap is None
    assert e.moves_to_other_class == e.shuffles_to_other_class == 0
    assert all(word.moved_max < ROUNDING and word.moved_to is None for word in e.words_b)
    assert any(abs(word.importance) > 1e-4 for word in [*e.words_a, *e.words_b])


@pytest.mark.parametrize("pair", [("", ""), ("dog", "man"), ("", "the man"), (A, "")])
def test_short_sentences_are_explained(oracle, pair):
    e = explain_pair(build(oracle), *pair)
    n = max(len(pair[1].split()), 1)
    assert (len(e.words_b), e.n_moves, e.n_swaps) == (n, n * (n - 1), n * (n - 1) // 2)


def test_long_sentences_are_cut_as_for_a_prediction(oracle):
    matcher, long = build(oracle), "dog man " * 10
    e = explain_pair(matcher, long, long, most_moves=20)
    assert e.n_cut == (8, 8) and len(e.words_a) == len(e.words_b) == 12
    assert not e.all_moves and e.n_swaps == 20
    assert e.p == pytest.approx(p_of(matcher, e.label, long, long), abs=1e-5)


def test_bpe_tokens_are_shown_as_text(oracle):
    matcher = build(oracle, tokenizer=train_bpe([A, B] * 3, 300))
    e = explain_pair(matcher, "dog bites", "man bites dog")
    assert "".join(word.word for word in e.words_b).replace("␣", "") == "manbitesdog"
    assert e.best_swap is None or "Ġ" not in e.best_swap.text


def test_swaps_are_the_nearest_first():
    assert swaps_to_try(4, 4).tolist() == [[0, 1], [1, 2], [2, 3], [0, 2]]
    assert len(swaps_to_try(7, 100)) == 21 and swaps_to_try(1, 9).shape == (0, 2)
    assert swapped(swaps_to_try(3, 9), 3).tolist() == [[1, 0, 2], [0, 2, 1], [2, 1, 0]]


def test_numbers_below_zero_are_refused(oracle):
    with pytest.raises(ValueError, match="n_shuffles must be at least 0, got -1"):
        explain_pair(build(oracle), A, B, n_shuffles=-1)
