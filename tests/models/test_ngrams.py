"""The linear model of n-grams: hashes, sums of rows and the fit, against direct computations."""

import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from wordwave.compiled import SWITCH
from wordwave.data.examples import Examples
from wordwave.data.splits import Splits
from wordwave.embedding.table import Bigrams
from wordwave.errors import WordwaveError
from wordwave.models.ngrams import NgramLogits
from wordwave.tasks import stacking
from wordwave.tasks.classification_job import ClassificationJob
from wordwave.tasks.classifier import BATCH_WORDS, logits_of
from wordwave.tasks.config import ClassificationConfig, DataConfig, TextConfig
from wordwave.text.batching import Sentences
from wordwave.text.encoder import TextEncoder
from wordwave.text.ngrams import Words, ngram_blocks, ngram_hashes
from wordwave.text.tokenizers import PlainTokenizer
from wordwave.text.vocabulary import Vocabulary

TEXTS = [
    "a dull film", "the film is dull", "so bright a day", "brighter days", "the day is bright",
    "a dull dull day", "who is it", "who was the film by", "by whom is the film", "it is a day",
]  # fmt: skip
TARGETS = np.array([0, 0, 1, 1, 1, 0, 2, 2, 2, 1])


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=9), max_size=6))
@settings(max_examples=60)
def test_the_kernel_hashes_as_python_does(words):
    spelled = Words.of(words)
    hashes, starts = ngram_hashes(spelled)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SWITCH, "1")
        others, other_starts = ngram_hashes(spelled)
    assert hashes.tolist() == others.tolist() and starts.tolist() == other_starts.tolist()
    sizes = [sum(max(len(word) + 3 - n, 0) for n in (3, 4, 5)) for word in words]
    assert np.diff(starts).tolist() == sizes


@pytest.mark.parametrize("without", ["", "1"])
@pytest.mark.parametrize("block", [32, 50])
def test_hashes_in_blocks_are_those_of_whole_words(block, without, monkeypatch):
    monkeypatch.setenv(SWITCH, without)
    monkeypatch.setattr("wordwave.text.ngrams.BLOCK", block)
    rng = np.random.default_rng(0)
    sizes = [3, 0, 1, 200, block, block + 1, 0, 7, *range(block - 5, block + 9), 90, 0, 0]
    letters = np.array([*"aaäé語🙂"])
    words = Words.of(["".join(rng.choice(letters, size)) for size in sizes * 2])
    words = words._replace(owners=words.owners // 2)
    hashes, starts = ngram_hashes(words)
    blocks = list(ngram_blocks(words))
    assert np.concatenate([some for some, _ in blocks]).tolist() == hashes.tolist()
    owners = np.concatenate([of for _, of in blocks])
    assert owners.tolist() == np.repeat(words.owners, np.diff(starts)).tolist()
    assert len(blocks) > 20 and max(len(some) for some, _ in blocks) <= 3 * (3 * block)


def test_a_word_of_any_length_takes_memory_of_a_block(with_ngrams):
    """Against the sum of the rows of all of its n-grams."""
    ngrams = with_ngrams().model.ngrams
    words = Words.of(["dogs", "bites", "schönesdogs" * 250_000, "goodly"], [0, 1, 1, 0])
    tracemalloc.start()
    sums = ngrams.sums_of_unknown(words, 2)
    again = words.take(np.array([2, 0]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert bytes(again.text) == b"sch\xc3\xb6nesdogs" * 250_000 + b"dogs"
    assert again.starts.tolist() == [0, 3_000_000, 3_000_004] and again.owners.tolist() == [1, 0]
    assert peak < 8 * len(words.text)
    hashes, starts = ngram_hashes(words)
    rows = torch.from_numpy(hashes % (len(ngrams.keys) - 1) + 1)
    known = ngrams.keys[rows] == torch.from_numpy(hashes)
    owners = torch.from_numpy(np.repeat(words.owners, np.diff(starts)))
    expected = torch.zeros_like(sums).index_add_(0, owners[known], ngrams.subwords[rows[known]])
    assert known.sum() > 1_000_000 and torch.equal(sums, expected)


def build(**limits):
    """An encoder, encoded texts, bigrams, counts and a fitted module.

    Args:
        limits: of the vocabulary.
    """
    tokenizer = PlainTokenizer()
    vocabulary = Vocabulary.build([tokenizer(text) for text in TEXTS], **limits)
    encoder = TextEncoder(tokenizer, vocabulary, max_length=20, keep_unknown=True)
    sentences = encoder.encode(TEXTS).sentences
    bigrams = Bigrams(97, 2, n_words=len(vocabulary)).eval()
    ids = sentences.padded(torch.arange(len(TEXTS)))
    keys = (ids[:, :-1] * len(vocabulary) + ids[:, 1:])[ids[:, 1:] != 0].unique()
    bigrams.assign(keys)
    n_subwords = stacking.n_subwords_of(vocabulary, 97, 3)
    counts = stacking.Counts(sentences, vocabulary, bigrams, n_subwords)
    fitted = stacking.fit(counts, TARGETS, 3)
    module = NgramLogits(len(vocabulary), 3, n_bigrams=97, n_subwords=n_subwords)
    fitted.assign(module, counts.keys, 1.0)
    return encoder, sentences, bigrams, counts, fitted, module


@pytest.fixture(scope="module")
def made():
    return build()


LIMITS = [{"min_count": 2}, {"max_size": 6}]


@pytest.mark.parametrize("limits", [{}, *LIMITS])
def test_what_is_fitted_is_what_predicts_also_without_all_words(limits):
    _, sentences, bigrams, counts, fitted, module = build(**limits)
    rows = torch.arange(len(TEXTS))
    assert bool(limits) == bool(len(sentences.unknown.owners))
    unknown = module.sums_of_unknown(sentences.unknown, len(TEXTS))
    logits = module.of_batch(sentences.batch(rows), bigrams, unknown)
    expected = torch.from_numpy(fitted.logits(counts, rows.numpy())).float()
    torch.testing.assert_close(logits, expected)


@pytest.mark.parametrize("limits", [{}, *LIMITS])
def test_the_coefficients_of_what_occurs_are_counted(limits):
    _, _, _, counts, _, module = build(**limits)
    spelled = np.hstack([counts.has_words.toarray(), counts.n_unknown.toarray()])
    occur = (counts.has_words, counts.has_pairs, spelled @ counts.n_grams)
    n_terms = sum(int((np.asarray(matrix.sum(0)) > 0).sum()) for matrix in occur)
    assert n_terms > 20 and module.n_coefficients == 3 * n_terms + 3
    assert module.bfloat16().n_coefficients == 3 * n_terms + 3


def test_padded_sentences_batches_and_sparse_matrices_agree(made):
    _, sentences, bigrams, counts, fitted, module = made
    rows = torch.arange(len(TEXTS))
    ids, batch = sentences.padded(rows), sentences.batch(rows)
    expected = torch.from_numpy(fitted.logits(counts, rows.numpy())).float()
    torch.testing.assert_close(module(ids, bigrams.pairs(ids)), expected)
    torch.testing.assert_close(module.of_batch(batch, bigrams, None), expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SWITCH, "1")
        torch.testing.assert_close(module.of_batch(batch, bigrams, None), expected)


@pytest.mark.parametrize("limits", [{}, *LIMITS])
def test_the_fit_is_the_logistic_regression_of_scikit_learn(limits):
    _, _, _, counts, fitted, _ = build(**limits)
    n, spelled = len(TEXTS), np.hstack([counts.has_words.toarray(), counts.n_unknown.toarray()])
    idf = [
        stacking._idf(n, np.minimum(np.asarray(count).ravel(), n))
        for count in (
            counts.has_words.sum(0),
            counts.has_pairs.sum(0),
            counts.n_grams.T @ (spelled > 0).sum(0),
        )
    ]
    words, pairs = counts.has_words.toarray() * idf[0], counts.has_pairs.toarray() * idf[1]
    first = np.hstack([words, pairs])
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    grams = spelled @ counts.n_grams.toarray()
    # n-grams are counted, and the length is that of separate occurrences
    length = np.sqrt(grams @ np.square(idf[2]))[:, None]
    x = np.hstack([first, grams * idf[2] / length])
    peer = LogisticRegression(C=stacking.INVERSE_PENALTY, tol=1e-6, max_iter=5000).fit(x, TARGETS)
    ours = fitted.logits(counts, np.arange(n))
    theirs = peer.decision_function(x)
    np.testing.assert_allclose(
        ours - ours.mean(1, keepdims=True), theirs - theirs.mean(1, keepdims=True), atol=0.02
    )


def test_unknown_words_are_recognized_by_their_subwords(made):
    encoder, _, bigrams, _, _, module = made
    new = encoder.encode(["brightest", "dullness", "zzzzz"]).sentences
    assert new.unknown.owners.tolist() == [0, 1, 2]
    sums = module.sums_of_unknown(new.unknown, 3)
    logits = module.of_batch(new.batch(torch.arange(3)), bigrams, sums)
    assert logits[:2].argmax(1).tolist() == [1, 0]
    torch.testing.assert_close(logits[2], module.bias)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_unknown_words_are_hashed_batch_by_batch(with_ngrams, monkeypatch, pooling):
    classifier, hashed = with_ngrams(pooling=pooling), []

    def counted(words):
        hashed.append(len(words.owners))
        return ngram_hashes(words)

    monkeypatch.setattr("wordwave.text.ngrams.ngram_hashes", counted)
    texts = [f"dogs bitten{'s' * (i % 7)} schönes the {'badly ' * (i % 3)}" for i in range(9000)]
    texts[::5] = ["the dog bites man"] * 1800  # without unknown words
    sentences = classifier.encoder.encode(texts).sentences
    logits = logits_of(classifier.model, sentences)
    n = len(sentences.unknown.owners)
    assert sum(hashed) == n > 20_000 and max(hashed) <= 4 * BATCH_WORDS < n
    for rows in ([0], [8999, 3], [5, 7, 7]):  # of any order, also repeated
        alone = logits_of(classifier.model, sentences.subset(rows))
        torch.testing.assert_close(alone, logits[rows])
        again = classifier.encoder.encode([texts[i] for i in rows]).sentences
        torch.testing.assert_close(logits_of(classifier.model, again), alone)


@pytest.mark.parametrize("text", ["ÉTÉ à la 東京 brightest", "plain Brightest new", "", "a " * 30])
def test_kernel_and_python_find_the_same_unknown_words(made, text):
    encoder = made[0]
    texts = ["a new one", text, "the end of it"]
    found = encoder.encode(texts).sentences.unknown
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SWITCH, "1")
        other = encoder.encode(texts).sentences.unknown
    words = [
        sorted(zip(w.owners.tolist(), map(bytes, np.split(w.text, w.starts[1:-1])), strict=True))
        for w in (found, other)
    ]
    assert words[0] == words[1] and len(words[0])


def test_repeated_words_count_once(made):
    encoder, *_, module = made
    ids = encoder.encode(["dull", "dull dull dull"]).sentences
    logits = module(ids.padded([0, 1]))
    torch.testing.assert_close(logits[0], logits[1])


def test_weights_follow_what_predicts_held_out_texts():
    rng = np.random.default_rng(0)
    targets = rng.integers(2, size=2000)
    informed = 4.0 * (np.eye(2)[targets] - 0.5) + rng.normal(size=(2000, 2))
    noise = 10.0 * rng.normal(size=(2000, 2))
    head, ngrams = stacking.stacking_weights(noise, informed, targets)
    assert 10 * head < ngrams
    head, ngrams = stacking.stacking_weights(informed, noise, targets)
    assert head > 10 * ngrams
    few = stacking.stacking_weights(noise[:1], informed[:1], targets[:1])
    assert np.allclose(few, stacking.USUAL_WEIGHTS, rtol=0.7)


def test_folds_hold_out_each_text_once_and_spread_classes():
    targets = np.repeat([0, 1, 2], [40, 10, 1])
    folds = stacking.folds_of(targets, 5)
    assert sorted(np.concatenate([held for _, held in folds]).tolist()) == list(range(51))
    for rows, held in folds:
        assert not set(rows) & set(held)
        assert np.bincount(targets[held], minlength=3)[0] == 8


@pytest.mark.parametrize(
    ("name", "place", "value"), [("keys", 1, 12345), ("words", (2, 3), -1.0), ("keys", 2, -7)]
)
def test_damaged_tables_are_refused(made, name, place, value):
    import copy

    module = copy.deepcopy(made[-1])
    module.check_keys()
    getattr(module, name)[place] = value
    with pytest.raises(WordwaveError, match="ngrams"):
        module.check_keys()


def test_an_id_out_of_range_is_refused(made):
    module = made[-1]
    batch = Sentences(torch.tensor([1, 400]), torch.tensor([2])).batch([0])
    with pytest.raises((WordwaveError, IndexError)):
        module.of_batch(batch, None, None)


def test_unknown_words_are_kept_of_the_fitted_texts_only(monkeypatch):
    monkeypatch.setattr(stacking, "MAX_TEXTS", 1000)
    texts = [f"word{i} film" if i % 2 else f"wörd{i} film" for i in range(1200)]
    examples = Examples(texts, ["a", "b", "b"] * 400, "texts")
    settings = ClassificationConfig(
        data=DataConfig(data="(in memory)"), text=TextConfig(max_vocabulary=10)
    )
    job = ClassificationJob(settings).prepare(Splits(examples, None, None))
    fitted = stacking.fitted_rows(1200, 2)
    train, encoder = job.task.train.sentences, job.text_model.encoder
    assert len(fitted) == 1000
    owners = set(train.unknown.owners.tolist())
    assert owners <= set(fitted.tolist()) and len(owners) > 900
    rows = torch.from_numpy(fitted)
    alone = encoder.encode([texts[i] for i in fitted.tolist()]).sentences
    ours, theirs = (s.unknown_of(torch.arange(1000)) for s in (train.subset(rows), alone))
    assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
